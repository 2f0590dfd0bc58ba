"""Law 9: a chain of stages answers what recomputing every stage from scratch, after every row, would answer."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.randomgraphs import EXAMPLES, SEEDS, Table, Watched, apply, chain, events

from eventide.model import aggregate, reader
from eventide.model.aggregate import compute
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Results
from eventide.model.lateness import Verdict, verdict
from eventide.model.pane import INSERT, ON_TIME, Pane
from eventide.model.reader import Reader
from eventide.model.stage import Stage, result_row
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.model.view import View
from eventide.model.window import Session

Seen = list[tuple[int | None, Event]]


def levels(graph: Graph) -> list[tuple[Aggregation, int, View]]:
    """Each stage with the lateness and the view under which it is read."""
    read: dict[str, tuple[int, View]] = {r.of: (r.allowed, r.view) for r in graph.all_of(Results)}
    read |= {r.of: (r.output.allowed, r.output.view) for r in graph.outputs}
    return [(node, *read[node.name]) for node in graph.all_of(Aggregation)]


def by_the_rule(stages: list[tuple[Aggregation, int, View]], seen: Seen, cutoff: int = MAX_TIME, shift: int = 0) -> Table:
    """A row counts iff W at the row was below the least of e + A over all windows on its way. Nothing else is remembered."""
    node, allowed, view = stages[-1]
    held: dict[Any, list[Event]] = defaultdict(list)
    if len(stages) == 1:
        for w, event in seen:
            for bounds in node.window.assign(event.event_time):
                if w is None or w < min(cutoff, bounds[1] + allowed) + shift:
                    held[bounds, tuple(event.row[k] for k in node.keys)].append(event)
    else:
        below = stages[-2][0]
        times = {event.event_time for _, event in seen}
        for lower, *_ in stages[:-1]:
            times = {end - 1 for time in times for _, end in lower.window.assign(time)}
        for bounds in {bounds for time in times for bounds in node.window.assign(time)}:
            for id_, values in by_the_rule(stages[:-1], seen, min(cutoff, bounds[1] + allowed), shift).items():
                row = result_row(Pane("", *id_, 0, INSERT, "", values), below.keys)
                if bounds in node.window.assign(row.event_time):
                    held[bounds, tuple(row.row[k] for k in node.keys)].append(row)
    shown = {id_: view.row(id_, node.keys, {n: compute(a, rows) for n, a in node.aggregates}) for id_, rows in held.items()}
    return {id_: values for id_, values in shown.items() if values is not None}


def agrees(graph: Graph, rows: list[Event], expected: Callable[..., Table] = by_the_rule, *, each: bool = True) -> bool:
    """Whether the table is the expected one, after every row and at the end."""
    engine, table, told = Watched(graph), {}, 0
    stages = levels(graph)
    for event in rows:
        engine.event(event)
        have = apply(table, engine.panes[told:])
        told = len(engine.panes)
        w = engine.watermark
        closed = {} if w is None or not each else {i: v for i, v in expected(stages, engine.seen).items() if i[0][1] <= w}
        if each and have != closed:
            return False
    engine.drain()
    return apply(table, engine.panes[told:]) == expected(stages, engine.seen)


@EXAMPLES
@given(st.integers(0, 2**32))
def test_a_chain_is_what_the_rule_says_after_every_row(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng)
    assert agrees(graph, events(rng, rows=9 if len(graph.nodes) < 6 else 4))


@EXAMPLES
@given(st.integers(0, 2**32))
def test_the_on_time_pane_holds_the_rows_that_came_before_its_windows_closed(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng, stages=2)
    engine = Watched(graph)
    for event in events(rng):
        engine.event(event)
    engine.drain()
    first, (last, _, view) = levels(graph)
    expected = by_the_rule([first, (last, 0, view)], engine.seen)
    assert {p.window_id: p.values for p in engine.panes if p.timing == ON_TIME and p.op == INSERT} == expected


@EXAMPLES
@given(st.integers(0, 2**32))
def test_every_row_is_accounted_for_at_every_stage(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng, stages=3)
    engine = Watched(graph)
    for event in events(rng):
        engine.event(event)
    engine.drain()
    ways = [(w, event, event.event_time) for w, event in engine.seen]
    for stage, (node, allowed, _) in zip(engine.every_stage(), levels(graph), strict=True):
        expected: Counter[str] = Counter()
        let_in, missed = [], Counter()
        for w, event, time in ways:
            for _, end in node.window.assign(time):
                found = verdict(w, end, allowed)
                expected[found] += 1
                if found is not Verdict.REFUSED:
                    let_in.append((w, event, end - 1))
                else:
                    missed[event.position] += 1
        assert stage.counts == expected and sum(expected.values()) == sum(len(node.window.assign(t)) for *_, t in ways)
        name = stage.reader.output.name
        assert {late.event.position for late in engine.late if late.output == name} == set(missed)
        assert stage.withdrawals["offered"] == stage.withdrawals["applied"] + stage.withdrawals["refused"]
        ways = let_in


@EXAMPLES
@given(st.integers(0, 2**32))
def test_with_as_much_lateness_above_as_below_nothing_is_refused_above(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng, stages=2)
    results = graph.all_of(Results)[0]
    (reading,) = graph.outputs
    graph = replace(graph, outputs=(replace(reading, output=replace(reading.output, allowed=results.allowed)),))
    engine = Watched(graph)
    for event in events(rng):
        engine.event(event)
    engine.drain()
    assert engine.counts("out")[Verdict.REFUSED] == 0


class Sessions:
    """Sessions below one more stage, as plainly as can be: after every row all standing results are made anew and compared."""

    def __init__(self, graph: Graph) -> None:
        (self.below, self.a1, self.view), (self.above, self.a2, _) = levels(graph)
        self.sessions: list[tuple[int, int, Any, list[Event]]] = []
        self.handed: dict[Any, dict[str, Any]] = {}
        self.windows: dict[Any, dict[Any, Event]] = defaultdict(dict)

    def row(self, w: int | None, event: Event) -> None:
        low = MIN_TIME if w is None else w
        key, gap = tuple(event.row[k] for k in self.below.keys), self.below.window.gap
        start, end, rows = event.event_time, event.event_time + gap, [event]
        near = [s for s in self.sessions if s[2] == key and s[0] <= end and start <= s[1] and s[1] + self.a1 > low]
        start, end = min([start, *(s[0] for s in near)]), max([end, *(s[1] for s in near)])
        if end + self.a1 <= low:
            return
        self.sessions = [s for s in self.sessions if s not in near]
        self.sessions.append((start, end, key, [r for s in near for r in s[3]] + rows))
        self.hand_on(low, low)

    def hand_on(self, w: int, judged_at: int) -> None:
        """All results that stand when W is w, and what of the change each window above takes in."""
        now = {}
        for start, end, key, rows in self.sessions:
            values = {n: compute(a, rows) for n, a in self.below.aggregates}
            shown = self.view.row(((start, end), key), self.below.keys, values)
            if end <= w and shown is not None:
                now[(start, end), key] = shown
        for id_ in {*self.handed, *now}:
            if now.get(id_) != self.handed.get(id_):
                row = result_row(Pane("", *id_, 0, INSERT, "", now.get(id_) or {}), self.below.keys)
                for bounds in self.above.window.assign(id_[0][1] - 1):
                    if judged_at < bounds[1] + self.a2:
                        self.windows[bounds].pop(id_, None)
                        self.windows[bounds] |= {id_: row} if id_ in now else {}
        self.handed = now

    def table(self) -> Table:
        held: dict[Any, list[Event]] = defaultdict(list)
        for bounds, rows in self.windows.items():
            for row in rows.values():
                held[bounds, tuple(row.row[k] for k in self.above.keys)].append(row)
        return {id_: {n: compute(a, rows) for n, a in self.above.aggregates} for id_, rows in held.items()}


def sessions_agree(graph: Graph, rows: list[Event]) -> bool:
    engine, table = Watched(graph), {}
    plain = Sessions(graph)
    for event in rows:
        engine.pass_time(event.arrival)
        plain.hand_on(MIN_TIME if engine.watermark is None else engine.watermark, MIN_TIME)
        judged = len(engine.seen)
        engine.event(event)
        for w, seen in engine.seen[judged:]:
            plain.row(w, seen)
        w = MIN_TIME if engine.watermark is None else engine.watermark
        plain.hand_on(w, MIN_TIME)
        closed = {id_: values for id_, values in plain.table().items() if id_[0][1] <= w}
        if apply(table, engine.panes) != closed:
            return False
    engine.drain()
    plain.hand_on(MAX_TIME, MIN_TIME)
    return apply(table, engine.panes) == plain.table()


@EXAMPLES
@given(st.integers(0, 2**32))
def test_over_sessions_every_insert_and_withdrawal_is_judged_at_its_row(seed: int) -> None:
    rng = random.Random(seed)
    assert sessions_agree(chain(rng, first=(Session(4), Session(9)), stages=2), events(rng))


# --- broken on purpose


def _moved_first(stage: Stage, watermark: int | None, clock: int) -> None:
    for above in stage.above:
        above.advance(watermark, clock)
    stage.watermark = watermark
    stage.reader.advance(watermark)
    stage._tell(clock)


def _added(self: Reader, event: Event, watermark: int | None, clock: int) -> Any:
    return self.insert(event, watermark, clock)


def _not_taken_back(self: Reader, event: Event, watermark: int | None, fire: bool = True) -> Any:
    return []


def _late_by_one(watermark: int | None, end: int, allowed: int) -> Verdict:
    return verdict(None if watermark is None else watermark - 1, end, allowed)


BREAKS = {
    "the stage above fires before the one below": (Stage, "advance", _moved_first),
    "a correction is added to what it corrects": (Reader, "replace", _added),
    "a withdrawn result stays": (Reader, "remove", _not_taken_back),
    "every verdict one too kind": (reader, "verdict", _late_by_one),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_the_law_notices_when_a_chain_is_broken(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BREAKS[broken])
    assert not all(agrees(chain(rng, stages=2), events(rng)) for rng in map(random.Random, SEEDS)), broken


def test_the_law_notices_a_rule_that_is_shifted_by_one() -> None:
    for shift in (-1, 1):
        rngs = map(random.Random, SEEDS)
        shifted = lambda stages, seen, by=shift: by_the_rule(stages, seen, shift=by)  # noqa: E731
        assert not all(agrees(chain(rng, stages=2), events(rng), shifted, each=False) for rng in rngs)


def test_the_law_notices_a_session_that_is_not_withdrawn_when_it_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from eventide.model.standing import WindowState

    monkeypatch.setattr(WindowState, "withdraw", lambda *_: [])
    rngs = map(random.Random, range(300))
    assert not all(sessions_agree(chain(rng, first=(Session(4), Session(9)), stages=2), events(rng)) for rng in rngs)


# --- by hand


def test_one_result_may_stand_with_different_values_in_different_windows_of_the_next_stage() -> None:
    #  minutes [0,10) read with 15 allowed; above, [0,10) and [5,15) overlap, both allow 0
    #  the late row comes at W = 12: too late for [0,10), not for [5,15)
    rng = random.Random(0)
    graph = chain(rng, stages=2, views=False)
    rows, below, results, above = graph.nodes
    graph = replace(
        graph,
        sources=(replace(graph.sources[0], strategy=type(graph.sources[0].strategy)(0), lanes=("0",), idle_after=None),),
        nodes=(
            replace(rows, dedupe_within=None),
            replace(below, window=type(below.window)(10, 10), keys=()),
            replace(results, allowed=15, view=View()),
            replace(above, window=type(below.window)(10, 5), keys=(), aggregates=(("n", aggregate.sum("n")),)),
        ),
        outputs=(replace(graph.outputs[0], output=replace(graph.outputs[0].output, allowed=0)),),
    )
    engine = Watched(graph)
    for offset, time in enumerate([3, 12, 4, 40]):
        engine.event(Event(offset, time, row={"value": 1, "user": "a"}, offset=offset))
    engine.drain()
    assert apply({}, engine.panes) == {
        ((0, 10), ()): {"n": 1}, ((5, 15), ()): {"n": 2},
        ((10, 20), ()): {"n": 1}, ((15, 25), ()): {"n": 1},
        ((40, 50), ()): {"n": 1}, ((45, 55), ()): {"n": 1},
    }  # fmt: skip
    assert engine.counts("out") == {"on_time": 7, "refused": 1}
