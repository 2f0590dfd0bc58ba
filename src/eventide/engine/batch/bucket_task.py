"""The settling on a worker, for one bucket of keys: judge the rows that the sweep has passed, and fire what is due."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import partial

import polars as pl

from eventide.engine.batch.clocks import LaneClocks
from eventide.engine.batch.conservation import check_merge
from eventide.engine.batch.lane_task import by_bucket
from eventide.engine.batch.panes import pane_table
from eventide.engine.batch.rows import placed_rows, write_audited
from eventide.kernel import aggregate, dedupe, judge
from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.columns import (
    ARRIVAL,
    BEHIND,
    END,
    MISSED_FIRST,
    MISSED_LAST,
    OP,
    ORDER,
    POSITION,
    SEEN,
    SLICE,
    TIME,
    TIMING,
    UNSEEN,
    swept_between,
)
from eventide.kernel.fire import DUE, Firing, Moment, held_back, holds_nothing_back, nothing_said
from eventide.kernel.grid import last_end
from eventide.kernel.handing import changes, class_of
from eventide.kernel.join import in_order
from eventide.kernel.keys import one_of_equals
from eventide.kernel.overlap import windows_between
from eventide.kernel.place import KEPT, LATE
from eventide.kernel.session_layers import is_whole, standing
from eventide.kernel.session_windows import SessionFiring, empty_sessions
from eventide.kernel.share import behind_of
from eventide.kernel.view import START, shown_kinds
from eventide.kernel.ways import Ways, ways_of, ways_of_ends
from eventide.model.event import Position
from eventide.model.plan import OutputPlan
from eventide.model.sweep import Step
from eventide.model.time import MAX_TIME
from eventide.model.trigger import PerRow
from eventide.model.window import Session, Sliding
from eventide.state.store import Part, PartKind, Store

COMPACT_ABOVE = 8
"""When more parts than this are read together they are merged into one."""


@dataclass(frozen=True)
class Batch:
    """What every bucket must know of the batch."""

    number: int
    moment: Moment
    steps: tuple[Step, ...]
    after: Position | None
    upto: Position
    diverts: frozenset[str]
    """The outputs that keep the rows that they refuse."""
    kinds: dict[str, pl.DataType]
    """The user's columns and their types."""
    clocks: LaneClocks | None = None
    """The lanes' own clocks, where rows that are refused are told W and the sweep did not see every change of it."""
    joined: dict[str, int | None] = field(default_factory=dict)
    """W when an output joined that was not there from the start."""


