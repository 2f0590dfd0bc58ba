"""Panes from partials: on time when W passes a window's end, early and late as the output's triggers say.

`said` holds, for each window and key of an output about which more was said than one on-time result, the last sequence, the values
then standing, and how many rows they cover. A closed window that has no entry there has said its on-time result once; where a view
holds results back, that may have been nothing. A result that was withdrawn has used up its sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from eventide.kernel import aggregate
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import COVERED, END, OP, ORDER, ROWS, SEEN, SEQUENCE, TIMING, UNSEEN
from eventide.kernel.expression import holds
from eventide.kernel.judge import W
from eventide.kernel.turns import FIRST, last_in_turn, numbered, totals_in_turn, what_stood_before
from eventide.kernel.view import THERE, filters, shown, shown_kinds
from eventide.model.pane import EARLY, INSERT, LATE, ON_TIME, RETRACT
from eventide.model.plan import OutputPlan
from eventide.model.policy import DISCARDING, RETRACTING
from eventide.model.time import MAX_TIME
from eventide.model.trigger import After, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.view import WHOLE
from eventide.model.window import Sliding

DUE = "__due"
UNTIMED = MAX_TIME
"""Due at no time of its own: rows are held back until there are enough of them, or until the allowed lateness ends."""
PLAIN = "__plain"
"""An entry that says no more than one on-time result: what a window without an entry is taken to have said."""
COMES = "__comes"
"""Whether a result is said: it is there, and another than what stood."""
WITHDRAWN = "__withdrawn"
"""Nothing stands although something was said; only an output whose results may be absent has this column."""


@dataclass(frozen=True)
class Moment:
    """From which W to which W a batch moved (None: undefined), and the batch's clock."""

    before: int | None
    now: int | None
    clock: int


