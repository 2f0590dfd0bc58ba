"""Starting over: the old state is set aside, and the next generation's results replace the old ones in every sink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from eventide.definition.pipeline import Pipeline
from eventide.errors import EventideError
from eventide.log import note
from eventide.state.journal import Journal, LocalFiles
from eventide.state.lease import Lease
from eventide.state.records import is_local

Defined = TypeVar("Defined", bound=Pipeline)


class CannotStartOver(EventideError):
    """The state directory cannot be set aside from here."""


def start_over(pipeline: Defined) -> tuple[Defined, Path | None]:
    """The pipeline in its next generation, and where the old state was put (None: there was none)."""
    state = str(pipeline.state)
    if not is_local(state):
        raise CannotStartOver(
            f"move {state} aside yourself and give the pipeline generation=N + 1: only local state is moved from here."
        )
    files = LocalFiles(state)
    facts = Journal(files).definition()
    if facts is None:
        return pipeline, None
    Lease.take(files, state).release()
    aside = files.root.with_name(f"{files.root.name}.generation-{facts['generation']}")
    if aside.exists():
        raise CannotStartOver(f"{aside} exists already; move it away first, so that nothing is overwritten.")
    files.root.rename(aside)
    note(__name__, "state set aside", pipeline=pipeline.name, state=state, aside=aside)
    return replace(pipeline, generation=facts["generation"] + 1), aside
