"""Why a row became what it did, and why a window says what it says: from the archive and the state, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.archived_lanes import ArchivedLanes
from eventide.engine.changes import describe_definition, free_changes, obstacles
from eventide.errors import DefinitionError
from eventide.kernel.clock import AFTER, BEFORE, LaneClock
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, MARKER, OFFSET, SOURCE, TIME, swept_between
from eventide.kernel.keys import one_of_equals
from eventide.kernel.scan import LaneCarry
from eventide.model.course import Heard
from eventide.model.event import Event, LaneId, Position
from eventide.model.fate import Asked, Case
from eventide.model.frontier import slowest
from eventide.model.plan import Plan
from eventide.model.time import MIN_TIME
from eventide.model.window import Session
from eventide.state.state import State

PLACE = re.compile(r"(?P<source>[^/]+)/(?P<lane>.*)/(?P<offset>\d+)", re.DOTALL)


class NotAnswered(DefinitionError):
    """The question cannot be answered, with why and how it could be."""


@dataclass(frozen=True)
class Found:
    """An archived row, with its place as it counts."""

    position: Position
    batch: int
    event_time: int | None
    dead: str | None
    marker: bool
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asking:
    """A pipeline's archive and state, to be asked about rows."""

    pipeline: Pipeline
    state: State
    archive: ArchivedLanes
    pending: tuple[dict[str, Any], ...] = ()
    """What has been changed in the file since, and no run has taken up yet."""

    @classmethod
    def open(cls, pipeline: Pipeline, *, changed: bool = False) -> Asking:
        """The archive must hold every row that the run has read: W hangs on all of them.

        The definition must be one that the state could go on under, unless a `changed` one is what is asked about.
        """
        state = State.of(pipeline)
        ledger, pending = state.ledger, () if changed else _pending(pipeline, state)
        archive = ArchivedLanes.open(pipeline)
        held = archive.count()
        if held < ledger.rows["in"]:
            raise NotAnswered(
                f"the archive {pipeline.archive} holds {held:,} of the {ledger.rows['in']:,} rows that the run has read (it was added later, or files "
                "were removed), and W hangs on all of them. To have all of them archived: eventide run FILE --start-over, while the sources still hold them."
            )
        return cls(pipeline, state, archive, pending)

    def at(self, place: str) -> Position:
        """The position of the row that is named source/lane/offset, as late rows and dead letters name it."""
        found, names = PLACE.fullmatch(place), [source.name for source in self.pipeline.sources]
        if found is None or found["source"] not in names:
            raise NotAnswered(
                f"{place!r} is no place of a row: source/lane/offset, where the source is one of {', '.join(names)}."
            )
        lane, offset = (names.index(found["source"]), found["lane"]), int(found["offset"])
        if lane not in self.archive.files:
            raise NotAnswered(f"source {found['source']!r} has no lane {found['lane']!r} in the archive.")
        for _, rows in self._clocked(lane, ()):
            here = rows.filter(pl.col(OFFSET) == offset)
            if len(here):
                return (int(here[ARRIVAL][0]), *lane, offset)
        raise NotAnswered(
            f"the archive holds no row at {place}: it was never read, or it is of an older generation of this pipeline."
        )

    def holding(self, column: str, value: str, most: int) -> list[Position]:
        """The rows in whose column a value stands, as text; at most so many."""
        if self.archive.kinds[column].is_nested():
            raise NotAnswered(
                f"the column {column!r} holds nested values, which have no one text. Name a column with plain ones, or source/lane/offset."
            )
        found: list[Position] = []
        for lane in sorted(self.archive.files):
            for _, rows in self._clocked(lane, (column,)):
                here = rows.filter(pl.col(column).cast(pl.String, strict=False) == value).select(ARRIVAL, OFFSET)
                found += [(int(arrival), *lane, int(offset)) for arrival, offset in here.iter_rows()]
                if len(found) > most:
                    return found
        return found

    def row(self, position: Position) -> Found:
        """An archived row."""
        lane = (position[1], position[2])
        for batch, rows in self._clocked(lane, None):
            here = rows.filter(pl.col(OFFSET) == position[3])
            if len(here):
                found = here.row(0, named=True)
                values = {name: found[name] for name in self.archive.users if name in found}
                return Found(position, batch, found[TIME], found[DEAD], bool(found[MARKER]) and found[DEAD] is None, values)
        raise AssertionError(f"{position} was found before")

    def waits(self, position: Position) -> bool:
        """Whether the run has not judged a row yet: not every lane has been read so far."""
        swept = self.state.ledger.swept
        return swept is None or position > swept

    def case(self, row: Event, read: Read, heard: list[Heard]) -> Case:
        """All that the fate of a row hangs on, under the keys of one reading, by what was heard before it."""
        plan = self.plan
        keyed = replace(row, key=read.key(row.row))
        others = [replace(e, key=read.key(e.row)) for e in self._before(row, read)]
        scope = read.scope(row.source)
        return Case(
            plan.sources,
            heard,
            keyed,
            [e for e in others if e.source in scope[0]],
            scope[1],
            plan.when_all_idle,
        )

    def event(self, found: Found) -> Event:
        """The row as the model has it."""
        arrival, source, lane, offset = found.position
        dedupe = Read(self.pipeline.outputs[0]).duplicates(source)
        return Event(
            arrival,
            found.event_time,
            None,
            found.values,
            source,
            lane,
            offset,
            dedupe_key=tuple(found.values.get(k) for k in dedupe),
        )

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What was changed of the definition while the state ran: rows up to there were judged by the older setting."""
        noted: list[dict[str, Any]] = (self.state.definition or {}).get("changes", [])
        return [*noted, *self.pending]

    @property
    def holder(self) -> LaneId | None:
        """The lane that holds W back now."""
        return slowest(self.state.ledger.frontier.lanes)

    @cached_property
    def plan(self) -> Plan:
        """The clocks of its sources, with the lanes that the run has waited for."""
        plan = self.archive.pipeline.plan()
        known = self.state.lanes
        names = [source.name for source in self.pipeline.sources]
        sources = tuple(replace(s, lanes=tuple(known.get(name, ()))) for s, name in zip(plan.sources, names, strict=True))
        return replace(plan, sources=sources)

    def heard(self, upto: Position) -> list[Heard]:
        """What moved the lanes before a position."""
        found: list[Heard] = []
        for lane in self.archive.files:
            found += self._heard(lane, upto)
        return sorted(found, key=lambda heard: heard.position)

    def _heard(self, lane: LaneId, upto: Position) -> list[Heard]:
        idle_after = self.pipeline.sources[lane[0]].idle_after
        said: list[tuple[int, int, int, int | None]] = []
        last: int | None = None
        for _, rows in self._clocked(lane, (), upto):
            before = pl.col(ARRIVAL).shift(1, fill_value=pl.lit(last, dtype=pl.Int64)).alias("__previous")
            told = pl.col(AFTER) != pl.col(BEFORE)
            silent = pl.col("__previous").is_null()
            if idle_after is not None:
                silent = silent | (pl.col(ARRIVAL) - pl.col("__previous") > idle_after)
            kept = rows.with_columns(before).filter(told | silent.fill_null(True))
            said += kept.select(ARRIVAL, OFFSET, AFTER, "__previous").iter_rows()
            last = int(rows[ARRIVAL][-1])
        ends = [*(previous for *_, previous in said[1:]), *([last] if said else [])]
        return [
            Heard((arrival, *lane, offset), None if after == MIN_TIME else after, arrival if until is None else until)
            for (arrival, offset, after, _), until in zip(said, ends, strict=True)
        ]

    def _before(self, row: Event, read: Read) -> list[Event]:
        """The rows before it that its verdict hangs on."""
        columns = (*read.keys, *read.duplicates(row.source))
        dedupe = read.duplicates(row.source)
        wanted: list[pl.Expr] = []
        if dedupe:
            wanted.append(_same(dedupe, row.row) if not read.sessions else pl.lit(True))
        elif read.sessions:
            wanted.append(_same(read.keys, row.row))
        return self.events(columns, row.position, wanted[0], dedupe) if wanted else []

    def events(self, columns: tuple[str, ...], upto: Position, wanted: pl.Expr, dedupe: tuple[str, ...]) -> list[Event]:
        """Rows before a position that are neither broken nor markers, with some of their columns."""
        found: list[Event] = []
        for lane in self.archive.files:
            for _, rows in self._clocked(lane, columns, upto):
                kept = one_of_equals(rows, columns).filter(pl.col(DEAD).is_null() & ~pl.col(MARKER) & wanted)
                for one in kept.select(ARRIVAL, OFFSET, TIME, *dict.fromkeys(columns)).iter_rows(named=True):
                    values = {name: one[name] for name in columns}
                    same = tuple(values[name] for name in dedupe)
                    found.append(Event(one[ARRIVAL], one[TIME], None, values, *lane, one[OFFSET], dedupe_key=same))
        return sorted(found, key=lambda event: event.position)

    def _clocked(
        self, lane: LaneId, columns: tuple[str, ...] | None, upto: Position | None = None
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """A lane's rows in order before a position, with the batch that each came in and the lane's watermark before and after it."""
        clock = LaneClock(self.plan.sources[lane[0]].strategy, LaneCarry(), lane)
        for batch, rows in self.archive.batches(lane, columns):
            placed = rows.with_columns(pl.lit(lane[0], dtype=pl.Int64).alias(SOURCE), pl.lit(lane[1]).alias(LANE))
            if upto is not None:
                inside = placed.filter(swept_between(None, upto) & ~_at(upto))
                if len(inside):
                    yield batch, clock.run(clock.timed(inside))
                if len(inside) < len(placed):
                    return
            elif len(placed):
                yield batch, clock.run(clock.timed(placed))


@dataclass(frozen=True)
class Read:
    """How an output reads rows: by which keys and windows, and by way of which others."""

    output: Output

    @property
    def join(self) -> Join | None:
        """The join whose sides let the rows in."""
        one = self.output.aggregation
        return one if isinstance(one, Join) else one.pairs

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of rows by which they come together."""
        one = self.output.aggregation
        return () if self.join is not None else next(iter(one.below), one).keys

    @property
    def sessions(self) -> bool:
        """Whether rows come together in sessions first."""
        return isinstance(self.asked.below[0][0] if self.asked.below else self.asked.window, Session)

    @property
    def asked(self) -> Asked:
        """The same for the model; of a join, whether it lets the row in."""
        name, one, join = self.output.name, self.output.aggregation, self.join
        if join is not None:
            return Asked(name, join.grid, join.late.allowed)
        chain = [*one.below, one]
        lateness = [above.over.late.allowed for above in chain[1:] if above.over is not None]
        below = tuple((stage.grid, allowed) for stage, allowed in zip(chain, lateness, strict=False))
        return Asked(name, one.grid, self.output.late.allowed, below)

    def key(self, values: dict[str, Any] | Any) -> tuple[Any, ...]:
        """A row's key."""
        return tuple(values.get(name) for name in self.keys)

    def duplicates(self, source: int) -> tuple[str, ...]:
        """The columns by which duplicates of a source's rows are told."""
        if self.join is None:
            return self.output.aggregation.stream.dedupe_keys
        return self._side(source).dedupe_keys

    def scope(self, source: int) -> tuple[tuple[int, ...], int | None]:
        """The sources among which a row may be a duplicate, and within how much event time."""
        if self.join is None:
            stream = self.output.aggregation.stream
            return tuple(range(len(stream.sources))), stream.dedupe_within
        side = self._side(source)
        return self.join.sides()[0 if side is self.join.left else 1], side.dedupe_within

    def _side(self, source: int) -> Any:
        assert self.join is not None, "asked of joins alone"
        return self.join.left if source in self.join.sides()[0] else self.join.right


def _pending(pipeline: Pipeline, state: State) -> tuple[dict[str, Any], ...]:
    stored = state.definition
    assert stored is not None, "a state that has committed has noted its definition"
    mine = {**describe_definition(pipeline, {}, state.lanes, stored["buckets"]), "columns": stored["columns"]}
    wrong = obstacles(stored, mine)
    if wrong:
        raise NotAnswered(
            f"the definition is not the one that the state in {state.path} was made by: {' '.join(wrong)} Ask by the file as it was; what the change "
            "would do, `eventide plan FILE` says."
        )
    return tuple(free_changes(stored, mine, state.ledger.batch))


def _same(columns: tuple[str, ...], values: Mapping[str, object]) -> pl.Expr:
    return pl.all_horizontal([pl.lit(True), *(pl.col(name).eq_missing(pl.lit(values.get(name))) for name in columns)])


def _at(position: Position) -> pl.Expr:
    return (
        (pl.col(ARRIVAL) == position[0]) & (pl.col(SOURCE) == position[1]) & (pl.col(LANE) == position[2])
        & (pl.col(OFFSET) == position[3])
    )  # fmt: skip


__all__ = ["Asking", "Found", "NotAnswered", "Read"]
