"""The state that a command asks: named by its pipeline's file or by its own directory, and read while a run may be at work on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from eventide.cli.faults import Refused, retrying
from eventide.cli.loading import load
from eventide.readable.spans import rough

if TYPE_CHECKING:
    from eventide.state.lease import Holder
    from eventide.state.state import State

Answer = TypeVar("Answer")
place_argument = click.argument("place", metavar="FILE|STATE")
json_option = click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")


def asked(place: str, question: Callable[[State], Answer]) -> tuple[State, Answer]:
    """The state of a pipeline's file, or a state directory, and what it answers.

    A run that is at work may remove, with its next commit, what the one before it refers to: then the newer one is asked.
    """
    from eventide.state.steady import steady

    with retrying():
        return steady(lambda: opened(place), question)


def opened(place: str) -> State:
    """The state of a pipeline's file, or a state directory; refused where there is none."""
    from eventide.state.state import State
    from eventide.storage.address import is_local, local_path

    path = Path(local_path(place))
    if is_local(place) and path.is_file():
        return State.of(load(place))
    if is_local(place) and not path.is_dir():
        raise Refused(f"{place}: there is no such pipeline file, and no such state directory.")
    found = State(place, place)
    if found.definition is None:
        raise Refused(
            f"{place} is no state directory: no run has noted a definition in it. Name the one of Pipeline(…, state=…), or the pipeline's file."
        )
    return State(place, found.definition["pipeline"])


def at_work(state: State) -> Holder | None:
    """Who holds a state, or held it last."""
    from eventide.state.lease import holder_of

    return holder_of(state.files, state.path)


def headline(state: State, clock: int, holder: Holder | None) -> str:
    """Which pipeline it is about, as of when, and whether it runs."""
    ago = max(0, time.time_ns() // 1000 - clock)
    who = "stopped" if holder is None or not holder.alive else f"running as process {holder.pid} on {holder.host}"
    if state.last.get("drained"):
        who = "finished"
    return f"{state.name}   batch {state.ledger.batch}, {rough(ago)} ago, {who}"
