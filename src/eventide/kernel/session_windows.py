"""Sessions of one bucket of keys, one output: rows swept in order join, extend and merge them, W closes and ends them.

Keys whose new rows all lie ahead of W need no order: their rows become fragments at once. The rows of other keys are taken one
by one. Aggregates are never touched in the loop: it only decides which fragments belong together when something fires.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from eventide.kernel import aggregate
from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.columns import BEHIND, END, OP, POSITION, ROWS, SEQUENCE, TIME, TIMING, UNSEEN
from eventide.kernel.expression import holds
from eventide.kernel.fire import DUE, Moment
from eventide.kernel.judge import DISORDER, IDLENESS, W
from eventide.kernel.keys import hashable, known
from eventide.kernel.session_layers import layer_over
from eventide.kernel.view import START, THERE, filters, shown, shown_kinds
from eventide.model.expression import Node
from eventide.model.pane import EARLY, INSERT, LATE, ON_TIME, RETRACT
from eventide.model.plan import OutputPlan
from eventide.model.policy import DISCARDING, RETRACTING
from eventide.model.standing import same_values
from eventide.model.time import MAX_TIME, plus
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerRow, When
from eventide.model.view import WHOLE
from eventide.model.window import Session, Sliding

CLOSED, PENDING, SAID, FRAGMENT = "__closed", "__pending", "__said", "__fragment"


@dataclass
class Open:
    """A session as the loop knows it: its bounds, and which fragments it is made of."""

    start: int
    end: int
    fragments: list[int] = field(default_factory=list)
    rows: int = 0
    pending: int = 0
    closed: bool = False
    due: int | None = None
    said: list[dict[str, Any]] = field(default_factory=list)
    """Results that stand: start, end, sequence and values; and, where results may be absent, those that were withdrawn."""
    absorbed: list[Open] = field(default_factory=list)
    """Sessions that merged into this one and whose results still stand."""


@dataclass(frozen=True)
class Shot:
    """A firing decided by the loop; its values are computed for all firings at once, afterwards."""

    key: tuple[Any, ...]
    session: Open
    bounds: tuple[int, int]
    timing: str
    fragments: tuple[int, ...]
    absorbed: list[Open]
    condition: str | Node | None = None
    seen: int = UNSEEN
    """W at the row that it answers; what W itself brings about is on time for every stage above."""
    withdraws: bool = False
    """Whether it only takes back what stands: the session is open again."""


class SessionFiring:
    """One output's sessions in one batch."""

    def __init__(self, shape: BoundPlan, output: OutputPlan, moment: Moment, above: Above | None = None) -> None:
        assert isinstance(shape.plan.window, Session)
        self.shape, self.output, self.moment, self.above = shape, output, moment, above
        self.gap = shape.plan.window.gap
        self.sessions: dict[tuple[Any, ...], list[Open]] = {}
        self.shots: list[Shot] = []
        self.refused: list[int] = []
        self.counts: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.panes: list[dict[str, Any]] = []
        self.looked_from: int | None = None
        """Where a view holds results back: the start of the earliest session that it looked at, shown or not."""
        self.ends: list[tuple[int, int, int]] = []
        """For the stages above: where the session of a row ended right after it, W at the row, and how many rows there were of the kind."""
        self._filters = filters(output.view) or above is not None
        self.idle = pl.DataFrame()
        """Stored sessions of keys that nothing happens to."""

    def run(self, rows: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        """Take swept rows (with W at their position) into the sessions; gives those of all keys that it looked at, with a gap for each that has none left."""
        keys = list(self.shape.keys)
        self._key_kinds = {key: state.schema[key] for key in keys}
        rows = rows.with_row_index("__row")
        fragments, doubtful = self._fragments(rows)
        busy, self.idle = self._in_scope(state, rows)
        parts = aggregate_parts(self.shape, fragments, doubtful, busy)
        self._load(busy, keys)
        made = self._take_fragments(fragments, keys, base=len(busy))
        self._take_rows(doubtful, keys, base=len(busy) + made)
        self._end_of_batch()
        self._resolve(parts)
        return layer_over(busy, self._stored(parts, state), keys)

    def _fragments(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows of keys that need no order, numbered by fragment; and the others, in position order."""
        keys = list(self.shape.keys)
        behind = (pl.col(TIME) <= pl.col(W)) | pl.lit(self._asks_for_ends)
        marked = rows.with_columns((behind.max().over(keys) if keys else behind.max()).alias("__behind"))
        doubtful = marked.filter("__behind").sort(POSITION).drop("__behind")
        plain = marked.filter(~pl.col("__behind")).drop("__behind").sort([*keys, TIME])
        gap = (pl.col(TIME) - pl.col(TIME).shift(1)).fill_null(MAX_TIME) > self.gap
        change = [pl.col(k).ne_missing(pl.col(k).shift(1)) for k in keys]
        new = pl.any_horizontal([gap, *change]) if change else gap
        plain = plain.with_columns(new.cum_sum().cast(pl.Int64).alias(FRAGMENT))
        return plain, doubtful

    @property
    def _asks_for_ends(self) -> bool:
        """Whether it matters above where exactly a session ended after each row: not where as many windows hold any end."""
        return self.above is not None and any(
            isinstance(one.plan.window, Sliding) and one.plan.window.size % one.plan.window.slide for one in self.above.chain
        )

    def _in_scope(self, state: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Stored sessions of keys that this batch can change, and of those that it cannot."""
        keys = list(self.shape.keys)
        if state.is_empty():
            return state, state
        touched = known(state.select(keys), rows.select(keys)) if keys else pl.Series([len(rows) > 0] * len(state))
        now = UNSEEN if self.moment.now is None else self.moment.now
        ended = pl.lit(True) if now == MAX_TIME else pl.col(END) <= now - self.output.allowed
        moved = pl.when(CLOSED).then(ended | (pl.col(PENDING) > 0)).otherwise(pl.col(END) <= now)
        paced = (pl.col(DUE) <= self.moment.clock).fill_null(False)  # a timer keeps its pace whether or not rows came
        # Rows that wait under a trigger which was another when they came.
        asked = pl.lit(self.output.early is not None) & (pl.col(PENDING) > 0)
        scope = touched | state.select(moved | paced | asked).to_series()
        # A key is looked at whole: what is written of it takes the place of all that was.
        at_all = pl.col("__hit").max()
        whole = state.with_columns(scope.alias("__hit")).with_columns((at_all.over(keys) if keys else at_all).alias("__hit"))[
            "__hit"
        ]
        return state.filter(whole), state.filter(~whole)

    def _load(self, state: pl.DataFrame, keys: list[str]) -> None:
        columns = [START, END, ROWS, PENDING, CLOSED, DUE, SAID]
        for index, row in enumerate(state.select([*keys, *columns]).iter_rows()):
            key, (start, end, rows, pending, closed, due, said) = hashable(row[: len(keys)]), row[len(keys) :]
            fragments = [index] if rows else []
            self.sessions.setdefault(key, []).append(Open(start, end, fragments, rows, pending, closed, due, list(said or [])))

    def _take_fragments(self, plain: pl.DataFrame, keys: list[str], base: int) -> int:
        if plain.is_empty():
            return 0
        spans = plain.group_by(FRAGMENT, maintain_order=True).agg(
            *[pl.col(k).first() for k in keys],
            pl.col(TIME).min().alias(START),
            (pl.col(TIME).max() + self.gap).alias(END),
            pl.len().alias(ROWS),
        )
        for index, row in enumerate(spans.select([*keys, START, END, ROWS]).iter_rows()):
            self._join(hashable(row[: len(keys)]), row[-3], row[-2], row[-1], base + index, None)
        return len(spans)

    def _take_rows(self, doubtful: pl.DataFrame, keys: list[str], base: int) -> None:
        for index, row in enumerate(doubtful.select([*keys, TIME, W, "__row", BEHIND]).iter_rows()):
            key, (time, watermark, number, behind) = hashable(row[: len(keys)]), row[len(keys) :]
            seen = None if watermark == UNSEEN else watermark
            self._pass(key, seen)
            on_time = self.counts["on_time"]
            if not self._join(key, time, plus(time, self.gap), 1, base + index, seen):
                self.refused.append(number)
            if self.counts["on_time"] == on_time:
                self.causes[DISORDER if behind else IDLENESS] += 1

    def _join(self, key: tuple[Any, ...], start: int, end: int, rows: int, fragment: int, watermark: int | None) -> bool:
        sessions = self.sessions.setdefault(key, [])
        allowed = self.output.allowed
        joined = [
            s for s in sessions if s.start <= end and start <= s.end and (watermark is None or watermark < plus(s.end, allowed))
        ]
        start, end = min([start, *(s.start for s in joined)]), max([end, *(s.end for s in joined)])
        if self.above is not None:
            self.ends.append((end, UNSEEN if watermark is None else watermark, rows))
        if watermark is not None and watermark >= plus(end, allowed):
            self.counts["refused"] += rows
            if not sessions:
                del self.sessions[key]
            return False
        late = watermark is not None and watermark >= end
        self.counts["admitted" if late else "on_time"] += rows
        merged = self._merge(sessions, joined, start, end)
        merged.fragments.append(fragment)
        merged.rows += rows
        merged.pending += rows
        merged.closed = late
        trigger = self.output.late if late else self.output.early
        if merged.due is None and isinstance(trigger, Every | After):
            merged.due = self.moment.clock + (trigger.period if isinstance(trigger, Every) else trigger.delay)
        if late and isinstance(self.output.late, PerRow):
            self._shoot(key, merged, LATE, seen=watermark)
        elif self.above is not None and any(one.closed for one in merged.absorbed):
            self._open_again(key, merged, watermark)
        return True

    def _open_again(self, key: tuple[Any, ...], session: Open, watermark: int | None) -> None:
        """A session grew over results that had been handed on: they leave the next stage at this row, whatever comes of it later."""
        absorbed, session.absorbed = session.absorbed, []
        seen, bounds = UNSEEN if watermark is None else watermark, (session.start, session.end)
        self.shots.append(Shot(key, session, bounds, LATE, (), absorbed, seen=seen, withdraws=True))

    def _merge(self, sessions: list[Open], joined: list[Open], start: int, end: int) -> Open:
        if len(joined) == 1 and (joined[0].start, joined[0].end) == (start, end):
            return joined[0]
        merged = Open(start, end)
        for one in sorted(joined, key=lambda s: (s.start, s.end)):
            sessions.remove(one)
            merged.fragments += one.fragments
            merged.rows += one.rows
            merged.pending += one.pending
            dues = [due for due in (merged.due, one.due) if due is not None]
            merged.due = min(dues, default=None)
        merged.absorbed = joined
        sessions.append(merged)
        return merged

    def _pass(self, key: tuple[Any, ...], watermark: int | None) -> None:
        """W has come to here: close and end this key's sessions."""
        if watermark is None:
            return
        sessions = self.sessions.get(key, [])
        for session in sorted(sessions, key=lambda s: (s.end, s.start)):
            if not session.closed and session.end <= watermark:
                session.closed, session.due = True, None
                self._shoot(key, session, ON_TIME)
            if session.closed and (watermark == MAX_TIME or plus(session.end, self.output.allowed) <= watermark):
                if session.pending:
                    self._shoot(key, session, LATE)
                sessions.remove(session)
        if not sessions:
            self.sessions.pop(key, None)

    def _end_of_batch(self) -> None:
        for key in list(self.sessions):
            self._pass(key, self.moment.now)
        for key, sessions in self.sessions.items():
            for session in sorted(sessions, key=lambda s: (s.end, s.start)):
                self._look(key, session)

    def _look(self, key: tuple[Any, ...], session: Open) -> None:
        trigger = self.output.late if session.closed else self.output.early
        if trigger is None or isinstance(trigger, PerRow | AtExpiry):
            return
        timing, clock = LATE if session.closed else EARLY, self.moment.clock
        if isinstance(trigger, Every | After):
            if session.due is None or clock < session.due:
                return
            if isinstance(trigger, After):
                session.due = None
            else:
                session.due += ((clock - session.due) // trigger.period + 1) * trigger.period
        elif isinstance(trigger, EveryRows) and session.pending < trigger.rows:
            return
        if session.pending:
            self._shoot(key, session, timing, trigger.condition if isinstance(trigger, When) else None)

    def _shoot(
        self, key: tuple[Any, ...], session: Open, timing: str, condition: str | Node | None = None, seen: int | None = None
    ) -> None:
        covered = session.pending
        if condition is None:
            session.pending = 0
        absorbed, session.absorbed = session.absorbed, []
        fires = session.fragments and not (self.output.accumulation == DISCARDING and covered == 0)
        fragments = tuple(session.fragments) if fires else ()
        shot = Shot(key, session, (session.start, session.end), timing, fragments, absorbed, condition)
        self.shots.append(shot if seen is None else replace(shot, seen=seen))
        if self.output.accumulation == DISCARDING and condition is None and fires:
            session.fragments, session.rows = [], 0

    def _resolve(self, parts: pl.DataFrame) -> None:
        """Values for every firing at once, then, in order, what each of them says."""
        values = self._values(parts)
        for index, shot in enumerate(self.shots):
            for one in shot.absorbed:
                shot.session.said += self._lineage(one)
            if shot.fragments:
                self._say(shot, values[index])
            elif shot.withdraws:
                self._take_back(shot)
        for sessions in self.sessions.values():
            for session in sessions:
                for one in session.absorbed:
                    session.said += self._lineage(one)

    def _lineage(self, one: Open) -> list[dict[str, Any]]:
        return one.said + [entry for older in one.absorbed for entry in self._lineage(older)]

    def _values(self, parts: pl.DataFrame) -> dict[int, dict[str, Any]]:
        pairs = [(index, fragment) for index, shot in enumerate(self.shots) for fragment in shot.fragments]
        if not pairs:
            return {}
        wanted = pl.DataFrame(pairs, schema={"__shot": pl.Int64, FRAGMENT: pl.Int64}, orient="row")
        joined = wanted.join(parts, on=FRAGMENT, how="inner").drop(FRAGMENT)
        merged = aggregate.merge(joined, ["__shot"], self.shape.plan.aggregates)
        done = aggregate.finish(merged, self.shape.plan.aggregates)
        shots = self.shots
        conditional = {s.condition for s in shots if s.condition}
        for condition in conditional:
            done = done.with_columns(holds(condition, done).alias("__holds"))
        return {row.pop("__shot"): row for row in self._shown(done.drop(ROWS)).to_dicts()}

    def _shown(self, finished: pl.DataFrame) -> pl.DataFrame:
        """What the output's view makes of finished aggregates; keys and bounds stand with the firings."""
        if self.output.view == WHOLE:
            return finished
        keys, names = list(self.shape.keys), [name for name, _ in self.shape.plan.aggregates]
        rows = [(index, *shot.bounds, *shot.key) for index, shot in enumerate(self.shots)]
        schema = {"__shot": pl.Int64(), START: pl.Int64(), END: pl.Int64(), **self._key_kinds}
        whole = finished.join(pl.DataFrame(rows, schema=schema, orient="row"), on="__shot", how="left")
        view = shown(self.output.view, keys, names, whole.schema, pl.col(START))
        return view.of(whole, instead_of=names).drop(START, END, *keys)

    def _take_back(self, shot: Shot) -> None:
        for old in (said for said in shot.session.said if not said["withdrawn"]):
            self._pane(shot, (old["start"], old["end"]), old["sequence"], RETRACT, old["values"])
        shot.session.said = [{**old, "withdrawn": True} for old in shot.session.said]

    def _say(self, shot: Shot, values: dict[str, Any]) -> None:
        if not values.pop("__holds", True) and shot.condition:
            return
        session, output = shot.session, self.output
        if shot.condition:
            session.pending = 0
            if output.accumulation == DISCARDING:
                session.fragments, session.rows = [], 0
        (self._say_or_withdraw if self._filters else self._say_what_changed)(shot, values)

    def _say_what_changed(self, shot: Shot, values: dict[str, Any]) -> None:
        session, output = shot.session, self.output
        here = next((s for s in session.said if (s["start"], s["end"]) == shot.bounds), None)
        if output.accumulation != DISCARDING:
            if here and len(session.said) == 1 and same_values(here["values"], values):
                return
            for old in session.said:
                if (old["start"], old["end"]) != shot.bounds or output.accumulation == RETRACTING:
                    self._pane(shot, (old["start"], old["end"]), old["sequence"], RETRACT, old["values"])
        sequence = here["sequence"] + 1 if here else 0
        session.said = [{"start": shot.bounds[0], "end": shot.bounds[1], "sequence": sequence, "values": values}]
        self._pane(shot, shot.bounds, sequence, INSERT, values)

    def _say_or_withdraw(self, shot: Shot, values: dict[str, Any]) -> None:
        """The same where results may be absent: what stands is withdrawn when its row is there no more, and its sequence is used up."""
        session, there = shot.session, values.pop(THERE, True)
        self.looked_from = shot.bounds[0] if self.looked_from is None else min(self.looked_from, shot.bounds[0])
        standing = [s for s in session.said if not s["withdrawn"]]
        here = next((s for s in session.said if (s["start"], s["end"]) == shot.bounds), None)
        if there and standing == [here] and same_values(standing[0]["values"], values):
            return
        for old in standing:
            if old is not here or self.output.accumulation == RETRACTING or not there:
                self._pane(shot, (old["start"], old["end"]), old["sequence"], RETRACT, old["values"])
        if there:
            sequence = here["sequence"] + 1 if here else 0
            here = {"start": shot.bounds[0], "end": shot.bounds[1], "sequence": sequence, "values": values, "withdrawn": False}
            self._pane(shot, shot.bounds, sequence, INSERT, values)
        elif here:
            here = {**here, "withdrawn": True}
        session.said = [here] if here else []

    def _pane(self, shot: Shot, bounds: tuple[int, int], sequence: int, op: str, values: dict[str, Any]) -> None:
        key = dict(zip(self.shape.keys, shot.key, strict=True)) | ({} if self.above is None else {W: shot.seen})
        self.panes.append({START: bounds[0], END: bounds[1], **key, SEQUENCE: sequence, OP: op, TIMING: shot.timing, **values})

    def _stored(self, parts: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        """The sessions that live on, each with the merged parts of its fragments."""
        flat = [(key, s) for key, sessions in self.sessions.items() for s in sessions]
        pairs = [(index, fragment) for index, (_, s) in enumerate(flat) for fragment in s.fragments]
        wanted = pl.DataFrame(pairs, schema={"__session": pl.Int64, FRAGMENT: pl.Int64}, orient="row")
        joined = wanted.join(parts, on=FRAGMENT, how="inner").drop(FRAGMENT)
        merged = aggregate.merge(joined, ["__session"], self.shape.plan.aggregates).drop(ROWS)
        known = {c: state.schema[c] for c in state.columns if c not in merged.columns}
        rows = [
            {
                **dict(zip(self.shape.keys, key, strict=True)),
                START: s.start, END: s.end, ROWS: s.rows, PENDING: s.pending, CLOSED: s.closed, DUE: s.due, SAID: s.said,
            }
            for key, s in flat
        ]  # fmt: skip
        frame = pl.DataFrame(rows, schema=known).with_row_index("__session").with_columns(pl.col("__session").cast(pl.Int64))
        return frame.join(merged, on="__session", how="left").drop("__session").select(state.columns)


def aggregate_parts(shape: BoundPlan, fragments: pl.DataFrame, doubtful: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The parts of every fragment: stored sessions first, then new fragments, then single rows, numbered in that order."""
    named = shape.plan.aggregates
    old = stored.with_row_index(FRAGMENT).with_columns(pl.col(FRAGMENT).cast(pl.Int64))
    columns = [FRAGMENT, *aggregate.part_columns(old)]
    frames = [old.select(columns)] if len(old) else []
    if len(fragments):
        new = aggregate.partial(fragments, [FRAGMENT], named).sort(FRAGMENT)
        frames.append(new.with_columns(pl.int_range(len(old), len(old) + len(new), dtype=pl.Int64).alias(FRAGMENT)))
    count = len(old) + (len(frames[-1]) if len(fragments) else 0)
    if len(doubtful):
        single = doubtful.with_columns(pl.int_range(count, count + len(doubtful), dtype=pl.Int64).alias(FRAGMENT))
        frames.append(aggregate.partial(single, [FRAGMENT], named))
    if not frames:
        return old.select(columns)
    return pl.concat(frames, how="diagonal_relaxed")


def empty_sessions(shape: BoundPlan, output: OutputPlan, kinds: dict[str, pl.DataType], parts: pl.DataFrame) -> pl.DataFrame:
    """A store of an output's sessions with nothing in it; `parts` shows the columns of partial aggregates."""
    result: dict[str, Any] = {"start": pl.Int64, "end": pl.Int64, "sequence": pl.Int64}
    result["values"] = pl.Struct(shown_kinds(shape, output, kinds))
    withdrawn = filters(output.view) or shape.stage_over(output.name) is not None
    said = pl.List(pl.Struct(result | ({"withdrawn": pl.Boolean} if withdrawn else {})))
    schema: dict[str, Any] = {k: kinds[k] for k in shape.keys}
    schema |= {START: pl.Int64, END: pl.Int64, ROWS: pl.Int64, PENDING: pl.Int64, CLOSED: pl.Boolean, DUE: pl.Int64, SAID: said}
    schema |= {c: parts.schema[c] for c in aggregate.part_columns(parts) if c != ROWS}
    sums = [index for index, (_, what) in enumerate(shape.plan.aggregates) if what.kind == "sum"]
    return pl.DataFrame(schema=schema | {f"{aggregate.PART}{index}_h": pl.Int64 for index in sums})
