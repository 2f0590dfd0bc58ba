"""Windows, thresholds, positions and verdicts in columns are those of the model, one by one, at every edge."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import polars as pl
import pytest

from eventide.kernel import grid, judge
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import (
    ARRIVAL,
    BEHIND,
    END,
    LANE,
    MISSED_FIRST,
    MISSED_LAST,
    OFFSET,
    SEEN,
    SLICE,
    SOURCE,
    TIME,
    UNSEEN,
    swept_between,
)
from eventide.model import aggregate
from eventide.model.event import end_of
from eventide.model.lateness import Verdict, last_threshold, verdict
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.sweep import BEFORE_ALL, Step, Swept
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding

WINDOWS = [Sliding(4, 4), Sliding(4, 4, 1), Sliding(6, 2), Sliding(6, 2, 1), Sliding(5, 3), Sliding(5, 3, 2), Sliding(7, 2, 1)]
TIMES = list(range(-15, 16))
ALLOWED = (0, 1, 3, 6)
W = judge.W


def plan(window: Any) -> Plan:
    outputs = tuple(OutputPlan(f"a{a}", a) for a in ALLOWED)
    return Plan((SourcePlan(Bounded(0)),), window, (("n", aggregate.count()), ("s", aggregate.sum("value"))), outputs)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_grid_is_the_models(window: Sliding) -> None:
    times = pl.DataFrame({"t": TIMES})
    for name in ("slice_start", "first_end", "last_end", "floor_end"):
        column = times.select(getattr(grid, name)(pl.col("t"), window)).to_series().to_list()
        assert column == [getattr(window, name)(t) for t in TIMES], name
    assert times.select(grid.own_end(pl.col("t"), window)).to_series().to_list() == [window.first_end(t) for t in TIMES]
    seen = times.select(grid.last_threshold(pl.col("t"), window, ALLOWED)).to_series().to_list()
    assert seen == [last_threshold(t, window, ALLOWED) for t in TIMES]


def test_before_any_watermark_no_threshold_was_passed() -> None:
    unseen = pl.DataFrame({"t": [UNSEEN, UNSEEN - 1, -(2**63)]})
    assert unseen.select(grid.last_threshold(pl.col("t"), WINDOWS[0], ALLOWED)).to_series().to_list() == [UNSEEN] * 3
    assert pl.DataFrame({"t": [3]}).select(grid.own_end(pl.col("t"), Session(4))).item() == 7


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_windows_of_a_slice_are_those_of_its_rows(window: Sliding) -> None:
    frame = pl.DataFrame({SLICE: sorted({window.slice_start(t) for t in TIMES})})
    found = Counter(judge.windows_of(frame, BoundPlan(plan(window))).select(SLICE, END).iter_rows())
    assert found == Counter((s, end) for s in frame[SLICE] for _, end in window.assign(s))


POSITIONS = list(itertools.product((0, 1, 2), (0, 1), ("a", "b"), (0, 1, 2)))


def test_what_lies_between_two_sweeps_is_what_lies_between_two_tuples() -> None:
    frame = pl.DataFrame(POSITIONS, schema=[ARRIVAL, SOURCE, LANE, OFFSET], orient="row")
    edges = [*POSITIONS[::5], end_of(1), BEFORE_ALL]
    for after, upto in itertools.product([None, *edges], edges):
        got = list(frame.filter(swept_between(after, upto)).iter_rows())
        assert got == [p for p in POSITIONS if p <= upto and (after is None or p > after)], (after, upto)


@pytest.mark.parametrize("seed", range(8))
def test_a_row_meets_w_as_it_stood_before_it(seed: int) -> None:
    rng = random.Random(seed)
    places = sorted(rng.sample([*POSITIONS, *(end_of(a) for a in (0, 1, 2))], 8))
    steps, w = [Step(BEFORE_ALL, None)], 0
    for place in places:
        w += rng.choice([1, 2])
        steps.append(Step(place, w, place == end_of(place[0]) and rng.random() < 0.7))
    rows = pl.DataFrame([(*p, 0) for p in POSITIONS], schema=[ARRIVAL, SOURCE, LANE, OFFSET, TIME], orient="row")
    got = judge.with_watermark(rows, judge.steps_frame(steps))
    want = {p: Swept(steps).watermark_at(p) for p in POSITIONS}
    assert {r[:4]: r[4] for r in got.select(ARRIVAL, SOURCE, LANE, OFFSET, W).iter_rows()} == {
        p: UNSEEN if w is None else w for p, w in want.items()
    }
    assert sorted(got.columns) == sorted([*rows.columns, W])


def judged(window: Sliding, rng: random.Random) -> tuple[BoundPlan, list[dict[str, Any]], pl.DataFrame]:
    rows = [
        {TIME: t, W: w, BEHIND: rng.random() < 0.5, SOURCE: rng.randrange(2), "value": 1}
        for t in TIMES
        for w in [UNSEEN, *rng.sample(range(-20, 40), 12)]
    ]
    shape = BoundPlan(plan(window))
    return shape, rows, judge.seen_by_windows(pl.DataFrame(rows), shape)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_every_pair_of_row_and_window_has_the_models_verdict(window: Sliding) -> None:
    shape, rows, seen = judged(window, random.Random(1))
    assert judge.pairs(seen, shape) == sum(len(window.assign(r[TIME])) for r in rows)
    for allowed in ALLOWED:
        pairs, worst, missed, causes = Counter(), Counter(), [], Counter()
        for row in rows:
            w = None if row[W] == UNSEEN else row[W]
            found = [(end, verdict(w, end, allowed)) for _, end in window.assign(row[TIME])]
            pairs.update(v.value for _, v in found)
            worst[f"rows_{max((v for _, v in found), key=list(Verdict).index).value}"] += 1
            gone = [end for end, v in found if v is Verdict.REFUSED]
            if gone:
                missed.append((row[TIME], gone[0], gone[-1]))
            if any(v is not Verdict.ON_TIME for _, v in found):
                causes[judge.DISORDER if row[BEHIND] else judge.IDLENESS] += 1
        counts = judge.verdict_counts(seen, shape, allowed)
        assert +Counter(counts) == pairs + worst + causes
        refused = judge.refused(seen, shape, allowed).select(TIME, MISSED_FIRST, MISSED_LAST)
        assert Counter(refused.iter_rows()) == Counter(missed)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_late_partials_hold_every_row_that_some_output_takes_for_some_window(window: Sliding) -> None:
    shape, rows, seen = judged(window, random.Random(2))
    taken = sum(
        any(
            verdict(None if r[W] == UNSEEN else r[W], end, max(ALLOWED)) is not Verdict.REFUSED
            for _, end in window.assign(r[TIME])
        )
        for r in rows
    )
    partials = judge.late_partials(seen, shape)
    assert partials["__rows"].sum() == taken
    assert partials.filter(pl.col(SEEN) == UNSEEN)["__rows"].sum() == sum(
        r[W] == UNSEEN or r[W] < window.first_end(r[TIME]) for r in rows
    )


@pytest.mark.parametrize("window", [*WINDOWS, Session(3)], ids=str)
def test_late_rows_of_a_source_are_those_behind_w(window: Any) -> None:
    frame = pl.DataFrame([{TIME: t, W: w, SOURCE: t % 2} for t in TIMES for w in (UNSEEN, t, t + 3, t + 4, t + 9)])
    want = Counter()
    for t, w, source in frame.iter_rows():
        end = window.first_end(t) if isinstance(window, Sliding) else t + window.gap
        want[str(source)] += w >= end
    assert judge.late_by_source(frame, BoundPlan(plan(window))) == dict(+want)
