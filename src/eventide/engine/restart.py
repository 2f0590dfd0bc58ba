"""Starting over: the old state is set aside, and the next generation's results replace the old ones in every sink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from eventide.definition.pipeline import Pipeline
from eventide.errors import EventideError
from eventide.log import note
from eventide.state.generations import ASIDE, of_states
from eventide.state.journal import Journal, JournalError, LocalFiles
from eventide.state.lease import Lease
from eventide.storage.address import is_local

Defined = TypeVar("Defined", bound=Pipeline)


class CannotStartOver(EventideError):
    """The state directory cannot be set aside from here."""


def start_over(pipeline: Defined) -> tuple[Defined, Path | None]:
    """The pipeline in its next generation, and where the old state was put (None: there was none)."""
    state = str(pipeline.state)
    if not is_local(state):
        raise CannotStartOver(
            f"only local state is moved from here. Stop the run, move all of {state.rstrip('/')} to {state.rstrip('/')}{ASIDE}N yourself, where N is its "
            "generation (0 for the first), and run again without --start-over: the next generation begins, finds it there, and replaces its results."
        )
    files = LocalFiles(state)
    generation = _generation(files, state)
    if generation is None:
        return pipeline, None
    aside = files.root.with_name(f"{files.root.name}{ASIDE}{generation}")
    if aside.exists():
        raise CannotStartOver(f"{aside} exists already; move it away first, so that nothing is overwritten.")
    lease = Lease.take(files, state)
    try:
        lease.move(lambda: LocalFiles(str(files.root.rename(aside))))
    finally:
        lease.release()
    note(__name__, "state set aside", pipeline=pipeline.name, state=state, aside=aside)
    return replace(pipeline, generation=generation + 1), aside


def _generation(files: LocalFiles, state: str) -> int | None:
    """Of a state that is to be set aside; of one that cannot tell, the next that is free. None: there is no state."""
    journal = Journal(files)
    try:
        facts = journal.definition()
        return None if facts is None else int(facts["generation"])
    except JournalError:
        said = journal.generation()
        return of_states(files, state) + 1 if said is None else said
