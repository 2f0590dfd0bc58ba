"""The plan that the kernel works by, bound to the columns that it reads, and who sees the rows go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import polars as pl

from eventide.model.event import LaneId
from eventide.model.plan import OutputPlan, Plan
from eventide.model.window import Session

if TYPE_CHECKING:
    from eventide.kernel.sides import JoinPlan


class Witness(Protocol):
    """Sees every row of a lane as it is scanned: arrivals raised, dead letters named, the lane's clock beside each row."""

    def see(self, rows: pl.DataFrame) -> None:
        """The next rows of the lane."""

    def close(self) -> list[str]:
        """The end of what was read; the files that the driver must hear of."""

    def forget(self) -> None:
        """Undo what was written: the lane could not be read to its end, and may be read again."""


Witnesses = Callable[[int, LaneId], Witness | None]
"""Who sees a lane in a batch."""


def counter_of(aggregation: str, what: str) -> str:
    """Under which name an aggregation, unlike its neighbours, counts something; an only one has no name.

    >>> counter_of("", "judged"), counter_of("1", "judged")
    ('judged', '1/judged')
    """
    return f"{aggregation}/{what}" if aggregation else what


@dataclass(frozen=True)
class BoundPlan:
    """The plan with the names of the columns that it reads."""

    plan: Plan
    keys: tuple[str, ...] = ()
    dedupe: tuple[str, ...] = ()
    buckets: int = 1
    max_ahead: tuple[int | None, ...] = ()
    """For each source: an event time further than this after its arrival is absurd: a dead letter, never a watermark."""
    max_skew: tuple[int | None, ...] = ()
    """For each source: an arrival further than this after the batch's clock is lowered to the clock."""
    witnesses: Witnesses | None = None
    tells_watermark: bool = False
    """Whether rows that are refused are kept, with W as it stood."""
    needed: frozenset[str] | None = None
    """The user's columns that are computed with; None: all of them go on."""
    audits: bool = False
    """Whether the rows that go on are an output themselves."""
    name: str = ""
    """Which of the aggregations over its stream it is, as the state knows it; an only one has no name."""
    beside: tuple[BoundPlan, ...] = ()
    """The other aggregations over the same stream, which is read once for all of them."""
    join: JoinPlan | None = None
    """Where the pipeline joins two streams: their rows stand on its sides."""
    pairs: JoinPlan | None = None
    """The join whose pairs are its rows, where it is an aggregation over them."""

    above: tuple[Above, ...] = ()
    """The stages over its results."""
    over_results: bool = False
    """Whether it is a stage itself: its rows are results, which may be withdrawn."""

    @property
    def every(self) -> tuple[BoundPlan, ...]:
        """All aggregations over the stream."""
        return (self, *self.beside)

    @property
    def stages(self) -> tuple[Above, ...]:
        """All stages over aggregations of the stream, each after what it reads."""
        found, level = list[Above](), [stage for one in self.every for stage in one.above]
        while level:
            found += level
            level = [stage for below in level for stage in below.shape.above]
        return tuple(found)

    @property
    def nodes(self) -> tuple[BoundPlan, ...]:
        """All aggregations, over the stream and over results: W is compared with the windows of each."""
        return (*self.every, *(stage.shape for stage in self.stages))

    @property
    def outputs(self) -> tuple[OutputPlan, ...]:
        """The outputs of all aggregations; the readings by which stages see results are none."""
        return tuple(output for one in self.nodes for output in one.plan.outputs if one.stage_over(output.name) is None)

    @property
    def reads(self) -> dict[str, str]:
        """Which aggregation each output and each reading of a stage reads, by name."""
        return {output.name: one.name for one in self.nodes for output in one.plan.outputs}

    def stage_over(self, reading: str) -> Above | None:
        """The stage that sees its results by a reading; None of an output."""
        return next((stage for stage in self.above if stage.reading == reading), None)

    def counter(self, what: str) -> str:
        """Under which name rows are counted that this aggregation has sorted or judged."""
        return counter_of(self.name, what)

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """The columns of the rows that are read by which they are told apart: keys, and what tells duplicates; a join's sides have their own."""
        keys = () if self.join is not None else (key for one in self.every for key in one.keys)
        return tuple(dict.fromkeys([*keys, *self.dedupe]))

    def witness(self, batch: int, lane: LaneId) -> Witness | None:
        """Who sees a lane's rows in a batch, if anybody does."""
        return None if self.witnesses is None else self.witnesses(batch, lane)

    @property
    def sweeps_all(self) -> bool:
        """Whether the sweep sees every change of a lane's watermark, not only those that can change a window's verdict."""
        return any(one.join is not None for one in self.every) or self.plan.when_all_idle == "advance"

    @property
    def keeps_clocks(self) -> bool:
        """Whether the lanes' own clocks are kept until they are swept: the buckets look W up in them, row by row, and the driver does not."""
        return (self.tells_watermark or self.needs_each_step) and not self.sweeps_all

    @property
    def needs_each_step(self) -> bool:
        """Whether any step of W can change an answer: sessions end at every instant, and what is remembered of duplicates too."""
        return any(one.keeps_rows for one in self.every)

    @property
    def keeps_rows(self) -> bool:
        """Whether rows stay rows until they are swept: sessions, duplicates and sides of a join are judged row by row, in order."""
        return isinstance(self.plan.window, Session) or self.deduplicates or self.join is not None

    @property
    def deduplicates(self) -> bool:
        """Whether the stream's duplicates are taken out before anything is judged."""
        return self.plan.dedupe_within is not None


@dataclass(frozen=True)
class Above:
    """A stage: an aggregation whose rows are the standing results of the one below it."""

    reading: str
    """The output of the aggregation below by which it sees results; it corrects row by row, and says what it withdraws."""
    shape: BoundPlan
    kinds: Mapping[str, pl.DataType]
    """The columns of results that it reads."""

    @property
    def chain(self) -> tuple[BoundPlan, ...]:
        """It and all stages that its results go on to."""
        return (self.shape, *(one for stage in self.shape.above for one in stage.chain))
