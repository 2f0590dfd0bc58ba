"""The one door to what a pipeline's runs remember, without Spark: where it stands, under which definition, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from eventide.errors import DefinitionError
from eventide.state.journal import Journal, ledger_in
from eventide.state.ledger import Ledger
from eventide.state.records import record_files
from eventide.state.store import Store, attempt_in
from eventide.storage.files import RecordFiles


class NothingYet(DefinitionError):
    """The pipeline has not committed a batch."""


class Remembered(Protocol):
    """A pipeline, as far as its state is concerned."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def state(self) -> str | None:
        """Its state directory."""


@dataclass(frozen=True)
class State:
    """A state directory, read as it is asked; what was read once is not read again.

    >>> import tempfile
    >>> State(tempfile.mkdtemp(), "clicks").committed is None
    True
    """

    path: str
    name: str
    """Of the pipeline, for what is said to people."""

    @classmethod
    def of(cls, pipeline: Remembered) -> State:
        """The state of a pipeline; one that has none has committed nothing."""
        if pipeline.state is None:
            raise NothingYet(
                f'pipeline {pipeline.name!r} has no state directory, so nothing is remembered of it. Give it one: Pipeline(…, state="state/'
                f'{pipeline.name}").'
            )
        return cls(pipeline.state, pipeline.name)

    @cached_property
    def files(self) -> RecordFiles:
        """Its small records."""
        return record_files(self.path)

    @cached_property
    def journal(self) -> Journal:
        """What was begun and what was committed."""
        return Journal(self.files)

    @cached_property
    def store(self) -> Store:
        """Its tables and parts."""
        return Store(self.path)

    @cached_property
    def last(self) -> dict[str, Any]:
        """What the newest commit notes beside the ledger: its clock, whether the input ended, who holds W; empty where there is none."""
        return self.journal.last() or {}

    @cached_property
    def committed(self) -> Ledger | None:
        """Where everything stands after the newest commit; None: there is none."""
        return ledger_in(self.last or None)

    @property
    def ledger(self) -> Ledger:
        """The same, for who cannot go on without."""
        if self.committed is None:
            raise NothingYet(f"pipeline {self.name!r} has committed nothing in {self.path} yet; run it first.")
        return self.committed

    @cached_property
    def definition(self) -> dict[str, Any] | None:
        """What the state is made by, as it was noted; None: no run has opened it."""
        return self.journal.definition()

    @property
    def sources(self) -> list[str]:
        """The names of its sources, by their places."""
        names: list[str] = (self.definition or {}).get("sources", [])
        return names

    @property
    def generation(self) -> int:
        """The rank of its results among those of other states."""
        return int((self.definition or {}).get("generation", 0))

    @property
    def lanes(self) -> dict[str, list[str]]:
        """By source, the lanes that its runs have waited for from the start."""
        known: dict[str, list[str]] = (self.definition or {}).get("lanes", {})
        return known

    def tables(self, directory: str) -> list[str]:
        """The files below a directory that belong to committed batches."""
        return committed_files(self.store, directory, self.ledger)

    def panes(self, output: str) -> list[str]:
        """The files of an output's emissions."""
        return self.tables(f"panes/{output}")


def committed_files(store: Store, directory: str, ledger: Ledger) -> list[str]:
    """The files below a directory that belong to committed batches, each written by the run that committed its batch."""
    return [path for path in store.files(directory) if is_committed(path, ledger)]


def is_committed(path: str, ledger: Ledger) -> bool:
    """Whether a file belongs to a committed batch, and was written by the run that committed it."""
    batch = int(next(part for part in path.split("/") if part.startswith("batch=")).removeprefix("batch="))
    return batch <= ledger.batch and attempt_in(path) == ledger.attempt_of(batch)
