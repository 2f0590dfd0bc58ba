"""A state that is read while a run is at work on it: what was asked is answered by one commit, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from eventide.errors import StoreError, StoreUnavailable
from eventide.state.state import State

Answer = TypeVar("Answer")
TRIES = 5
"""How often a state is read again whose run has gone on and removed what was to be read."""


def steady(opened: Callable[[], State], question: Callable[[State], Answer]) -> tuple[State, Answer]:
    """A state, and what it answers.

    A run that is at work may remove, with its next commit, what the one before it refers to: then the newer one is asked.
    """
    for _ in range(TRIES):
        state = opened()
        try:
            return state, question(state)
        except (StoreError, FileNotFoundError):
            if state.committed is None or opened().ledger.batch == state.committed.batch:
                raise
    raise StoreUnavailable(f"the run on {state.path} goes on faster than its state can be read here. Ask again.")


__all__ = ["steady"]
