"""Who sees the lanes of a run: the archive, and the measuring of lateness."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.rows import AuditWriter
from eventide.kernel.bound_plan import Witness
from eventide.lateness.measured import compact
from eventide.lateness.witness import LatenessWitness
from eventide.model.event import LaneId
from eventide.model.window import Window
from eventide.state.archive import ArchiveWriter
from eventide.state.archive_log import publish
from eventide.state.ledger import Ledger
from eventide.state.store import Store
from eventide.storage.address import from_here


@dataclass(frozen=True)
class RunWitnesses:
    """Travels to the workers; makes a witness for each lane and batch."""

    store: Store
    window: Window
    sources: tuple[str, ...]
    archive: str | None
    measure: tuple[str, ...] | None
    generation: int = 0
    audits: bool = False
    """Whether rows are put away as they are read; where duplicates are taken out first, that is done when they are."""

    def __call__(self, batch: int, lane: LaneId) -> Witness:
        """Those who see one lane in one batch."""
        witnesses: list[Witness] = []
        if self.archive is not None:
            witnesses.append(
                ArchiveWriter(self.archive, batch, lane, self.sources[lane[0]], self.generation, self.store.attempt)
            )
        if self.measure is not None:
            witnesses.append(LatenessWitness(self.store, batch, lane, self.sources[lane[0]], self.window, self.measure))
        if self.audits:
            witnesses.append(AuditWriter(self.store, batch, lane, self.generation))
        return witnesses[0] if len(witnesses) == 1 else All(witnesses)


@dataclass
class All(Witness):
    """Several witnesses as one."""

    witnesses: list[Witness]

    def see(self, rows: pl.DataFrame) -> None:
        for witness in self.witnesses:
            witness.see(rows)

    def close(self) -> list[str]:
        return [path for witness in self.witnesses for path in witness.close()]

    def forget(self) -> None:
        for witness in self.witnesses:
            witness.forget()


def witnesses_of(pipeline: Pipeline, store: Store, generation: int, window: Window) -> RunWitnesses | None:
    """Those that a pipeline asks for, if it asks for any; of several windows, `window` is that by which lateness is measured."""
    audits = bool(pipeline.audits) and not pipeline.stream.dedupe_keys
    if pipeline.archive is None and pipeline.measure is None and not audits:
        return None
    names = tuple(source.name for source in pipeline.sources)
    archive = None if pipeline.archive is None else from_here(pipeline.archive)
    return RunWitnesses(store, window, names, archive, pipeline.measure, generation, audits)


def settle(pipeline: Pipeline, store: Store, generation: int, ledger: Ledger, written: list[str] | None) -> None:
    """What is due once a batch is committed: sketches put together, and the archive's log brought up to date with what was written.

    Done again at the start of a run, for a run that died between its last commit and this; then the archive itself is asked.
    """
    compact(store, ledger)
    if pipeline.archive is not None and pipeline.archive_format == "delta":
        publish(pipeline.archive, generation, ledger, written)
