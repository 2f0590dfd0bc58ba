"""Aggregates by their definition: exact quantiles, who led, who came first, sets, truth, tops, and conditions on any of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.errors import DefinitionError
from eventide.model import aggregate, sql
from eventide.model.aggregate import compute
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Reading, Results, Rows
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.watermark import Ascending
from eventide.model.window import Sliding

cells = st.lists(st.tuples(st.one_of(st.none(), st.integers(-9, 9)), st.integers(0, 4)), max_size=12)
EACH = settings(max_examples=100, deadline=None)


def rows(values: list[tuple[Any, int]]) -> list[Event]:
    """Events (x, y) that arrive in this order, with event times of their own."""
    return [Event(n, (7 * n) % 5, row={"x": x, "y": y}, offset=n) for n, (x, y) in enumerate(values)]


def there(values: list[tuple[Any, int]]) -> list[Any]:
    return [x for x, _ in values if x is not None]


@EACH
@given(cells)
def test_the_median_and_the_ends_are_exact(values: list[tuple[Any, int]]) -> None:
    xs, made = there(values), rows(values)
    expected = (statistics.median(xs), min(xs), max(xs)) if xs else (None, None, None)
    shares = (aggregate.median("x"), aggregate.quantile("x", 0.0, exact=True), aggregate.quantile("x", 1.0, exact=True))
    assert tuple(compute(share, made) for share in shares) == expected


@EACH
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12), st.integers(1, 99))
def test_an_exact_quantile_lies_on_the_line_between_its_neighbours(xs: list[int], percent: int) -> None:
    cuts = statistics.quantiles(xs, n=100, method="inclusive")
    have = compute(aggregate.quantile("x", percent / 100, exact=True), rows([(x, 0) for x in xs]))
    assert have == pytest.approx(cuts[percent - 1])


@EACH
@given(cells)
def test_who_leads_is_the_earliest_of_those_with_the_extreme(values: list[tuple[Any, int]]) -> None:
    made = rows(values)
    counted = sorted((e for e in made if e.row["x"] is not None), key=lambda e: (e.event_time, e.arrival))
    for what, extreme in ((aggregate.max_by("y", "x"), max), (aggregate.min_by("y", "x"), min)):
        best = extreme((e.row["x"] for e in counted), default=None)
        assert compute(what, made) == next((e.row["y"] for e in counted if e.row["x"] == best), None)


@EACH
@given(cells)
def test_first_and_last_to_arrive_are_the_ends_of_the_order_of_arrival(values: list[tuple[Any, int]]) -> None:
    first, last = (values[0][0], values[-1][0]) if values else (None, None)
    shuffled = sorted(rows(values), key=lambda e: (e.arrival * 5) % 7)
    assert compute(aggregate.first("x", by="arrival"), shuffled) == first
    assert compute(aggregate.last("x", by="arrival"), shuffled) == last


@EACH
@given(cells)
def test_sets_counts_and_tops_are_those_of_plain_python(values: list[tuple[Any, int]]) -> None:
    xs, made = there(values), rows(values)
    assert compute(aggregate.set("x"), made) == sorted(set(xs))
    assert compute(aggregate.distinct("x", exact=True), made) == len(set(xs))
    top = sorted(Counter(xs).items(), key=lambda item: (-item[1], item[0]))[:3]
    assert compute(aggregate.top_k("x", 3), made) == [{"value": x, "n": n} for x, n in top]
    best = sorted((e for e in made if e.row["x"] is not None), key=lambda e: (-e.row["x"], e.event_time, e.arrival))[:2]
    assert compute(aggregate.top(2, by="x", of="y"), made) == [{"y": e.row["y"], "x": e.row["x"]} for e in best]


EVERY = (
    aggregate.count, aggregate.sum, aggregate.min, aggregate.max, aggregate.mean, aggregate.stddev, aggregate.variance, aggregate.first,
    aggregate.last, aggregate.median, aggregate.collect, aggregate.set, aggregate.any, aggregate.all, aggregate.distinct,
    lambda c, where=None: aggregate.quantile(c, 0.3, where=where), lambda c, where=None: aggregate.max_by(c, "y", where=where),
    lambda c, where=None: aggregate.min_by(c, "y", where=where), lambda c, where=None: aggregate.top_k(c, 2, where=where),
    lambda c, where=None: aggregate.top(2, by=c, of="y", where=where), lambda c, where=None: aggregate.first(c, by="arrival", where=where),
)  # fmt: skip


@EACH
@given(cells, st.sampled_from(EVERY))
def test_a_condition_on_an_aggregate_is_the_aggregate_over_the_rows_for_which_it_holds(values: Any, make: Any) -> None:
    made = rows(values)
    kept = [e for e in made if e.row["x"] is not None and e.row["x"] > e.row["y"]]
    assert compute(make("x", where="x > y"), made) == compute(make("x"), kept)


def test_truth_passes_over_nulls_and_is_null_without_any() -> None:
    def over(what: aggregate.Aggregate, *values: Any) -> Any:
        return compute(what, rows([(value, 0) for value in values]))

    assert over(aggregate.any("x"), False, None, True) is True and over(aggregate.all("x"), True, None, False) is False
    assert over(aggregate.any("x"), False, None) is False and over(aggregate.all("x"), True, None) is True
    assert over(aggregate.any("x"), None) is None and over(aggregate.all("x")) is None


def test_nan_leads_nothing_and_is_one_value() -> None:
    made = rows([(math.nan, 1), (2.0, 2), (math.nan, 3), (1.0, 4)])
    assert compute(aggregate.max_by("y", "x"), made) == 2 and compute(aggregate.min_by("y", "x"), made) == 4
    assert [row["y"] for row in compute(aggregate.top(3, by="x", of="y"), made)] == [2, 4, 1]
    assert len(compute(aggregate.set("x"), made)) == 3 and compute(aggregate.max_by("y", "x"), made[:1]) == 1
    assert compute(aggregate.median("x"), rows([(Decimal("1.5"), 0), (2, 0)])) == 1.75


def test_an_aggregate_of_your_own_divides_whole_numbers_as_spark_does() -> None:
    mean = aggregate.aggregate(partial={"s": "SUM(x)", "n": "COUNT(x)"}, merge={"s": "SUM(s)", "n": "SUM(n)"}, finish="s / n")
    assert compute(mean, rows([(1, 0), (2, 0)])) == 1.5
    some = aggregate.aggregate(partial={"n": "COUNT(x)"}, merge={"n": "SUM(n)"}, finish="n", where="x > 1")
    assert compute(some, rows([(1, 0), (2, 0)])) == 1 and compute(some, rows([(1, 0)])) == 0
    assert sql.value("'a/b' || x", {"x": "/"}) == "a/b/" and sql.value("7 / 2 * 2", {}) == 7.0


@pytest.mark.parametrize(
    "define",
    [
        lambda: aggregate.top(0, by="n", of="item"), lambda: aggregate.top(True, by="n", of="item"),
        lambda: aggregate.top(3, by="n", of=()), lambda: aggregate.top(3, by="n", of="n"), lambda: aggregate.top_k("x", -1),
        lambda: aggregate.first("x", by="size"), lambda: aggregate.max_by("x", ""), lambda: aggregate.sum("x", where="x >"),
        lambda: aggregate.count(where=7), lambda: aggregate.quantile("x", 2, exact=True),
    ],
)  # fmt: skip
def test_an_aggregate_that_cannot_be_is_an_error_where_it_is_written(define: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        define()
    assert len(str(caught.value)) > 30


def test_hot_items_are_told_again_when_a_late_bid_changes_who_leads() -> None:
    #  bids are counted in [0,10) per item; above, the two that lead; the bid for "b" at 9 comes at W = 12, and is still let in
    counts = Aggregation("counts", "bids", Sliding(10, 10), ("item",), (("bids", aggregate.count()),))
    hot = Aggregation("hot", "counted", Sliding(10, 10), (), (("hot", aggregate.top(2, by="bids", of="item")),))
    graph = Graph(
        (SourcePlan(Ascending(), ("0",)),),
        (Rows("bids", (0,), (("item", "string"),)), counts, Results("counted", "counts", 5), hot),
        (Reading("hot", OutputPlan("hottest", 5)),),
    )
    engine = Oracle(graph)
    for offset, (time, item) in enumerate([(1, "c"), (2, "a"), (3, "b"), (4, "a"), (12, "c"), (9, "b"), (8, "b"), (30, "x")]):
        engine.event(Event(offset, time, row={"item": item}, offset=offset))
        engine.look()
    said = [(p.timing, [tuple(row.values()) for row in p.values["hot"]]) for p in engine.panes if p.window == (0, 10)]
    assert said == [
        ("on_time", [("a", 2), ("b", 1)]),  # b and c have one each: ties stand in the order of their window_id
        ("late", [("a", 2), ("b", 2)]),
        ("late", [("b", 3), ("a", 2)]),
    ]


PAYMENTS = ev.files("rows", "rows/", event_time="t", watermark=ev.ascending(), schema="t timestamp, paise bigint, bank string")


@pytest.mark.parametrize(
    "what",
    [
        ev.count(where="amount > 1"), ev.sum("paise", where=ev.col("amount") > 1), ev.max_by("bank", "amount"), ev.min_by("amount", "paise"),
        ev.top(3, by="amount", of="bank"), ev.top(3, by="paise", of=["bank", "amount"]), ev.top_k("amount", 3), ev.mode("amount"),
    ],
)  # fmt: skip
def test_a_column_that_is_not_there_is_refused_where_it_is_written(what: aggregate.Aggregate) -> None:
    with pytest.raises(DefinitionError, match=r"source 'rows' has no column 'amount'\. Its columns are t, paise, bank"):
        PAYMENTS.window(ev.tumbling("1 minute")).agg(x=what)


@pytest.mark.parametrize(
    "what", [ev.max_by("bank", "paise"), ev.top(1, by="paise", of="bank"), ev.top_k("bank", 2), ev.mode("bank")]
)
def test_what_does_not_add_up_is_refused_by_a_discarding_output_and_a_sum_under_a_condition_is_not(
    what: aggregate.Aggregate,
) -> None:
    minutes = PAYMENTS.window(ev.tumbling("1 minute"))
    with pytest.raises(DefinitionError, match=f"deltas of {what.kind} .'x'. do not add up"):
        minutes.agg(x=what).to("out", late=ev.drop(), accumulation="discarding")
    some = minutes.agg(x=ev.sum("paise", where="bank = 'sbi'"), n=ev.count(where="paise > 1"))
    assert some.to("out", late=ev.drop(), accumulation="discarding").accumulation == "discarding"


def test_a_kind_that_nothing_computes_is_refused_rather_than_passed_over() -> None:
    with pytest.raises(DefinitionError, match="there is no aggregate 'guess'"):
        PAYMENTS.window(ev.tumbling("1 minute")).agg(x=aggregate.Aggregate("guess", "paise"))


def test_conditions_that_differ_in_the_type_of_a_value_are_different() -> None:
    conditions = ["paise = 1", "paise = 1.0", "paise = TRUE"]
    assert len({ev.count(where=text) for text in conditions}) == 3
    assert ev.count(where="paise = 1") == ev.count(where=ev.col("paise") == 1)