@dataclass
class Firing:
    """One output's panes of one batch, for one bucket of keys."""

    shape: BoundPlan
    output: OutputPlan
    moment: Moment
    said: pl.DataFrame
    joined: int | None = None
    """W when the output joined a run that had begun without it: windows that had closed by then have said nothing."""
    hands_on: bool = False
    """Whether its panes are changes for the next stage: each says under which class of W it came."""
    panes: list[pl.DataFrame] = field(default_factory=list)
    entries: list[pl.DataFrame] = field(default_factory=list)
    looked_from: int | None = None
    """Where a view holds results back: the start of the earliest window that it looked at, shown or not."""
    _corrects: bool = True

    def __post_init__(self) -> None:
        aggregates = [name for name, _ in self.shape.plan.aggregates]
        self.names = (
            aggregates if self.output.view == WHOLE else list(self.output.view.names(self.shape.keys, aggregates, "view"))
        )
        self._filters = may_be_absent(self.shape, self.output)

    def run(self, stored: pl.DataFrame, late: pl.DataFrame) -> None:
        """Fire over the windows in scope: `stored` are partials by window end, `late` those of this batch's late rows."""
        still_open = pl.col(SEEN) < pl.col(END)
        stored = _both(stored, late.filter(still_open))
        late = late.filter(~still_open)
        self._corrects = self.output.allowed > 0 and len(late) > 0
        self._close(stored)
        self._late(stored, late)
        self._early(stored)
        self._expire(stored, late)

    @property
    def by(self) -> list[str]:
        """What a result is kept for: the window's end and the key."""
        return [END, *self.shape.keys]

    def _close(self, stored: pl.DataFrame) -> None:
        if self.moment.now is None:
            return
        closing = pl.col(END) <= self.moment.now
        if self.moment.before is not None:
            closing = closing & (pl.col(END) > self.moment.before)
        on_time = stored.filter(closing & (pl.col(SEEN) < pl.col(END)))
        if len(on_time):
            self._emit(self._merged(on_time), ON_TIME)

    def _late(self, stored: pl.DataFrame, late: pl.DataFrame) -> None:
        fresh = late.filter(pl.col(SEEN) - self.output.allowed < pl.col(END))
        trigger = self.output.late
        if len(fresh):
            self._correct(stored, fresh)
        if isinstance(trigger, Every | After):
            self._fire_due(stored)
        elif holds_nothing_back(self.output):
            self._fire_held(stored)

    def _correct(self, stored: pl.DataFrame, fresh: pl.DataFrame) -> None:
        trigger = self.output.late
        touched = fresh.select(self.by).unique()
        held = stored.join(touched, on=self.by, how="semi", nulls_equal=True)
        self._imply(held, touched)
        base = held.filter(pl.col(SEEN) - self.output.allowed < pl.col(END))
        if isinstance(trigger, PerRow):
            self._row_by_row(base, fresh)
            return
        total = self._merged(_both(base, fresh))
        self._emit(total if isinstance(trigger, PerBatch) else self._wanting(total, trigger), LATE)

    def _row_by_row(self, base: pl.DataFrame, fresh: pl.DataFrame) -> None:
        """A result for each late row, in their order; a retract comes before its insert."""
        begun = len(self.panes)
        for totals in self._in_turn(base, fresh):
            self._emit(totals, LATE)
        if panes := self.panes[begun:]:
            inserted = pl.col(OP) == INSERT
            self.panes[begun:] = [
                pl.concat(panes, how="diagonal_relaxed").sort(ORDER, inserted, maintain_order=True).drop(ORDER)
            ]

    def _in_turn(self, base: pl.DataFrame, fresh: pl.DataFrame) -> Iterator[pl.DataFrame]:
        return totals_in_turn(
            base, fresh, self.by, lambda partials, by: aggregate.merge(partials, by, self.shape.plan.aggregates)
        )

    def _early(self, stored: pl.DataFrame) -> None:
        trigger = self.output.early
        if trigger is None:
            return
        open_ = stored if self.moment.now is None else stored.filter(pl.col(END) > self.moment.now)
        if len(open_):
            self._emit(self._wanting(self._merged(open_), trigger), EARLY)

    def _fire_due(self, stored: pl.DataFrame) -> None:
        due = self.said.filter((pl.col(DUE) <= self.moment.clock) & (pl.col(END) <= self._now))
        if len(due):
            held = stored.join(due.select(self.by), on=self.by, how="semi", nulls_equal=True)
            admitted = held.filter(pl.col(SEEN) - self.output.allowed < pl.col(END))
            self._emit(self._wanting(self._merged(admitted), self.output.late), LATE)

    def _fire_held(self, stored: pl.DataFrame) -> None:
        """What an older definition's trigger has held back comes now: this one has no other moment for it."""
        held = held_back(self.said, self._now)
        if len(held):
            windows = stored.join(held.select(self.by), on=self.by, how="semi", nulls_equal=True)
            self._emit(self._merged(windows.filter(pl.col(SEEN) - self.output.allowed < pl.col(END))), LATE)

    @property
    def _now(self) -> int:
        return UNSEEN if self.moment.now is None else self.moment.now

    def _expire(self, stored: pl.DataFrame, late: pl.DataFrame) -> None:
        """What a trigger still holds back when the allowed lateness ends is emitted then: the last value is complete."""
        if self.moment.now is None or holds_nothing_back(self.output) or self.output.allowed == 0:
            return
        ending = (
            self.said.filter(pl.col(END) <= self.moment.now - self.output.allowed) if self.moment.now != MAX_TIME else self.said
        )
        if self.moment.before is not None:
            ending = ending.filter(pl.col(END) > self.moment.before - self.output.allowed)
        if len(ending):
            held = _both(stored, late).join(ending.select(self.by), on=self.by, how="semi", nulls_equal=True)
            self._emit(self._merged(held.filter(pl.col(SEEN) - self.output.allowed < pl.col(END))), LATE)

    def _merged(self, partials: pl.DataFrame) -> pl.DataFrame:
        return aggregate.merge(partials, self.by, self.shape.plan.aggregates)

    def _imply(self, held: pl.DataFrame, touched: pl.DataFrame) -> None:
        """Enter what closed windows said without an entry: their on-time result, once."""
        unknown = touched.join(self.said.select(self.by), on=self.by, how="anti", nulls_equal=True)
        if self.moment.before is None:
            return
        unknown = unknown.filter(pl.col(END) <= self.moment.before)
        if self.joined is not None:
            unknown = unknown.filter(pl.col(END) > self.joined)
        on_time = held.filter(pl.col(SEEN) < pl.col(END)).join(unknown, on=self.by, how="semi", nulls_equal=True)
        if len(on_time):
            said = self._shown(self._finished(self._merged(on_time)))
            first = pl.when(THERE).then(0).otherwise(-1) if self._filters else pl.lit(0)
            self._note(said.with_columns(first.cast(pl.Int64).alias(SEQUENCE), pl.lit(False).alias(WITHDRAWN)))

    def _finished(self, merged: pl.DataFrame) -> pl.DataFrame:
        done = aggregate.finish(merged, self.shape.plan.aggregates)
        return done.rename({ROWS: COVERED}).with_columns(pl.lit(None, dtype=pl.Int64).alias(DUE)).drop(SEEN, strict=False)

    def _shown(self, finished: pl.DataFrame) -> pl.DataFrame:
        """What the output's view makes of finished aggregates."""
        if self.output.view == WHOLE:
            return finished
        window = self.shape.plan.window
        assert isinstance(window, Sliding)
        aggregates = [name for name, _ in self.shape.plan.aggregates]
        view = shown(self.output.view, self.shape.keys, aggregates, finished.schema, pl.col(END) - window.size)
        return view.of(finished, instead_of=aggregates)

    def _wanting(self, merged: pl.DataFrame, trigger: object) -> pl.DataFrame:
        """The windows that a trigger fires now; those with a timer and no firing yet are noted with the time they are due."""
        if merged.is_empty():
            return merged
        known = self.said.select([*self.by, SEQUENCE, COVERED, DUE])
        seen = merged.join(known, on=self.by, how="left", nulls_equal=True)
        fresh = pl.col(ROWS) - pl.col(COVERED).fill_null(0)
        if isinstance(trigger, EveryRows):
            self._track(seen, pl.lit(UNTIMED))
            return merged.filter(seen.select(fresh >= trigger.rows).to_series())
        if isinstance(trigger, When):
            return merged.filter(seen.select(fresh > 0).to_series() & holds(trigger.condition, self._to_say(merged)))
        if not isinstance(trigger, Every | After):
            self._track(seen, pl.lit(UNTIMED))
            return merged.head(0)
        seen = seen.with_columns(pl.when(pl.col(DUE) != UNTIMED).then(pl.col(DUE)).alias(DUE))
        return self._timed(merged, seen, trigger, fresh)

    def _to_say(self, merged: pl.DataFrame) -> pl.DataFrame:
        """The values that a firing would emit now: totals, or in a discarding output what came since the last."""
        done = self._finished(merged)
        return self._deltas(self._beside_said(done.drop(DUE))) if self.output.accumulation == DISCARDING else done

    def _timed(self, merged: pl.DataFrame, seen: pl.DataFrame, trigger: Every | After, fresh: pl.Expr) -> pl.DataFrame:
        clock = self.moment.clock
        span = trigger.period if isinstance(trigger, Every) else trigger.delay
        ripe = pl.col(DUE).is_not_null() & (pl.col(DUE) <= clock)
        if isinstance(trigger, Every):
            due = (
                pl.when(ripe)
                .then(pl.col(DUE) + ((clock - pl.col(DUE)) // span + 1) * span)
                .otherwise(pl.coalesce(DUE, clock + span))
            )
        else:
            waits = pl.when(fresh > 0).then(pl.coalesce(DUE, clock + span)).otherwise(pl.col(DUE))
            due = pl.when(ripe).then(None).otherwise(waits)
        self._track(seen, due)
        return merged.filter(seen.select((ripe & (fresh > 0)).fill_null(False)).to_series())

    def _track(self, seen: pl.DataFrame, due: pl.Expr) -> None:
        """Note windows under a timer or a count, keeping what they have said."""
        entry = seen.select([*self.by, SEQUENCE, COVERED, due.cast(pl.Int64).alias(DUE)])
        said = self.said.select([*self.by, *self._standing])
        entry = entry.join(said, on=self.by, how="left", nulls_equal=True)
        entry = entry.with_columns(pl.col(SEQUENCE).fill_null(-1), pl.col(COVERED).fill_null(0))
        self._note(entry)

    def _emit(self, merged: pl.DataFrame, timing: str) -> None:
        """Panes for the windows whose result is new, and their entries."""
        if merged.is_empty():
            return
        both = self._beside_said(self._shown(self._finished(merged)).drop(DUE))
        both = both.with_columns(pl.col(SEQUENCE).is_null().alias(PLAIN))
        if self._filters:
            both = both.with_columns(pl.col(f"__was_{WITHDRAWN}").fill_null(False))
        both = what_stood_before(both, self.by, self.names, (THERE, WITHDRAWN) if self._filters else None)
        (self._emit_filtered if self._filters else self._emit_all)(both, timing)

    def _emit_all(self, both: pl.DataFrame, timing: str) -> None:
        names = self.names
        said = (pl.col(SEQUENCE) >= 0) | ~pl.col(FIRST)
        if self.output.accumulation == DISCARDING:
            changed = pl.col(COVERED) > pl.col(f"__was_{COVERED}").fill_null(0)
        else:
            differs = [pl.col(n).ne_missing(pl.col(f"__was_{n}")) for n in names]
            changed = ~said | pl.any_horizontal(differs)
        both = numbered(both.with_columns(changed.alias(COMES)), self.by, COMES)
        if self.output.accumulation == RETRACTING:
            self._pane(both.filter(pl.col(COMES) & said), RETRACT, timing)
        both = both.with_columns(pl.col(SEQUENCE) + pl.col(COMES).cast(pl.Int64))
        self._pane(self._deltas(both.filter(COMES)), INSERT, timing)
        self._enter(both, timing)

    def _emit_filtered(self, both: pl.DataFrame, timing: str) -> None:
        """The same where results may be absent: what stands is withdrawn when its row is there no more, in every mode."""
        window = self.shape.plan.window
        assert isinstance(window, Sliding)
        first = int(both[END].min()) - window.size  # type: ignore[arg-type]
        self.looked_from = first if self.looked_from is None else min(self.looked_from, first)
        stands = ((pl.col(SEQUENCE) >= 0) | ~pl.col(FIRST)) & ~pl.col(f"__was_{WITHDRAWN}")
        differs = pl.any_horizontal([pl.col(n).ne_missing(pl.col(f"__was_{n}")) for n in self.names])
        comes = pl.col(THERE) & (~stands | differs)
        goes = stands & (~pl.col(THERE) | (pl.lit(self.output.accumulation == RETRACTING) & differs))
        both = numbered(both.with_columns(comes.alias(COMES)), self.by, COMES)
        self._pane(both.filter(goes), RETRACT, timing)
        both = both.with_columns(
            (~pl.col(THERE) & (pl.col(SEQUENCE) >= 0)).alias(WITHDRAWN),
            (pl.col(SEQUENCE) + pl.col(COMES).cast(pl.Int64)).alias(SEQUENCE),
        )
        self._pane(both.filter(COMES), INSERT, timing)
        self._enter(both, timing)

    def _enter(self, both: pl.DataFrame, timing: str) -> None:
        rests = timing == ON_TIME or (timing == LATE and holds_nothing_back(self.output))
        entries = last_in_turn(both, self.by).with_columns(
            (pl.col(PLAIN) & pl.lit(timing == ON_TIME)).alias(PLAIN),
            (pl.lit(None, dtype=pl.Int64) if rests else pl.col(DUE)).alias(DUE),
        )
        self._note(entries if self._corrects else entries.filter(~pl.col(PLAIN)))

    @property
    def _standing(self) -> list[str]:
        """The columns that say what stands of a window."""
        return [*self.names, WITHDRAWN] if self._filters else self.names

    def _beside_said(self, now: pl.DataFrame) -> pl.DataFrame:
        """Each result beside what was said of its window; nearly always nothing was, and there is nothing to look up."""
        names = self._standing
        was = self.said.select([*self.by, SEQUENCE, COVERED, DUE, *names]).rename({n: f"__was_{n}" for n in (*names, COVERED)})
        if len(was):
            return now.join(was, on=self.by, how="left", nulls_equal=True)
        return now.with_columns([pl.lit(None, dtype=kind).alias(n) for n, kind in was.schema.items() if n not in self.by])

    def _deltas(self, news: pl.DataFrame) -> pl.DataFrame:
        if self.output.accumulation != DISCARDING:
            return news
        changes = []
        for name in self.names:
            before = pl.col(f"__was_{name}")
            if isinstance(news[name].dtype, pl.List):
                pairs = zip(news[name].to_list(), news[f"__was_{name}"].to_list(), strict=True)
                changes.append(pl.lit(pl.Series(name, [_without(a, b) for a, b in pairs], dtype=news[name].dtype)).alias(name))
            else:
                changes.append(pl.when(before.is_null()).then(pl.col(name)).otherwise(pl.col(name) - before).alias(name))
        return news.with_columns(changes)

    def _pane(self, news: pl.DataFrame, op: str, timing: str) -> None:
        """Panes of results; what is retracted is what stood before them."""
        if news.is_empty():
            return
        told = [pl.col(f"__was_{n}").alias(n) if op == RETRACT else pl.col(n) for n in self.names]
        order = [ORDER] if ORDER in news.columns else []
        under = [pl.col(ORDER) if order else pl.lit(UNSEEN, dtype=pl.Int64)] if self.hands_on else []
        panes = news.select(*self.by, SEQUENCE, *told, *order, *(w.alias(W) for w in under))
        self.panes.append(panes.with_columns(pl.lit(op).alias(OP), pl.lit(timing).alias(TIMING)))

    def _note(self, entries: pl.DataFrame) -> None:
        if entries.is_empty():
            return
        known = entries.select(self.said.columns).cast(self.said.schema)
        kept = self.said.join(known.select(self.by), on=self.by, how="anti", nulls_equal=True) if len(self.said) else self.said
        self.said = pl.concat([kept, known])
        self.entries.append(known.with_columns(entries[PLAIN] if PLAIN in entries.columns else pl.lit(False).alias(PLAIN)))

    def new_entries(self) -> pl.DataFrame:
        """The last entry of each window that this batch wrote and that a later batch may ask for."""
        if not self.entries:
            return self.said.head(0)
        last = pl.concat(self.entries).unique(self.by, keep="last", maintain_order=True).filter(~pl.col(PLAIN)).drop(PLAIN)
        if self.moment.now is not None:
            last = last.filter(pl.col(END) > self.moment.now - self.output.allowed)
        return last


def may_be_absent(shape: BoundPlan, output: OutputPlan) -> bool:
    """Whether a window of an output may have no result: its view holds it back, or all that it was made of was withdrawn."""
    return filters(output.view) or (shape.over_results and output.accumulation != DISCARDING)


def holds_nothing_back(output: OutputPlan) -> bool:
    """Whether an output says every admitted late row in the batch that it came in."""
    return isinstance(output.late, PerBatch | PerRow)


def held_back(said: pl.DataFrame, now: int) -> pl.DataFrame:
    """Of closed windows, those of which a trigger may hold rows back."""
    return said.filter(pl.col(DUE).is_not_null() & (pl.col(END) <= now))


def _both(stored: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([stored, late.drop(ORDER)], how="diagonal_relaxed") if len(late) else stored


def _without(now: list[object], before: list[object] | None) -> list[object]:
    rest = list(now)
    for value in before or []:
        rest.remove(value)
    return rest


def nothing_said(shape: BoundPlan, output: OutputPlan, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """What an output has said that has said nothing; `kinds` are those of keys and finished aggregates."""
    schema: dict[str, pl.DataType] = {END: pl.Int64(), **{k: kinds[k] for k in shape.keys}}
    schema |= {SEQUENCE: pl.Int64(), COVERED: pl.Int64(), DUE: pl.Int64(), **shown_kinds(shape, output, kinds)}
    return pl.DataFrame(schema=schema | ({WITHDRAWN: pl.Boolean()} if may_be_absent(shape, output) else {}))
