"""Runs that die at a named point, and runs on Spark that may."""

from __future__ import annotations

from collections.abc import Callable

from eventide.engine.run import Run


class Killed(Exception):
    """As good as SIGKILL."""


def killed_at(point: str) -> Callable[[str], None]:
    """A hook that dies at a point."""

    def hook(here: str) -> None:
        if here == point:
            raise Killed

    return hook


def catch_up(run: Run) -> None:
    """Let Spark read all that is there."""
    query = run.start(available_now=True)
    try:
        query.awaitTermination()
    except Exception as error:
        if Killed.__name__ in str(error):
            raise Killed from error
        raise
