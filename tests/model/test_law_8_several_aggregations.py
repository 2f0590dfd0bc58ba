"""Law 8: an output's answers are those of a pipeline that has only its aggregation; the stream is read and deduplicated once."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.randomgraphs import COLUMNS, EXAMPLES, GRIDS, SEEDS, events, output, run, source, view_over

from eventide.model import aggregate, oracle
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Reading, Rows
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import ACCUMULATING
from eventide.model.reference import Reference
from eventide.model.stage import Stage
from eventide.model.watermark import Ascending
from eventide.model.window import Session, Sliding

POOL = (("n", aggregate.count()), ("total", aggregate.sum("value")), ("all", aggregate.collect("value")))


def case(seed: int) -> tuple[Graph, list[Event]]:
    rng = random.Random(seed)
    nodes: list[Any] = [Rows("rows", (0, 1), COLUMNS, rng.choice([None, 8, 20]))]
    outputs = [Reading("rows", OutputPlan("audit"))]
    for number in range(rng.randint(1, 3)):
        window = rng.choice([*GRIDS, Session(4), Session(9)])
        computed = POOL[:2] if rng.random() < 0.5 else POOL
        nodes.append(Aggregation(f"agg {number}", "rows", window, rng.choice([(), ("user",), ("user", "value")]), computed))
        for each in range(rng.randint(1, 2)):
            view = view_over(rng, ("n", "total")) if rng.random() < 0.4 else None
            outputs.append(Reading(f"agg {number}", output(rng, f"out {number}.{each}", view)))
    graph = Graph((source(rng), source(rng)), tuple(nodes), tuple(outputs), rng.choice(["hold", "advance"]))
    rows = sorted([*events(rng, 0), *events(rng, 1)], key=lambda e: e.position)
    return graph, rows


def alone(graph: Graph, node: Aggregation, rows: list[Event]) -> Reference:
    """The pipeline that has only this aggregation."""
    engine = Reference(graph.plan(node))
    for index, event in enumerate(rows):
        engine.event(replace(event, key=tuple(event.row[name] for name in node.keys)))
        if index % 4 == 3:
            engine.look(event.arrival)
    engine.drain()
    return engine


def agrees(graph: Graph, rows: list[Event]) -> bool:
    engine = run(graph, rows)
    for node in graph.all_of(Aggregation):
        single = alone(graph, node, rows)
        for index, out in enumerate(graph.readings(node.name)):
            if [p for p in engine.panes if p.output == out.name] != [p for p in single.panes if p.output == out.name]:
                return False
            late = [(x.event.position, x.watermark, x.missed) for x in engine.late if x.output == out.name]
            if late != [(x.event.position, x.watermark, x.missed) for x in single.late if x.output == out.name]:
                return False
            if engine.counts(out.name) != single.state.pairs[index]:
                return False
        if engine.state.rows != single.state.rows:
            return False
    judged = [event.position for name, event in engine.audit if name == "audit"]
    return len(judged) == len(set(judged)) == engine.state.rows["judged"]


@EXAMPLES
@given(st.integers(0, 2**32))
def test_an_outputs_answers_are_those_of_a_pipeline_with_only_its_aggregation(seed: int) -> None:
    assert agrees(*case(seed))


class DedupesForEach(Oracle):
    """Each aggregation asks for itself whether a row is a copy: all but the first find one."""

    def judge(self, event: Event) -> None:
        for stage in self.stages:
            if stage is self.stages[0] or not self._is_duplicate(event):
                stage.row(event, self.state.clock)


def _one_lateness_for_all(right: Any) -> Any:
    def made(graph: Graph, node: Aggregation, out: OutputPlan, *rest: Any) -> Stage:
        return right(graph, node, replace(out, allowed=max(o.output.allowed for o in graph.outputs)), *rest)

    return made


def test_the_law_notices_copies_that_are_told_for_each_aggregation() -> None:
    wrong = 0
    for seed in SEEDS:
        graph, rows = case(seed)
        honest, broken = run(graph, rows), run(graph, rows, DedupesForEach)
        wrong += honest.panes != broken.panes
    assert wrong > 0


def test_the_law_notices_one_lateness_for_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    from eventide.model import stage

    monkeypatch.setattr(stage, "Stage", _one_lateness_for_all(Stage))
    assert not all(agrees(*case(seed)) for seed in SEEDS)


def test_a_counter_and_a_correlator_over_the_same_rows() -> None:
    sensors = SourcePlan(Ascending(), ("0",))
    nodes = (
        Rows("sensors", (0,), COLUMNS),
        Aggregation("per minute", "sensors", Sliding(60, 60), (), (("n", aggregate.count()),)),
        Aggregation("risk", "sensors", Sliding(30, 30), ("user",), (("closest", aggregate.min("value")),)),
    )
    outputs = (
        Reading("per minute", OutputPlan("counter")),
        Reading("risk", OutputPlan("risk summary", 5, ACCUMULATING)),
        Reading("sensors", OutputPlan("audit")),
    )
    engine = oracle.Oracle(Graph((sensors,), nodes, outputs))
    for offset, (time, user, value) in enumerate([(1, "x", 9), (20, "y", 4), (33, "x", 7), (29, "x", 2), (61, "y", 1)]):
        engine.event(Event(offset, time, row={"user": user, "value": value}, offset=offset))
    engine.look()
    assert [(p.output, p.window, p.key, p.timing, p.values) for p in engine.panes] == [
        ("risk summary", (0, 30), ("x",), "on_time", {"closest": 9}),
        ("risk summary", (0, 30), ("y",), "on_time", {"closest": 4}),
        ("counter", (0, 60), (), "on_time", {"n": 4}),
        ("risk summary", (0, 30), ("x",), "late", {"closest": 2}),
        ("risk summary", (30, 60), ("x",), "on_time", {"closest": 7}),
    ]
    assert len(engine.audit) == 5
