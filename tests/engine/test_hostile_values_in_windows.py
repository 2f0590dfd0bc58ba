"""Values at the edges of their types, as keys and in sums: no cut of the stream changes an answer, and no two keys share an id."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from agreement import assert_agreement, oracle
from hypothesis import given
from hypothesis import strategies as st
from inline import KINDS, Table, run_in_batches
from test_engine_equals_oracle import Case, cases, grids, sessions, tried

import eventide as ev
from eventide.engine.batch.panes import pane_table
from eventide.errors import DefinitionError
from eventide.kernel import aggregate as kernel
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.keys import hashable, one_of_equals
from eventide.model import aggregate
from eventide.model.aggregate import Aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, RETRACTING
from eventide.model.statistic import AggregateOverflow
from eventide.model.time import EARLIEST, LATEST, LONGEST, MAX_TIME, MIN_TIME
from eventide.model.watermark import Ascending
from eventide.model.window import Session, Sliding

NUMBERS: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pl.Int64(), st.sampled_from([2**63 - 1, -(2**63), 1, -1, 0, None, 2**62])),
    "decimal(38,18)": (
        pl.Decimal(38, 18),
        st.sampled_from([90 * 10**36, -90 * 10**36, 1, -1, None]).map(lambda v: None if v is None else Decimal(f"{v}E-18")),
    ),
    "decimal(38,0)": (pl.Decimal(38, 0), st.sampled_from([Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(1), None])),
    "decimal(12,2)": (pl.Decimal(12, 2), st.decimals(-(10**10) + 1, 10**10 - 1, places=2, allow_nan=False)),
    "float32": (pl.Float32(), st.sampled_from([0.1, 16777216.0, 1.0, -0.5, None]).map(lambda v: v and _single(v))),
}
FLOATS = [math.nan, math.copysign(math.nan, -1), math.inf, -math.inf, None, 0.0, -0.0, 5e-324, 1e22, 0.1]


def _single(value: float) -> float:
    return float(pl.Series([value], dtype=pl.Float32)[0])


def outcome(make: Any) -> Any:
    try:
        return make()
    except AggregateOverflow:
        return "overflow"


def summed_in_parts(values: list[Any], kind: pl.DataType, what: Aggregate, rng: random.Random) -> Any:
    """Cut anyhow, the parts stored and merged anyhow."""
    cut = sorted(rng.randint(0, len(values)) for _ in range(rng.randint(0, 5)))
    frames = []
    for low, high in zip([0, *cut], [*cut, len(values)], strict=True):
        rows = pl.DataFrame(
            {"k": ["a"] * (high - low), "x": pl.Series(values[low:high], dtype=kind)}, schema_overrides={"k": pl.String}
        )
        frames.append(kernel.partial(rows, ["k"], [("x", what)]))
    while len(frames) > 1:
        some = [frames.pop(rng.randrange(len(frames))) for _ in range(min(len(frames), rng.randint(2, 3)))]
        frames.append(kernel.merge(pl.concat(some, how="diagonal_relaxed"), ["k"], [("x", what)]))
    return kernel.finish(frames[0], [("x", what)])["x"].to_list()


@pytest.mark.parametrize("name", NUMBERS)
@tried(150)
@given(st.data())
def test_a_sum_does_not_depend_on_its_parts_and_never_wraps(name: str, data: st.DataObject) -> None:
    kind, numbers = NUMBERS[name]
    values = data.draw(st.lists(numbers, min_size=1, max_size=12))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    what = aggregate.sum("x")
    events = [Event(n, n, None, {"x": value}) for n, value in enumerate(values)]
    wanted = outcome(lambda: aggregate.compute(what, events))
    found = outcome(lambda: summed_in_parts(values, kind, what, rng)[0])
    if isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=1e-9)
    else:
        assert found == wanted


HOSTILE: dict[str, pl.DataType] = {**KINDS, "share": pl.Float64(), "a0_s": pl.String(), "single": pl.Float32()}


def one(value: Any) -> Any:
    """The key that a float is: one NaN, one zero."""
    return math.nan if value != value else 0.0 if value == 0 and isinstance(value, float) else value


@tried(30)
@given(
    cases(st.one_of(grids, sessions), accumulation=st.sampled_from([ACCUMULATING, RETRACTING])),
    st.sampled_from(["share", "a0_s", "both"]),
)
def test_hostile_keys_are_keys_like_any_other(case: Case, by: str) -> None:
    hostile_keys(case, by)


@tried(15)
@given(cases(st.one_of(grids, sessions), dedupe=True, accumulation=st.just(ACCUMULATING)), st.just("share"))
def test_hostile_keys_are_keys_under_deduplication_too(case: Case, by: str) -> None:
    hostile_keys(case, by)


def hostile_keys(case: Case, by: str) -> None:
    plan, events, _, seed = case
    rng = random.Random(seed)
    rich = [
        e if e.marker else replace(e, row={**e.row, "share": rng.choice(FLOATS), "a0_s": rng.choice(["x", "y", None])})
        for e in events
    ]
    table = Table(("share", "a0_s") if by == "both" else (by,), HOSTILE)
    seen = [
        replace(e, key=one(e.key) if len(table.keys) == 1 else tuple(map(one, e.key))) for e in table.as_the_oracle_sees(rich)
    ]
    clocks = sorted(rng.randint(0, max((e.arrival for e in events), default=0)) for _ in range(rng.randint(0, 8)))
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, rich, clocks, rng, root, table)
    for panes in got.panes.values():
        texts: dict[Any, set[str]] = {}
        for pane in panes:
            pane["share"] = one(pane["share"]) if "share" in pane else None
            identity = (pane["window_start"], pane["window_end"], hashable(tuple(pane[k] for k in table.keys)))
            texts.setdefault(identity, set()).add(pane["window_id"])
        assert all(len(ids) == 1 for ids in texts.values()), texts
        assert len({i for ids in texts.values() for i in ids}) == len(texts), "two keys share an id"
    assert_agreement(plan, got, oracle(plan, seen), table)


def test_a_session_of_what_is_no_number_goes_on_in_the_next_batch() -> None:
    events = [Event(n, n, None, {"share": math.nan, "value": 1}, 0, "0", n) for n in range(3)]
    plan = Plan((SourcePlan(Ascending(), ("0",)),), Session(5), (("n", aggregate.count()),), (OutputPlan("o", 0),))
    for seed in range(4):  # how much of a lane a batch takes is up to chance
        with tempfile.TemporaryDirectory() as root:
            got = run_in_batches(plan, events, [0, 1, 2, 2, 2], random.Random(seed), root, Table(("share",), HOSTILE))
        assert [(p["window_start"], p["window_end"], p["op"], p["n"]) for p in got.panes["o"]] == [(0, 7, "insert", 3)]


EVERY_TYPE: dict[str, tuple[pl.DataType, list[Any]]] = {
    "float": (pl.Float64(), [math.nan, math.inf, -math.inf, 0.0, 0.1, 1e22, 5e-324, 1e-7]),
    "single": (pl.Float32(), [math.nan, math.inf, -math.inf, 0.0, 0.1, 16777216.0]),
    "int": (pl.Int64(), [2**63 - 1, -(2**63), 0]),
    "unsigned": (pl.UInt64(), [2**64 - 1, 2**63, 0]),
    "text": (pl.String(), ["", "null", "NaN", '"', "\\", "\x00", "a\nb", "é", "e\u0301", "{}", " "]),
    "bytes": (pl.Binary(), [b"", b"\x00", b"null", b"\xff"]),
    "decimal": (pl.Decimal(38, 18), [Decimal("1E-18"), Decimal(0), Decimal("-1E-18"), Decimal("9E+19")]),
    "day": (pl.Date(), [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)]),
    "instant": (pl.Datetime("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "local": (pl.Datetime("us"), [datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
    "time": (pl.Time(), [time(0), time(0, 0, 0, 1), time(23, 59, 59, 999999)]),
    "span": (pl.Duration("us"), [timedelta(0), timedelta(microseconds=1), timedelta(days=-1)]),
    "truth": (pl.Boolean(), [True, False]),
    "list": (pl.List(pl.Float64), [[], [math.nan], [None], [math.inf], [0.0], [0.0, 0.0]]),
    "struct": (
        pl.Struct({"a": pl.Float64, "b": pl.Binary}),
        [{"a": math.nan, "b": b""}, {"a": None, "b": b""}, {"a": None, "b": None}],
    ),
}


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_different_keys_of_any_type_have_different_ids(name: str) -> None:
    kind, values = EVERY_TYPE[name]
    keys = [*values, None]
    plan = Plan((SourcePlan(Ascending()),), Sliding(10, 10), (("n", aggregate.count()),), (OutputPlan("o", 0),))
    panes = one_of_equals(pl.DataFrame({"k": pl.Series(keys, dtype=kind)}), ["k"]).with_columns(
        pl.lit(0).alias("__start"), pl.lit(10).alias("__end"), pl.lit(0).alias("__sequence"), pl.lit("insert").alias("__op"),
        pl.lit("on_time").alias("__timing"), pl.lit(1).alias("n"),
    )  # fmt: skip
    ids = pane_table(panes, BoundPlan(plan, ("k",)), plan.outputs[0], 0)["window_id"].to_list()
    assert len(set(ids)) == len(keys), ids


@pytest.mark.parametrize("window", [Sliding(10, 10), Sliding(LONGEST, LONGEST), Session(5), Session(LONGEST)], ids=str)
def test_which_event_times_there_are_does_not_depend_on_the_windows(window: Any) -> None:
    times = [MIN_TIME, -(2**62), EARLIEST - 1, EARLIEST, 0, LATEST - 1, LATEST, 2**62, MAX_TIME]
    events = [Event(n, t, "a", {"value": 1, "id": None}, offset=n) for n, t in enumerate(times)]
    plan = Plan((SourcePlan(Ascending(), ("0",)),), window, (("n", aggregate.count()),), (OutputPlan("o", LONGEST),))
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, events, [], random.Random(1), root)
    assert got.ledger.rows["dead"] == 6
    for pane in got.panes["o"]:
        assert -62_135_596_800_000_000 <= pane["window_start"] < pane["window_end"] < 253_402_300_800_000_000, "no date"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ev.tumbling("360001 days"),
        lambda: ev.sliding("360001 days", "1 day"),
        lambda: ev.session("360001 days"),
        lambda: ev.accumulate("360001 days"),
        lambda: ev.retract("360001 days"),
        lambda: ev.bounded("360001 days"),
        lambda: ev.tumbling("1 day", offset="360001 days"),
    ],
)
def test_spans_that_could_leave_the_range_of_times_are_refused_at_definition(make: Any) -> None:
    with pytest.raises(DefinitionError, match="the longest span is 360000 days"):
        make()
