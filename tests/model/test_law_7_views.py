"""Law 7: within a generation, at every moment the table with `where` is the filter of the table without it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.randomgraphs import COLUMNS, EXAMPLES, GRIDS, SEEDS, apply, events, output, source, view_over

from eventide.errors import DefinitionError
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.expression import col, evaluate, expression, holds
from eventide.model.graph import Aggregation, Graph, Reading, Rows
from eventide.model.pane import INSERT, RETRACT
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, DISCARDING, RETRACTING
from eventide.model.reference import Reference
from eventide.model.soundness import check
from eventide.model.standing import WindowState
from eventide.model.trigger import PerRow
from eventide.model.view import View, Where
from eventide.model.watermark import Ascending
from eventide.model.window import Session, Sliding

AGGREGATES = (("n", aggregate.count()), ("total", aggregate.sum("value")))


def case(seed: int) -> tuple[Plan, Plan, list[Event]]:
    """A plan with a view and the same without, and a stream."""
    rng = random.Random(seed)
    window = rng.choice([*GRIDS, Session(4), Session(9)])
    shown = output(rng, "out", view_over(rng, ("n", "total")))
    wheres = tuple(step for step in shown.view.steps if isinstance(step, Where))
    shown = replace(shown, view=View(wheres), allowed=rng.choice([0, 9, 60]))
    plan = Plan((source(rng),), window, AGGREGATES, (shown,), rng.choice([None, 10]), keys=("user",))
    rows = [replace(e, key=(e.row["user"],)) for e in events(rng, rows=16, users=("a", None))]
    return plan, replace(plan, outputs=(replace(shown, view=View()),)), rows


def agrees(seed: int) -> bool:
    plan, whole, rows = case(seed)
    engines, tables = (Reference(plan), Reference(whole)), ({}, {})
    (step,) = plan.outputs[0].view.steps
    for number, event in enumerate([*rows, None]):
        for engine in engines:
            engine.drain() if event is None else engine.event(event)
            if event is not None and number % 4 == 3:
                engine.look(event.arrival)
        have, all_of = (apply(table, engine.panes) for table, engine in zip(tables, engines, strict=True))
        filtered = {}
        for (window, key), values in all_of.items():
            row = {**values, "user": key[0], "window_start": window[0], "window_end": window[1]}
            if evaluate(step.condition, row) is True:
                filtered[window, key] = values
        if have != filtered:
            return False
    return _sequences_are_whole(engines[0])


def _sequences_are_whole(engine: Reference) -> bool:
    """Inserts count up by one; a retract takes back what stands, and nothing is taken back twice."""
    standing: dict[Any, tuple[int, bool]] = {}
    for pane in engine.panes:
        sequence, stands = standing.get(pane.window_id, (-1, False))
        if pane.op == RETRACT and (not stands or pane.sequence != sequence):
            return False
        if pane.op == INSERT and pane.sequence != sequence + 1:
            return False
        standing[pane.window_id] = (pane.sequence, pane.op == INSERT)
    return True


@EXAMPLES
@given(st.integers(0, 2**32))
def test_the_table_with_where_is_the_filter_of_the_table_without_it(seed: int) -> None:
    assert agrees(seed)


def _leaves_it_standing(right: Any) -> Any:
    def fire(self: WindowState, out: OutputPlan, plan: Plan, timing: str) -> Any:
        return [p for p in right(self, out, plan, timing) if p.op == INSERT or out.accumulation == RETRACTING]

    return fire


def _begins_again(right: Any) -> Any:
    def fire(self: WindowState, out: OutputPlan, plan: Plan, timing: str) -> Any:
        said = right(self, out, plan, timing)
        self.emitted = [e for e in self.emitted if not e.withdrawn]
        return said

    return fire


@pytest.mark.parametrize("broken", [_leaves_it_standing, _begins_again])
def test_the_law_notices_when_a_view_is_broken(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowState, "fire", broken(WindowState.fire))
    assert not all(agrees(seed) for seed in SEEDS)


def test_the_law_notices_a_null_that_counts_as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from eventide.model import view

    monkeypatch.setattr(view, "holds", lambda node, row: evaluate(node, row) is not False)
    assert not all(agrees(seed) for seed in SEEDS)


# --- by hand


def alerts(accumulation: str, condition: Any = "closest < 1000") -> Reference:
    out = OutputPlan("alerts", 60, accumulation, None, PerRow(), View().where(condition).select(km="closest / 1000"))
    aggregates = (("closest", aggregate.last("distance")),)
    plan = Plan((SourcePlan(Ascending(), ("0",)),), Sliding(30, 30), aggregates, (out,), keys=("object",))
    return Reference(plan)


def sighting(arrival: int, time: int, distance: int | None) -> Event:
    return Event(arrival, time, ("sat-7",), {"distance": distance}, offset=arrival)


@pytest.mark.parametrize("accumulation", [ACCUMULATING, RETRACTING])
@pytest.mark.parametrize("condition", ["closest < 1000", col("closest") < 1000])
def test_a_phantom_alert_is_withdrawn_by_late_data_and_may_come_back(accumulation: str, condition: Any) -> None:
    engine = alerts(accumulation, condition)
    for event in [
        sighting(0, 10, 500),
        sighting(1, 40, 9000),
        sighting(2, 20, 5000),
        sighting(3, 25, 250),
        sighting(4, 26, None),
    ]:
        engine.event(event)
    assert [(p.op, p.sequence, p.timing, p.values) for p in engine.panes] == [
        ("insert", 0, "on_time", {"km": 0.5}),
        ("retract", 0, "late", {"km": 0.5}),  # the later sighting ends the alert: nothing stands
        ("insert", 1, "late", {"km": 0.25}),
        ("retract", 1, "late", {"km": 0.25}),  # a null condition is absent
    ]


def test_a_view_reads_keys_and_bounds_and_shows_null_where_it_divides_by_zero() -> None:
    view = View().where("bank <> 'x' AND window_end > 50").select(mean="total / n", late="window_end - window_start")
    assert view.row(((0, 60), ("sbi",)), ("bank",), {"total": 6, "n": 0}) == {"mean": None, "late": 60}
    assert view.row(((0, 60), ("x",)), ("bank",), {"total": 6, "n": 1}) is None
    assert view.row(((0, 50), ("sbi",)), ("bank",), {"total": 6, "n": 1}) is None


def graph_with(view: View, accumulation: str = ACCUMULATING) -> Graph:
    nodes = (Rows("rows", columns=COLUMNS), Aggregation("minutes", "rows", Sliding(60, 60), ("user",), AGGREGATES))
    return Graph((SourcePlan(Ascending(), ("0",)),), nodes, (Reading("minutes", OutputPlan("o", 0, accumulation, view=view)),))


@pytest.mark.parametrize(
    ("view", "accumulation", "says"),
    [
        (View().where("tota > 1"), ACCUMULATING, "no column 'tota'.*total.*user.*window_end"),
        (View().select(x="n / m"), ACCUMULATING, "no column 'm'"),
        (View().select(mean="total / n").where("total > 1"), ACCUMULATING, "no column 'total'.*mean"),
        (View().select(user="n"), ACCUMULATING, "already has 'user'"),
        (View().select(sequence="n"), ACCUMULATING, "already has 'sequence'"),
        (View().where("n > 1"), DISCARDING, "never states one"),
    ],
)
def test_a_view_that_cannot_be_is_refused_at_definition(view: View, accumulation: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        check(graph_with(view, accumulation))


@pytest.mark.parametrize(
    "text", ["", "n >", "n > 1)", "SUBSTR(a, 1)", "CASE END", "n ? 1", "ABS(a, b)", "LEAST(a)", "a BETWEEN 1", "1 2"]
)
def test_a_text_that_is_no_expression_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(DefinitionError, match="where"):
        View().where(text)


def test_an_expression_object_is_no_truth_of_its_own() -> None:
    with pytest.raises(DefinitionError, match="&"):
        assert (col("a") > 1) and (col("b") > 1)


NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4", 3), ("(1 + 2) * 3", 9), ("-7 % 3", -1), ("7 / 2", 3.5), ("7 / 0", None), ("7 % 0", None), ("-a", -5),
        ("a = 5 AND z IS NULL", True), ("z = z", None), ("z > 1 OR TRUE", True), ("z > 1 AND FALSE", False), ("NOT z", None),
        ("a IN (1, 5)", True), ("a NOT IN (1, 2)", True), ("a IN (1, z)", None), ("a BETWEEN 5 AND 6", True),
        ("a NOT BETWEEN 5 AND 6", False), ("t = 'it''s'", True), ("t > 3", None), ("t + 1", None), ("nan = nan", True),
        ("nan > 1e308", True), ("CASE WHEN z THEN 1 WHEN a > 4 THEN 2 END", 2), ("CASE WHEN a > 5 THEN 1 END", None),
        ("COALESCE(z, a)", 5), ("NULLIF(a, 5)", None), ("LEAST(a, z, 2)", 2), ("GREATEST(a, t)", None), ("ABS(-a)", 5),
        ("FLOOR(-2.5)", -3), ("CEIL(2.1)", 3), ("UPPER(t)", "IT'S"), ("LENGTH(t)", 4), ("big + 1", None), ("big * 1.0 > 1", True),
        ('"a" != 4', True), ("`a` == 5", True), ("a is not null", True), ("1 < 2 = TRUE", True), ("dec * 2 = 0.5", True),
        ("dec / dec", 1.0), (".5 + 1.", 1.5), ("FLOOR(nan)", None), ("CEIL(nan * 2) IS NULL", True),
    ],
)  # fmt: skip
def test_what_expressions_mean(text: str, value: Any) -> None:
    from decimal import Decimal

    row = {"a": 5, "z": None, "t": "it's", "nan": NAN, "big": 2**63 - 1, "dec": Decimal("0.25")}
    assert evaluate(expression(text), row) == value
    assert evaluate(expression(str(expression(text))), row) == value, "an expression says itself"
    assert holds(expression(text), row) is (value not in (None, 0) and not isinstance(value, str))