@dataclass
class BucketAccount:
    """What the driver hears of one bucket."""

    bucket: int
    added: list[Part] = field(default_factory=list)
    dropped: list[Part] = field(default_factory=list)
    panes: list[tuple[str, str, int]] = field(default_factory=list)
    """(output by name, file, rows)."""
    late: list[tuple[str, str, int]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    judged: int = 0
    late_by_source: dict[str, int] = field(default_factory=dict)
    pairs: int = 0
    """Pairs of row and window that were judged."""
    duplicates: int = 0
    waiting: int = 0
    """Rows kept that lie beyond the sweep, counted where they are stored."""
    aggregation: str = ""
    """Which of several aggregations was settled."""
    audited: list[str] = field(default_factory=list)
    """Files of the rows that went on, where they are an output themselves."""
    looked_from: dict[str, int] = field(default_factory=dict)
    """For outputs whose view holds results back: the start of the earliest window that was looked at, shown or not."""
    rows: dict[str, int] = field(default_factory=dict)
    """Counters of the sides of a join."""
    beyond: dict[str, int] = field(default_factory=dict)
    """Of each side of a join, the rows kept that lie beyond the sweep."""
    ways: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of outputs of the stages above, and of readings there: ways of source rows by verdict."""
    way_pairs: dict[str, int] = field(default_factory=dict)
    """Ways that came to each stage above."""
    handed: dict[str, int] = field(default_factory=dict)
    """Changes of results that were handed on, by stage."""
    taken: int = 0
    """Changes of results that came to this bucket of a stage in this batch."""

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketAccount:
        """The account back from its line."""
        raw = json.loads(text)
        for name in ("added", "dropped"):
            raw[name] = [Part.from_json(p) for p in raw[name]]
        for name in ("panes", "late"):
            raw[name] = [tuple(p) for p in raw[name]]
        return cls(**raw)


class Settling:
    """One bucket in one batch."""

    def __init__(self, shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> None:
        self.shape, self.store, self.batch, self.bucket = shape, store, batch, bucket
        self.parts: dict[PartKind, list[Part]] = {}
        for part in parts:
            self.parts.setdefault(part.kind, []).append(part)
        self.account = BucketAccount(bucket, counts=[{} for _ in shape.plan.outputs], aggregation=shape.name)

    def run(self) -> BucketAccount:
        """Judge, store and fire."""
        rows = self._with_each_step(self._swept_rows())
        self.account.judged += len(rows)
        self.account.late_by_source = judge.late_by_source(rows, self.shape)
        if isinstance(self.shape.plan.window, Session):
            self._sessions(rows)
        else:
            self._windows(rows)
        return self.account

    def _swept_rows(self) -> pl.DataFrame:
        """The rows whose turn has come: those deduplicated, and pairs, already carry W; the others meet W's steps here."""
        if self.shape.pairs is not None:
            return self._pairs()
        kind = PartKind.FIRSTS if self.shape.deduplicates else PartKind.ROWS
        kept = self.store.read(self.parts.get(kind, []))
        self.account.waiting = beyond(self.batch, kept)
        return swept_rows(self.shape, self.batch, kept)

    def _with_each_step(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of sessions with W to the microsecond, where it can be that W has passed them; of any other it is enough that it has not."""
        clocks, now = self.batch.clocks, self.batch.moment.now
        if clocks is None or now is None or not isinstance(self.shape.plan.window, Session):
            return rows
        passed = pl.col(TIME) <= now
        asking = rows.filter(passed)
        return rows if asking.is_empty() else pl.concat([rows.filter(~passed), clocks.beside(asking, self.store)])

    def _pairs(self) -> pl.DataFrame:
        """The pairs that the join has just made, each at the later row's position and with W there."""
        parts = self.parts.get(PartKind.FIRSTS, [])
        self.account.dropped += parts
        made = self.store.read(parts)
        if not made:
            return with_no_watermark(self.shape, self.batch.kinds)
        return in_order(pl.concat(made, how="diagonal_relaxed"), self.batch.number)

    def _windows(self, rows: pl.DataFrame) -> None:
        shape, plan = self.shape, self.shape.plan
        seen = judge.seen_by_windows(rows, shape)
        self.account.pairs += judge.pairs(seen, shape)
        for index, output in enumerate(plan.outputs):
            self.account.counts[index] = judge.verdict_counts(seen, shape, output.allowed)
        self._divert_all(seen)
        fresh = judge.late_partials(seen, shape)
        self._add(PartKind.PARTIAL, self._needed(fresh), SLICE)
        self._follow(ways_of(seen, shape))
        late = self._ordered_late(seen, fresh)
        self._fire(fresh, late, seen)

    def _follow(self, found: Ways) -> None:
        """What became of rows in the stages above."""
        self.account.ways |= {name: dict(counts) for name, counts in found.verdicts.items()}
        self.account.way_pairs |= found.pairs

    def _divert_all(self, seen: pl.DataFrame) -> None:
        """What is refused under the least lateness is all that any output diverts; W is looked up for it once."""
        diverting = [(index, o.allowed) for index, o in enumerate(self.shape.plan.outputs) if o.name in self.batch.diverts]
        if not diverting:
            return
        late = judge.refused(seen, self.shape, min(allowed for _, allowed in diverting))
        if self.batch.clocks is not None and len(late):
            late = self.batch.clocks.beside(late, self.store)
        for index, allowed in diverting:
            self._divert(index, judge.refused(late, self.shape, allowed))

    def _ordered_late(self, seen: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
        """This batch's late partials by window; each row apart where an output fires for every row."""
        shape = self.shape
        apart = [o for o in shape.plan.outputs if isinstance(o.late, PerRow) and shape.stage_over(o.name) is None]
        if not any(output.allowed for output in apart):
            return judge.windows_of(fresh.filter(pl.col(SEEN) != UNSEEN), shape).with_columns(
                pl.lit(0, dtype=pl.Int64).alias(ORDER)
            )
        return self._late_apart(seen, pl.int_range(pl.len(), dtype=pl.Int64))

    def _late_apart(self, seen: pl.DataFrame, order: pl.Expr) -> pl.DataFrame:
        """This batch's late partials by window, apart by the order in which they are to be taken."""
        shape = self.shape
        rows = seen.filter((pl.col(SEEN) != UNSEEN) & (pl.col("__last_end") > pl.col(SEEN) - max(shape.plan.allowances)))
        rows = rows.sort(POSITION).with_columns(order.alias(ORDER))
        apart = aggregate.partial(rows, [SLICE, *shape.keys, SEEN, ORDER], shape.plan.aggregates)
        return judge.windows_of(apart, shape)

    def _late_for(self, above: Above, rows: pl.DataFrame) -> pl.DataFrame:
        """The same for a stage: apart by what W had passed of all that it and those above it ask for."""
        return self._late_apart(rows, class_of(above.chain))

    def _fire(self, fresh: pl.DataFrame, late: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Fire what is due, by partials that are new, those of them that are late, and the rows that they are of."""
        said = [self._said(index) for index in range(len(self.shape.plan.outputs))]
        stored = self._stored(fresh, *self._scope(late, said))
        for index, output in enumerate(self.shape.plan.outputs):
            above = self.shape.stage_over(output.name)
            firing = self._firing(output, said[index], above is not None)
            firing.run(stored, late if above is None else self._late_for(above, rows))
            self._look(output, firing)
            if above is None:
                self._write_panes(index, firing)
            elif firing.panes:
                self._hand_on(above, self._with_starts(firing))
            self._add(PartKind.SAID, firing.new_entries(), END, output=output.name)

    def _firing(self, output: OutputPlan, said: pl.DataFrame, hands_on: bool) -> Firing:
        return Firing(self.shape, output, self.batch.moment, said, self.batch.joined.get(output.name), hands_on)

    def _stored(self, fresh: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
        """Partials of the windows that end in a range, by window: those in the store, and new ones that are on time."""
        low, high = self._slices(first, last)
        parts = [p for p in self.parts.get(PartKind.PARTIAL, []) if p.high >= low and p.low <= high] if low <= high else []
        frames = self.store.read(parts)
        on_time = fresh.filter(pl.col(SEEN) == UNSEEN)
        if len(parts) > COMPACT_ABOVE:
            by = [SLICE, *self.shape.keys, SEEN]
            merged = aggregate.merge(pl.concat(frames, how="diagonal_relaxed"), by, self.shape.plan.aggregates)
            check_merge(frames, merged, self.batch.number)
            self._add(PartKind.PARTIAL, self._needed(merged), SLICE)
            self.account.dropped += parts
            frames = [merged]
        frames = [f for f in [*frames, on_time] if len(f)]
        stored = pl.concat(frames, how="diagonal_relaxed") if frames else fresh.head(0)
        return windows_between(stored.filter(pl.col(SLICE).is_between(low, high)), self.shape, first, last)

    def _slices(self, first: int, last: int) -> tuple[int, int]:
        """Between which times the slices start that windows ending in a range are made of."""
        window = self.shape.plan.window
        assert isinstance(window, Sliding)
        return first - window.size, last

    def _look(self, output: OutputPlan, firing: Firing | SessionFiring) -> None:
        if firing.looked_from is not None:
            self.account.looked_from[output.name] = firing.looked_from

    def _write_panes(self, index: int, firing: Firing) -> None:
        if firing.panes:
            self._panes(index, self._with_starts(firing))

    def _with_starts(self, firing: Firing) -> pl.DataFrame:
        window = self.shape.plan.window
        assert isinstance(window, Sliding)
        return pl.concat(firing.panes, how="diagonal_relaxed").with_columns((pl.col(END) - window.size).alias(START))

    def _hand_on(self, above: Above, panes: pl.DataFrame) -> None:
        """Changes of results to the buckets of the stage over them, which is settled next."""
        told = changes(panes, self.shape.keys, above)
        cut = by_bucket(told, above.shape.keys, above.shape.buckets)
        self.account.added += self.store.write(
            PartKind.STANDING, self.batch.number, cut, about=TIME, aggregation=above.shape.name
        )
        self.account.handed[above.shape.name] = len(told)

    def _panes(self, index: int, panes: pl.DataFrame) -> None:
        output = self.shape.plan.outputs[index]
        name, table = output.name, pane_table(panes, self.shape, output, self.batch.moment.clock)
        path = self.store.write_table(f"panes/{name}", self.batch.number, self._part, table)
        self.account.panes.append((name, path, len(table)))

    def _scope(self, late: pl.DataFrame, said: list[pl.DataFrame]) -> tuple[int, int]:
        """The ends of the windows that anything fired in this batch can need, as a range."""
        window, moment, plan = self.shape.plan.window, self.batch.moment, self.shape.plan
        assert isinstance(window, Sliding)
        ends: list[tuple[int, int]] = []
        if moment.now is not None and moment.now != moment.before:
            ends.append((UNSEEN if moment.before is None else moment.before + 1, moment.now))
        if len(late):
            ends.append((int(late[END].min()), int(late[END].max())))  # type: ignore[arg-type]
        if any(o.early is not None for o in plan.outputs):
            ends.append((UNSEEN if moment.now is None else moment.now, MAX_TIME - window.size))
        for output, entries in zip(plan.outputs, said, strict=True):
            ends += self._awaited(output, entries)
        if not ends:
            return (0, -1)
        return (min(low for low, _ in ends), max(high for _, high in ends))

    def _awaited(self, output: OutputPlan, said: pl.DataFrame) -> list[tuple[int, int]]:
        """Windows whose late rows a trigger holds back, and whose time or end has come."""
        moment = self.batch.moment
        if moment.now is None or not output.allowed or said.is_empty():
            return []
        if holds_nothing_back(output):
            ripe = held_back(said, moment.now)
        else:
            ripe = said.filter((pl.col(DUE) <= moment.clock) | (pl.col(END) <= moment.now - output.allowed))
        return [(int(ripe[END].min()), int(ripe[END].max()))] if len(ripe) else []  # type: ignore[arg-type]

    def _said(self, index: int) -> pl.DataFrame:
        output = self.shape.plan.outputs[index]
        empty = nothing_said(self.shape, output, self._finished_kinds())
        parts = sorted((p for p in self.parts.get(PartKind.SAID, []) if p.output == output.name), key=lambda p: p.batch)
        if not parts:
            return empty
        by = [END, *self.shape.keys]
        said = pl.concat([empty, *self.store.read(parts)], how="diagonal_relaxed").unique(by, keep="last", maintain_order=True)
        before = self.batch.moment.before
        if before is not None:
            said = said.filter(pl.col(END) > before - output.allowed)
        if len(parts) > COMPACT_ABOVE:
            self.account.dropped += parts
            self._add(PartKind.SAID, said, END, output=output.name)
        return said

    def _finished_kinds(self) -> dict[str, pl.DataType]:
        return finished_kinds(self.shape, self.batch.kinds)

    def _needed(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Partials that a later batch may still ask for."""
        window, now = self.shape.plan.window, self.batch.moment.now
        if now is None or not isinstance(window, Sliding):
            return partials
        return partials.filter(last_end(pl.col(SLICE), window) > now - max(self.shape.plan.allowances))

    def _sessions(self, rows: pl.DataFrame) -> None:
        self.account.pairs += len(rows)
        for index, output in enumerate(self.shape.plan.outputs):
            above = self.shape.stage_over(output.name)
            firing = SessionFiring(self.shape, output, self.batch.moment, above)
            parts = sorted((p for p in self.parts.get(PartKind.SESSIONS, []) if p.output == output.name), key=lambda p: p.batch)
            if rows.is_empty() and self._is_still(output, parts):
                continue
            empty = empty_sessions(self.shape, output, self._finished_kinds(), empty_partials(self.shape, self.batch.kinds))
            lives = standing(self.store.read(parts))
            state = empty if lives is None else pl.concat([empty, lives], how="diagonal_relaxed").select(empty.columns)
            changed = firing.run(rows, state)
            self._keep_sessions(output, parts, changed, firing.idle)
            self._look(output, firing)
            rows_too = {f"rows_{name}": number for name, number in firing.counts.items()}
            self.account.counts[index] = {**firing.counts, **rows_too, **firing.causes}
            if above is not None:
                self._follow(ways_of_ends(firing.ends, self.shape, above))
            if firing.panes:
                panes = session_panes(firing, self._finished_kinds())
                if above is None:
                    self._panes(index, panes)
                else:
                    self._hand_on(above, panes.with_columns(class_of(above.chain).alias(judge.W)))
            if output.name in self.batch.diverts and firing.refused:
                missed = rows[sorted(firing.refused)].with_columns(
                    (pl.col(TIME) + self.shape.plan.window.gap).alias(MISSED_FIRST),  # type: ignore[union-attr]
                    (pl.col(TIME) + self.shape.plan.window.gap).alias(MISSED_LAST),  # type: ignore[union-attr]
                )
                self._divert(index, missed)

    def _is_still(self, output: OutputPlan, parts: list[Part]) -> bool:
        """Whether no session is closed, ended or asked for its result: nothing changes without rows."""
        now = self.batch.moment.now
        return not parts or (output.early is None and (now is None or all(part.low > now for part in parts)))

    def _keep_sessions(self, output: OutputPlan, parts: list[Part], changed: pl.DataFrame, idle: pl.DataFrame) -> None:
        """A layer over those that are there; now and then all of them are written anew."""
        if changed.is_empty():
            return
        none_lives = idle.is_empty() and changed[START].null_count() == len(changed)
        if none_lives or is_whole([part.rows for part in parts], len(changed)):
            self.account.dropped += parts
            changed = pl.concat([idle, changed.filter(pl.col(START).is_not_null())], how="diagonal_relaxed")
        self._add(PartKind.SESSIONS, changed, END, output=output.name)

    def _divert(self, index: int, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        name = self.shape.plan.outputs[index].name
        table = late_rows(rows, self.shape.plan.generation)
        path = self.store.write_table(f"late/{name}", self.batch.number, self._part, table)
        self.account.late.append((name, path, len(table)))

    @property
    def _part(self) -> str:
        """Each output has at most one file of panes and one of late rows from each bucket."""
        return f"bucket-{self.bucket:05d}"

    def _add(self, kind: PartKind, frame: pl.DataFrame, about: str, output: str = "") -> None:
        self.account.added += self.store.write(
            kind, self.batch.number, [(self.bucket, frame)], about=about, output=output, aggregation=self.shape.name
        )


def swept_rows(shape: BoundPlan, batch: Batch, kept: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows kept that lie between two sweeps, each with W at its own position."""
    frames = [f.filter(swept_between(batch.after, batch.upto)) for f in kept]
    rows = pl.concat(frames, how="diagonal_relaxed") if frames else empty_rows(shape, batch.kinds)
    if judge.W in rows.columns:
        return rows
    return judge.with_watermark(rows, judge.steps_frame(batch.steps))


def beyond(batch: Batch, kept: list[pl.DataFrame]) -> int:
    """How many of the rows kept lie beyond the sweep, and go on waiting."""
    return sum(f.select((~swept_between(None, batch.upto)).sum()).item() for f in kept)


def deduplicate(shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> BucketAccount:
    """For one bucket of deduplication keys: the first of equal rows goes on, in each aggregation to the bucket of its own key."""
    account = BucketAccount(bucket)
    waiting = store.read(p for p in parts if p.kind == PartKind.ROWS)
    account.waiting = beyond(batch, waiting)
    rows = swept_rows(shape, batch, waiting)
    kept_parts = [p for p in parts if p.kind == PartKind.KEPT]
    empty = empty_rows(shape, batch.kinds).select([*shape.dedupe, TIME])
    kept = pl.concat([empty, *store.read(kept_parts)], how="vertical_relaxed")
    if rows.is_empty() and kept.is_empty():
        return account
    clocks = batch.clocks
    told = (lambda doubtful: doubtful) if clocks is None else partial(clocks.beside, store=store)
    firsts, kept = dedupe.keep_first(rows, kept, shape, told)
    kept = dedupe.forget(kept, batch.moment.now, shape.plan.dedupe_within or 0)
    account.duplicates = len(rows) - len(firsts)
    if shape.audits and len(firsts):
        account.audited.append(write_audited(store, batch.number, f"bucket-{bucket:05d}", firsts, shape.plan.generation))
    account.added += store.write(PartKind.KEPT, batch.number, [(bucket, kept)], about=TIME)
    for one in shape.every:
        cut = by_bucket(_stands_to(firsts, one, shape), one.keys, shape.buckets)
        account.added += store.write(PartKind.FIRSTS, batch.number, cut, about=ARRIVAL, aggregation=one.name)
    account.dropped += kept_parts
    return account


def _stands_to(rows: pl.DataFrame, one: BoundPlan, shape: BoundPlan) -> pl.DataFrame:
    """Rows that were kept for all aggregations, as one of them takes them."""
    behind = rows[behind_of(one)].alias(BEHIND)
    return rows.drop([behind_of(other) for other in shape.every]).with_columns(behind)


def empty_rows(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """No rows, with all their columns."""
    told = {behind_of(one): KEPT[BEHIND] for one in shape.every}
    return pl.DataFrame(schema={**kinds, **KEPT, **told})


def with_no_watermark(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """No rows, with the columns of those that carry W."""
    return empty_rows(shape, kinds).with_columns(pl.lit(None, dtype=pl.Int64).alias(judge.W))


def empty_partials(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """No partials, with all their columns."""
    rows = empty_rows(shape, kinds).with_columns(pl.lit(0, dtype=pl.Int64).alias(SLICE), pl.lit(0, dtype=pl.Int64).alias(SEEN))
    return aggregate.partial(rows, [SLICE, *shape.keys, SEEN], shape.plan.aggregates)


def finished_kinds(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The types of keys and of finished aggregates."""
    done = aggregate.finish(empty_partials(shape, kinds), shape.plan.aggregates)
    return dict(done.schema)


def session_panes(firing: SessionFiring, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """The panes of sessions as a table."""
    shown = shown_kinds(firing.shape, firing.output, kinds)
    schema = {"__start": pl.Int64(), END: pl.Int64(), **{k: kinds[k] for k in firing.shape.keys}, "__sequence": pl.Int64()}
    schema |= {OP: pl.String(), TIMING: pl.String(), **({} if firing.above is None else {judge.W: pl.Int64()}), **shown}
    return one_of_equals(pl.DataFrame(firing.panes, schema=schema), [*shown])


def late_rows(rows: pl.DataFrame, generation: int) -> pl.DataFrame:
    """Refused rows as users read them: the row itself, then where it was, what W was, and which windows it missed."""
    return placed_rows(rows.sort(POSITION), generation, LATE)
