"""What a sink is: a value that says what it can do, and opens writers that may be called twice with the same panes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from eventide.sinks.shape import PaneShape


@dataclass(frozen=True)
class Capabilities:
    """What the far end can do; contradictions with an output's policy are found when the pipeline is defined."""

    upsert: bool = False
    """Keeps one row per window and replaces it by rank."""
    retract: bool = False
    """A withdrawn window disappears for readers, and a stale insert does not bring it back."""
    transactional: bool = False
    """One micro-batch becomes visible at once, or not at all."""
    ordered: bool = False
    """Readers see panes in the order in which they were emitted."""
    append: bool = False
    """Can hold late rows and dead letters."""
    parallel: bool = False
    """A large delivery is brought to it by the executors, side by side."""
    generations: bool = False
    """Can be asked which generation it holds, and shows readers another shape in one step (see `TableSink`)."""


@dataclass(frozen=True)
class Delivery:
    """Which micro-batch is being delivered; the same facts come again when a batch is run again after a crash."""

    pipeline: str
    output: str
    batch: int
    clock: int
    """The batch's clock in microseconds since 1970, UTC."""
    watermark: int | None = None


@dataclass(frozen=True)
class Held:
    """What stands in a table: its newest generation, and the signature of the shape that readers see ("": nobody noted it)."""

    generation: int
    signature: str


@dataclass(frozen=True)
class Span:
    """The event time that a generation has read whole: windows that begin at `low` or later and end at `high` or earlier."""

    low: int | None = None
    """In microseconds; None: from the very beginning."""
    high: int | None = None
    """None: to the very end."""


class PaneWriter(Protocol):
    """Writes one output's panes. Those of a window come in rank order: (generation, sequence, insert < retract)."""

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Apply the panes; doing it twice, or after newer panes, changes nothing."""

    def close(self) -> None:
        """Let go of connections; a closed writer is not used again."""


@runtime_checkable
class StagedWriter(PaneWriter, Protocol):
    """A writer whose panes can be staged from many executors at once and then applied in one step. It is picklable."""

    parallel_from: int
    """How many panes a delivery must have to be staged from the executors."""

    def stage(self, part: str, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> str:
        """On an executor: bring one part near the target, replacing an earlier try of it; gives its token."""

    def deliver_staged(self, tokens: list[str], delivery: Delivery) -> None:
        """On the driver: apply all parts in one transaction and remove what was staged; raises StagedPartsLost if one is gone."""


class LogWriter(Protocol):
    """Appends late rows or dead letters, each found again by its identity columns."""

    def append(self, rows: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Append the rows; doing it twice for one batch leaves one copy (or marks the copies as such by identity)."""

    def close(self) -> None:
        """Let go of connections."""


@runtime_checkable
class Sink(Protocol):
    """A place for panes, declared as a plain immutable value; nothing is opened until the pipeline starts."""

    @property
    def capabilities(self) -> Capabilities:
        """What this sink can do."""

    def open(self, output: str, shape: PaneShape) -> PaneWriter:
        """Check or create the target, and give a writer; a target of another shape is refused with the difference."""

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> LogWriter:
        """Check or create a target for late rows or dead letters."""


@runtime_checkable
class PlacedSink(Sink, Protocol):
    """A sink that keeps what it is given, and can say where."""

    def place(self, name: str) -> Hashable:
        """Where results or rows of this name stand: equal for two only if they would stand among each other, and one be taken for the other."""


@runtime_checkable
class TableSink(Sink, Protocol):
    """A sink that stores results for readers, knows whose they are, and can take back or replace those of older generations."""

    def held(self, output: str, shape: PaneShape) -> Held | None:
        """What stands there; None if nothing does."""

    def claim(self, output: str, shape: PaneShape, generation: int) -> None:
        """Note that a generation writes there, before its first result; doing it again changes nothing."""

    def withdraw(self, output: str, shape: PaneShape, generation: int, span: Span) -> bool:
        """Withdraw what generations older than this one hold inside a span; says whether they hold more in windows that end later."""

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """Show readers these panes, of any shape, instead of all that stands, in one step; doing it again changes nothing.

        The panes, one for each window (or delta), may be gone through more than once.
        """


@runtime_checkable
class ReadableSink(Sink, Protocol):
    """A sink that can be asked what stands there, without a write."""

    def stands(self, output: str, shape: PaneShape, generation: int) -> dict[str, tuple[object, ...]]:
        """By window_id, the window's end in microseconds and the values as they are stored, of results of this generation or a newer one."""

    def as_stored(self, values: pa.Table) -> list[tuple[object, ...]]:
        """Rows of values in the form in which they are stored."""
