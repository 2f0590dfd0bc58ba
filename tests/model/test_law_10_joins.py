"""Law 10: a join holds exactly the pairs that match and were let in, at every moment; null rows go when a match comes."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.randomgraphs import COLUMNS, EXAMPLES, SEEDS, Watched, apply, joined, of_join, run

from eventide.model import aggregate, oracle, pairing
from eventide.model.event import Event
from eventide.model.graph import FULL, HOWS, INNER, LEFT, RIGHT, Aggregation, Between, Graph, Join, Reading, Rows
from eventide.model.lateness import Verdict
from eventide.model.pairing import Pairing, Said, passed, place_of
from eventide.model.pane import INSERT, RETRACT
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.time import MAX_TIME
from eventide.model.watermark import Ascending, Bounded
from eventide.model.window import Session, Sliding

SHAPES = st.tuples(st.integers(0, 2**32), st.sampled_from(HOWS), st.booleans())


def let_in(join: Join, w: int | None, time: int) -> bool:
    if w is None:
        return True
    if isinstance(join.within, Between):
        return w <= time + join.allowed
    return w < (time // 10 + 1) * 10 + join.allowed


def matches(join: Join, left: Event, right: Event) -> bool:
    if left.row["user"] is None or left.row["user"] != right.row["user"]:
        return False
    if place_of(left) == place_of(right) and not join.self_pairs:
        return False
    if isinstance(join.within, Between):
        return join.within.lo <= right.event_time - left.event_time <= join.within.hi
    return left.event_time // 10 == right.event_time // 10


def batch(join: Join, seen: list[tuple[int | None, Event]], itself: bool, w: int | None) -> list[tuple[Any, dict[str, Any]]]:
    """The join of all rows let in so far, from scratch: pairs in their order, and who stands alone."""
    rows = [event for at, event in seen if let_in(join, at, event.event_time)]
    left = [e for e in rows if e.source == 0]
    right = left if itself else [e for e in rows if e.source == 1]
    pairs = [(a, b) for a in left for b in right if matches(join, a, b)]
    pairs.sort(key=lambda p: (max(p[0].position, p[1].position), min(p[0].position, p[1].position), p[0].position))
    found = [((place_of(a), place_of(b)), shown(a, b)) for a, b in pairs]
    if join.how in (LEFT, FULL):
        alone = [a for a in left if not any(p[0] is a for p in pairs) and gone(join, a.event_time, 1, w)]
        found += [((place_of(a), None), shown(a, None)) for a in alone]
    if join.how in (RIGHT, FULL):
        alone = [b for b in right if not any(p[1] is b for p in pairs) and gone(join, b.event_time, -1, w)]
        found += [((None, place_of(b)), shown(None, b)) for b in alone]
    return found


def gone(join: Join, time: int, sign: int, w: int | None) -> bool:
    if w is None or not isinstance(join.within, Between):
        return w is not None and w >= (time // 10 + 1) * 10
    return w > (time + join.within.hi if sign == 1 else time - join.within.lo)


def shown(left: Event | None, right: Event | None) -> dict[str, Any]:
    user = (left or right).row["user"]
    return {"user": user, "l_value": left and left.row["value"], "r_value": right and right.row["value"]}


def agrees(graph: Graph, rows: list[Event]) -> bool:
    """Whether the table is the batch join, after every row and at the end; and the pairs came in their order."""
    engine, table = Watched(graph), {}
    (join,) = graph.all_of(Join)
    itself = join.left == join.right
    for event in [*rows, None]:
        engine.drain() if event is None else engine.event(event)
        have = {key: values for (_, key), values in apply(table, engine.panes).items()}
        want = batch(join, engine.seen, itself, engine.watermark)
        if have != dict(want):
            return False
    said = [pane.key for pane in engine.panes if pane.op == INSERT and None not in pane.key]
    return said == [key for key, _ in want if None not in key] and len({p.rank for p in engine.panes}) <= 2


@EXAMPLES
@given(SHAPES)
def test_the_table_is_the_batch_join_over_the_rows_let_in_at_every_moment(shape: tuple[int, str, bool]) -> None:
    seed, how, itself = shape
    rng = random.Random(seed)
    graph = joined(rng, how, itself=itself)
    assert agrees(graph, of_join(rng, graph))


class Evicting(Pairing):
    """Forgets every row that the rule says can have no more matches."""

    early = 0
    dropped = 0

    def advance(self, watermark: int | None) -> list[Said]:
        said = super().advance(watermark)
        for side in (0, 1):
            span = self.join.allowed - self.early
            left = [k for k in self.kept[side] if not passed(self.join, side, k.row.event_time, watermark, span)]
            type(self).dropped += len(self.kept[side]) - len(left)
            self.kept[side][:] = left
        return said


def evicts_unseen(seed: int, how: str, itself: bool, monkeypatch: pytest.MonkeyPatch, kind: type[Evicting] = Evicting) -> bool:
    rng = random.Random(seed)
    graph = joined(rng, how, itself=itself)
    rows = of_join(rng, graph)
    kept = run(graph, rows).panes
    with monkeypatch.context() as patch:
        patch.setattr(oracle, "Pairing", kind)
        return run(graph, rows).panes == kept


@EXAMPLES
@given(shape=SHAPES)
def test_eviction_changes_nothing_that_is_said(shape: tuple[int, str, bool]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert evicts_unseen(*shape, patch)


def test_eviction_forgets_most_rows_and_one_instant_earlier_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(Evicting):
        early = 1

    Evicting.dropped = 0
    assert all(evicts_unseen(seed, how, False, monkeypatch) for seed in SEEDS for how in (INNER, FULL))
    assert Evicting.dropped > 100
    assert not all(evicts_unseen(seed, INNER, False, monkeypatch, Hasty) for seed in range(600))


@EXAMPLES
@given(SHAPES)
def test_every_row_of_each_side_is_on_time_admitted_or_refused_and_refused_ones_are_kept(shape: tuple[int, str, bool]) -> None:
    seed, how, itself = shape
    rng = random.Random(seed)
    graph = joined(rng, how, itself=itself)
    engine = Watched(graph)
    for event in of_join(rng, graph):
        engine.event(event)
    engine.drain()
    (join,) = graph.all_of(Join)
    for side in (0, 1):
        mine = [(w, e) for w, e in engine.seen if itself or e.source == side]
        counts = engine.pairing.counts[side]
        assert sum(counts.values()) == len(mine)
        assert counts[Verdict.REFUSED] == sum(not let_in(join, w, e.event_time) for w, e in mine)
        if isinstance(join.within, Between):
            assert counts[Verdict.ON_TIME] == sum(w is None or w <= e.event_time for w, e in mine)
    refused = [e.position for w, e in engine.seen if not let_in(join, w, e.event_time)]
    assert [late.event.position for late in engine.late if late.output == "pairs"] == refused


@EXAMPLES
@given(st.tuples(st.integers(0, 2**32), st.booleans()))
def test_windows_over_an_inner_join_are_windows_over_its_pairs(shape: tuple[int, bool]) -> None:
    seed, itself = shape
    rng = random.Random(seed)
    graph = joined(rng, INNER, itself=itself, above=True)
    engine = Watched(graph)
    for event in of_join(rng, graph):
        engine.event(event)
    engine.drain()
    node, join = graph.node("over"), graph.node("pairs")
    if isinstance(
        join.within, Between
    ):  # rows of one window of the join may be as late as its end, which is late for an earlier end
        assert engine.counts("windows")[Verdict.REFUSED] == 0, "what the join let in, its windows let in"
    if isinstance(node.window, Session):
        return
    held: dict[Any, list[Any]] = defaultdict(list)
    at = {place_of(event): (event.position, w, event.event_time) for w, event in engine.seen}
    for pair, values in batch(join, engine.seen, itself, MAX_TIME):
        _, w, _ = max(at[place] for place in pair)
        for bounds in node.window.assign(max(at[place][2] for place in pair)):
            if w is None or w < bounds[1] + join.allowed:
                held[bounds, (values["user"],)] += [] if values["l_value"] is None else [values["l_value"]]
    windows = apply({}, [pane for pane in engine.panes if pane.output == "windows"])
    assert {id_: sorted(v["s"]) for id_, v in windows.items()} == {id_: sorted(v) for id_, v in held.items()}


# --- broken on purpose


class NeverWithdraws(Pairing):
    def row(self, event: Event, sides: tuple[int, ...]) -> tuple[Verdict, list[Said]]:
        result, said = super().row(event, sides)
        return result, [change for change in said if change.op != RETRACT]


class StatesOneTooEarly(Pairing):
    def advance(self, watermark: int | None) -> list[Said]:
        return super().advance(None if watermark is None or watermark == MAX_TIME else watermark + 1) + super().advance(
            watermark
        )


class ForgetsTheLate(Pairing):
    def row(self, event: Event, sides: tuple[int, ...]) -> tuple[Verdict, list[Said]]:
        return (
            super().row(event, sides) if self.watermark is None or self.watermark <= event.event_time else (Verdict.REFUSED, [])
        )


@pytest.mark.parametrize("broken", [NeverWithdraws, StatesOneTooEarly, ForgetsTheLate])
def test_the_law_notices_when_a_join_is_broken(broken: type[Pairing], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "Pairing", broken)
    assert _some_disagree()


def test_the_law_notices_verdicts_that_are_shifted_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pairing.judged
    monkeypatch.setattr(pairing, "judged", lambda j, t, w: right(j, t, None if w is None else w - 1))
    assert _some_disagree()


def _some_disagree() -> bool:
    for rng in map(random.Random, SEEDS):
        graph = joined(rng, FULL)
        if not agrees(graph, of_join(rng, graph)):
            return True
    return False


# --- by hand


def orders_and_payments(how: str, within: Any, allowed: int = 0) -> Graph:
    sources = (SourcePlan(Ascending(), ("0",)), SourcePlan(Ascending(), ("0",)))
    sides = (Rows("orders", (0,), COLUMNS), Rows("payments", (1,), COLUMNS))
    join = Join("paid", "orders", "payments", (("user", "user"),), within, how, allowed, ("order_", "payment_"))
    return Graph(sources, (*sides, join), (Reading("paid", OutputPlan("out")),))


def row(arrival: int, side: int, time: int, value: int, user: str | None = "ann") -> Event:
    return Event(arrival, time, row={"user": user, "value": value}, source=side, offset=arrival)


def test_a_null_row_is_taken_back_when_a_late_match_comes() -> None:
    #  an order at 10 waits for payments up to 15; W passes at 20, so it stands alone; the payment of 12 comes late, at W = 20
    engine = oracle.Oracle(orders_and_payments(LEFT, Between(0, 5), allowed=10))
    for event in [row(0, 0, 10, 1), row(1, 1, 9, 0, "bob"), row(2, 0, 20, 2, "bob"), row(3, 1, 20, 0, "cid"), row(4, 1, 12, 7)]:
        engine.event(event)
    order, payment = (0, "0", 0), (1, "0", 4)
    assert [(p.op, p.timing, p.key, p.values["order_value"], p.values["payment_value"]) for p in engine.panes] == [
        ("insert", "on_time", (order, None), 1, None),
        ("retract", "late", (order, None), 1, None),
        ("insert", "late", (order, payment), 1, 7),
    ]


def test_a_late_row_whose_wait_is_over_stands_alone_at_once() -> None:
    engine = oracle.Oracle(orders_and_payments(LEFT, Between(0, 5), allowed=20))
    for event in [row(0, 0, 20, 1, "bob"), row(1, 1, 20, 1, "cid"), row(2, 0, 10, 3)]:
        engine.event(event)
    assert [(p.op, p.timing, p.values) for p in engine.panes] == [
        ("insert", "late", {"user": "ann", "order_value": 3, "payment_value": None})
    ]


def test_null_keys_match_nothing_and_a_right_row_alone_still_shows_its_key() -> None:
    engine = oracle.Oracle(orders_and_payments(FULL, Sliding(10, 10)))
    for event in [row(0, 0, 1, 1, None), row(1, 1, 2, 2, None), row(2, 1, 3, 3, "ann")]:
        engine.event(event)
    engine.drain()
    assert Counter(p.values["user"] for p in engine.panes) == {None: 2, "ann": 1}
    assert {"user": "ann", "order_value": None, "payment_value": 3} in [p.values for p in engine.panes]


def test_a_row_pairs_with_itself_only_if_asked() -> None:
    for asked in (False, True):
        join = Join("near", "l", "l", (("user", "user"),), Between(0, 5), prefix=("a_", "b_"), self_pairs=asked)
        graph = Graph(
            (SourcePlan(Ascending(), ("0",)),), (Rows("l", (0,), COLUMNS), join), (Reading("near", OutputPlan("out")),)
        )
        engine = oracle.Oracle(graph)
        for event in [row(0, 0, 1, 1), row(1, 0, 3, 2)]:
            engine.event(event)
        pairs = [(p.values["a_value"], p.values["b_value"]) for p in engine.panes]
        assert pairs == ([(1, 1), (1, 2), (2, 2)] if asked else [(1, 2)])


def test_first_and_last_to_arrive_are_told_by_the_pairs_positions() -> None:
    pairs = [Event(5, 5, row={"x": x}, beside=(at, 0, "0", at)) for at, x in ((1, "a"), (3, "c"), (2, "b"))]
    assert aggregate.compute(aggregate.first("x", by="arrival"), pairs) == "a"
    assert aggregate.compute(aggregate.last("x"), pairs) == "c"


def test_of_two_rows_that_match_both_ways_the_pair_with_the_later_on_the_left_is_the_second() -> None:
    join = Join("pairs", "l", "l", (("user", "user"),), Between(-5, 5), prefix=("l_", "r_"))
    kinds = (("first", aggregate.first("r_value", by="arrival")), ("last", aggregate.last("r_value", by="arrival")))
    over = Aggregation("over", "pairs", Sliding(10, 10), (), (*kinds, ("latest", aggregate.last("r_value"))))
    nodes = (Rows("l", (0,), COLUMNS), join, over)
    engine = oracle.Oracle(Graph((SourcePlan(Bounded(0), ("0",)),), nodes, (Reading("over", OutputPlan("windows")),)))
    for offset, value in enumerate((1, 2)):
        engine.event(Event(offset, 5, row={"user": "a", "value": value}, offset=offset))
    engine.drain()
    assert [pane.values for pane in engine.panes] == [{"first": 2, "last": 1, "latest": 1}]
