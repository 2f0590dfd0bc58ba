"""Windows put together in runs are those put together slice by slice."""

from __future__ import annotations

import random

import polars as pl
import pytest

from eventide.kernel import aggregate as parts
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import END, SEEN, SLICE, UNSEEN
from eventide.kernel.judge import windows_of
from eventide.kernel.overlap import windows_between
from eventide.model import aggregate
from eventide.model.plan import OutputPlan, Plan
from eventide.model.window import Sliding

NAMED = (("n", aggregate.count()), ("s", aggregate.sum("value")), ("most", aggregate.max("value")))
GRIDS = [
    Sliding(60, 5),
    Sliding(60, 1, offset=7),
    Sliding(100, 7),
    Sliding(8, 1),
    Sliding(3_600, 10),
    Sliding(45, 6, offset=-4),
]
BOUNDS = [(UNSEEN, 2**62), (-50, 50), (13, 13), (14, 31), (10_000, 20_000), (5, 4)]


@pytest.mark.parametrize("window", GRIDS, ids=str)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_a_window_is_the_same_in_a_run(window: Sliding, bounds: tuple[int, int]) -> None:
    rng = random.Random(repr((window, bounds)))
    shape = BoundPlan(Plan((), window, NAMED, (OutputPlan("o", 5),)), ("key",))
    starts = [window.slice_start(rng.choice([rng.randint(-200, 400), 10**9])) for _ in range(300)]
    rows = pl.DataFrame(
        {
            SLICE: starts,
            "key": [rng.choice(["a", "b", None]) for _ in starts],
            SEEN: [rng.choice([UNSEEN, 10, 20]) for _ in starts],
            "value": [rng.randint(0, 9) for _ in starts],
        }
    )
    partials = parts.partial(rows, [SLICE, "key", SEEN], NAMED)
    by = [END, "key", SEEN]

    def merged(windows: pl.DataFrame) -> list[tuple[object, ...]]:
        done = parts.finish(parts.merge(windows, by, NAMED), NAMED) if len(windows) else windows.head(0)
        return sorted(done.select([*by, *(n for n, _ in NAMED)] if len(done) else by).rows(), key=repr)

    plainly = windows_of(partials, shape).filter(pl.col(END).is_between(*bounds))
    assert merged(windows_between(partials, shape, *bounds)) == merged(plainly)
