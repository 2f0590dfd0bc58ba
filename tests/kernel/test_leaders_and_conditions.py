"""Who leads, what is frequent and what counts under a condition: hostile values, ties and many different values, cut anyhow."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.kernel import aggregate as kernel
from eventide.kernel import frequent
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, SOURCE, TIME
from eventide.model import aggregate as model
from eventide.model.aggregate import Aggregate, compute
from eventide.model.event import Event

EACH = settings(max_examples=12, deadline=None, database=None)
FLOATS = [math.nan, math.copysign(math.nan, -1), math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e22, None]
TYPES: dict[str, tuple[pl.DataType, list[Any]]] = {
    "float": (pl.Float64(), FLOATS),
    "single": (pl.Float32(), [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, None]),
    "int": (pl.Int64(), [2**63 - 1, -(2**63), 0, 1, None]),
    "unsigned": (pl.UInt64(), [2**64 - 1, 2**63, 0, None]),
    "decimal": (pl.Decimal(38, 18), [Decimal("1E-18"), Decimal(0), Decimal("-1E-18"), Decimal("9E+19"), None]),
    "text": (pl.String(), ["", "a", "A", "é", "e\u0301", "\U0001f600", "\uffff", "\x00", None]),
    "bytes": (pl.Binary(), [b"", b"\x00", b"\xff", b"a", None]),
    "day": (pl.Date(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "instant": (
        pl.Datetime("us", "UTC"),
        [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None],
    ),
    "time": (pl.Time(), [time(0), time(23, 59, 59, 999999), None]),
    "truth": (pl.Boolean(), [True, False, None]),
}
PLACE: dict[str, pl.DataType] = {
    TIME: pl.Int64(),
    ARRIVAL: pl.Int64(),
    SOURCE: pl.Int64(),
    LANE: pl.String(),
    OFFSET: pl.Int64(),
}
NESTED = pl.Struct({"a": pl.Float64, "b": pl.List(pl.String)})


def plain(value: Any) -> Any:
    """A value in which equals are equal: one NaN, one zero, at any depth."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return "NaN" if value != value else value + 0.0 if isinstance(value, float) else value


def cut_anyhow(rows: list[dict[str, Any]], kinds: dict[str, pl.DataType], what: Aggregate, rng: random.Random) -> Any:
    named, cuts = [("it", what)], sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 5)))
    frames = [
        kernel.partial(pl.DataFrame(rows[low:high], schema={**kinds, **PLACE}), ["k"], named)
        for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    while len(frames) > 1:
        some = [frames.pop(rng.randrange(len(frames))) for _ in range(min(len(frames), rng.randint(2, 3)))]
        frames.append(kernel.merge(pl.concat(some, how="diagonal_relaxed"), ["k"], named))
    return {row["k"]: plain(row["it"]) for row in kernel.finish(frames[0], named).to_dicts()}


def meant(rows: list[dict[str, Any]], what: Aggregate) -> Any:
    groups: dict[Any, list[Event]] = {}
    for row in rows:
        place = (row[ARRIVAL], row[TIME], row["k"], row, row[SOURCE], row[LANE], row[OFFSET])
        groups.setdefault(row["k"], []).append(Event(*place))
    return {key: plain(compute(what, events)) for key, events in groups.items()}


def placed(rng: random.Random, offset: int, **columns: Any) -> dict[str, Any]:
    place = {
        TIME: rng.randrange(3),
        ARRIVAL: rng.randrange(3),
        SOURCE: rng.randrange(2),
        LANE: rng.choice("ab"),
        OFFSET: offset,
    }
    return {"k": rng.choice(["a", "b", None]), **columns, **place}


@pytest.mark.parametrize("name", TYPES)
@EACH
@given(seed=st.integers(0, 2**32))
def test_leaders_by_a_column_of_any_type_are_those_of_the_model(name: str, seed: int) -> None:
    rng, (kind, values) = random.Random(seed), TYPES[name]
    nested = [None, {"a": math.nan, "b": ["x", None]}, {"a": -0.0, "b": []}, {"a": None, "b": None}]
    rows = [
        placed(rng, n, x=rng.choice(values), it=rng.choice(nested), n=rng.choice([1, 2])) for n in range(rng.randint(1, 12))
    ]
    kinds: dict[str, pl.DataType] = {"k": pl.String(), "x": kind, "it": NESTED, "n": pl.Int64()}
    for what in (
        model.max_by("it", "x"), model.min_by("it", "x"), model.max_by("n", "x", where="n = 1"),
        model.top(2, by="x", of=("it", "n")), model.top(3, by="x", of="n", where="n > 1"),
        model.top_k("x", 2), model.top_k("x", 2, where="n = 2"), model.first("it", where="n = 1"), model.last("x", where="n = 2"),
    ):  # fmt: skip
        assert cut_anyhow(rows, kinds, what, rng) == meant(rows, what), what


@EACH
@given(seed=st.integers(0, 2**32), counters=st.sampled_from([1, 2, 5]))
def test_with_too_few_counters_a_count_is_never_too_large_and_too_small_by_no_more_than_it_says(
    seed: int, counters: int
) -> None:
    rng = random.Random(seed)
    rows = [placed(rng, n, x=int(rng.paretovariate(0.7)) % 50) for n in range(rng.randint(1, 80))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frequent, "counters_for", lambda _: counters)
        found = cut_anyhow(rows, {"k": pl.String(), "x": pl.Int64()}, model.top_k("x", counters), rng)
    for key, counted in found.items():
        times = Counter(row["x"] for row in rows if row["k"] == key)
        lost = sum(times.values()) // (counters + 1)
        said = {one["value"]: one["n"] for one in counted}
        assert all(times[value] - lost <= said.get(value, 0) <= times[value] for value in {*times, *said})


def test_all_counters_lose_as_much_as_the_first_that_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "counters_for", lambda _: 2)
    rng, kinds, named = random.Random(0), {"k": pl.String(), "x": pl.String()}, [("it", model.top_k("x", 3))]
    rows = [{**placed(rng, n, x=x), "k": k} for n, (k, x) in enumerate(["ap", "ap", "ap", "aq", "aq", "ar", "bp", "bq"])]
    found = kernel.finish(kernel.partial(pl.DataFrame(rows, schema={**kinds, **PLACE}), ["k"], named), named)
    counted = {row["k"]: [(one["value"], one["n"]) for one in row["it"]] for row in found.to_dicts()}
    assert counted == {"a": [("p", 2), ("q", 1)], "b": [("p", 1), ("q", 1)]}


def test_there_are_counters_enough_for_what_is_shown() -> None:
    assert frequent.counters_for(model.top_k("x", 3)) == 1_000
    assert frequent.counters_for(model.top_k("x", 500)) == 5_000
