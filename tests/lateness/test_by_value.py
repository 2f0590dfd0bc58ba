"""Numbers sorted within groups by 32-bit keys, against sorting each group by itself."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.lateness.by_value import COARSEST, Ascending, Groups

MINUTE, DAY, YEAR = 60_000_000, 86_400_000_000, 31_536_000_000_000
lateness = st.one_of(
    st.integers(0, 2_000), st.integers(-MINUTE, MINUTE), st.integers(-2 * DAY, 40 * DAY), st.integers(-80 * YEAR, 80 * YEAR)
)
KINDS = {
    pl.String: st.sampled_from(["north", "", "a", None]),
    pl.Categorical: st.sampled_from(["north", "south", None]),
    pl.Int64: st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**62), 2**62)),
    pl.UInt8: st.integers(0, 255),
    pl.Boolean: st.sampled_from([True, False, None]),
}


@st.composite
def chunks(draw):
    kind = draw(st.sampled_from(list(KINDS)))
    rows = draw(st.lists(st.tuples(KINDS[kind], lateness), min_size=1, max_size=60))
    return pl.Series("v", [value for value, _ in rows], dtype=kind), np.array([number for _, number in rows], dtype=np.int64)


def by_hand(column, numbers):
    groups = {}
    for value, number in zip(column.to_list(), numbers.tolist(), strict=True):
        groups.setdefault("null" if value is None else str(value), []).append(number)
    return {name: sorted(found) for name, found in groups.items()}


def check(column, numbers):
    groups = Groups(column)
    ascending = Ascending.of(numbers, groups)
    largest = groups.largest(numbers, ascending.nearly_largest())
    found = {}
    for code, name in zip(ascending.present.tolist(), groups.names(ascending.present), strict=True):
        places = np.arange(ascending.rows(code)) + ascending.edges[code]
        found[name] = (ascending.numbers(places), int(largest[code]))
    wanted = by_hand(column, numbers)
    assert found.keys() == wanted.keys()
    for name, exact in wanted.items():
        kept, most = found[name]
        assert most == exact[-1]
        tolerance = (np.array(exact, dtype=np.float64) - numbers.min()) * COARSEST + 1_000 * COARSEST + 1
        assert (np.abs(kept - exact) <= tolerance).all(), (kept, exact)


@settings(deadline=None)
@given(chunks())
def test_every_group_is_sorted_and_its_largest_is_exact(chunk):
    check(*chunk)


@pytest.mark.parametrize("values", [2, 20, 1_024, 5_000])
@pytest.mark.parametrize("least", [0, -30 * MINUTE, -DAY])
def test_many_values_and_clocks_that_run_ahead(values, least):
    rng = np.random.default_rng(values)
    numbers = rng.exponential(5_000_000, 30_000).astype(np.int64)
    numbers[7] = least
    check(pl.Series("v", rng.integers(0, values, 30_000)).cast(pl.String), numbers)


def test_a_value_that_appears_only_at_the_end_has_its_name():
    column = pl.Series("v", ["north"] * 50_000 + ["south", None])
    check(column, np.arange(50_002))
