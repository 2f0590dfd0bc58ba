"""Stages: however the stream is cut, windows over results say what the oracle says, which recomputes every stage after every row."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from agreement import alike, standing
from hypothesis import given
from hypothesis import strategies as st
from inline import KINDS, InlineRun, InlineRunner, run_engine
from test_engine_equals_oracle import grids, sessions, sources, tried

from eventide.engine.batch import bucket_task
from eventide.engine.batch.microbatch import Engine
from eventide.engine.batch.stages import StagePlan, with_stages
from eventide.kernel import handing
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import OP, UNSEEN
from eventide.kernel.session_windows import SessionFiring
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Node, Reading, Results, Rows
from eventide.model.oracle import Oracle
from eventide.model.pane import INSERT
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import ACCUMULATING, RETRACTING
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, When
from eventide.model.view import WHOLE, View
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding, Window
from eventide.state.ledger import stage_name
from eventide.state.store import Store
from eventide.testing.streams import Stream, generate, merged, tailed_delay

EXAMPLES = int(os.environ.get("EVENTIDE_EXAMPLES", "40"))
ALLOWED = st.sampled_from([0, 3, 7, 20, 50])
FIRST = (("n", aggregate.count()), ("s", aggregate.sum("value")))
VIEWS = (
    View().where("n > 1"),
    View().where("s < 40 OR s IS NULL"),
    View().select(n="n % 3", s="s"),
    View().select(n="2 * n", s="s / (n - 1)").where("n < 8"),
)
COLUMNS = (("key", "string"), ("value", "bigint"), ("region", "int"))
Case = tuple[Graph, list[Event], int]


def over(nth: int) -> tuple[tuple[str, aggregate.Aggregate], ...]:
    """Of every way to aggregate one: extremes, sums, all values, those of one row."""
    column = number(nth - 1)
    named = {
        number(nth): aggregate.max(column), "t": aggregate.sum(column), "c": aggregate.collect(column),
        "d": aggregate.distinct(column, exact=True), "f": aggregate.first(column), "l": aggregate.last("window_start"),
    }  # fmt: skip
    return tuple(named.items())


def number(nth: int) -> str:
    """The column of a stage that always holds a number."""
    return f"n{nth}" if nth else "n"


@st.composite
def late_sources(draw: st.DrawFn, duplicates: bool) -> tuple[SourcePlan, Stream]:
    """Half of the rows come late, by up to a few windows: nearly every stream corrects and withdraws results."""
    stream = Stream(
        lanes=draw(st.integers(1, 3)), rows=draw(st.sampled_from([12, 25, 40])), uneven=draw(st.booleans()), pace=6,
        delay=tailed_delay(3, 0.5, 45), silence=0.1, burst=0.2, nulls=0.1, dead=0.03, keys=("a", "a", "b", None),
        duplicates=0.2 if duplicates else 0.0,
    )  # fmt: skip
    known = tuple(str(lane) for lane in range(stream.lanes))
    return SourcePlan(Bounded(draw(st.sampled_from([0, 0, 3, 8]))), known, draw(st.sampled_from([None, 6, 20]))), stream


@st.composite
def chains(draw: st.DrawFn, first: Any = grids, above: Any = grids, dedupe: bool = False) -> Case:
    """Two or three stages over a stream, keys changing between them; also read below the last one, and by several outputs."""
    of = draw(st.sampled_from([late_sources, late_sources, sources]))
    described = draw(st.lists(of(dedupe), min_size=1, max_size=2))
    keys = draw(st.sampled_from([("key",), ("key", "region"), ()]))
    nodes: list[Node] = [
        Rows("rows", tuple(range(len(described))), COLUMNS, 20 if dedupe else None),
        Aggregation("stage 0", "rows", draw(first), keys, FIRST),
    ]
    last = draw(st.sampled_from([1, 1, 2]))
    for nth in range(1, last + 1):
        view = draw(st.sampled_from([WHOLE, *VIEWS])) if nth == 1 else WHOLE
        nodes.append(Results(f"results {nth}", nodes[-1].name, draw(ALLOWED), view))
        keys = draw(st.sampled_from([(), keys, (number(nth - 1),), (*keys, number(nth - 1))]))
        nodes.append(Aggregation(f"stage {nth}", nodes[-1].name, draw(above), keys, over(nth)))
    outputs = [Reading(f"stage {last}", draw(readings(f"out{index}", last))) for index in range(draw(st.integers(1, 2)))]
    outputs += [Reading(f"stage {nth}", draw(readings(f"below{nth}", nth))) for nth in range(last) if draw(st.booleans())]
    graph = Graph(
        tuple(s for s, _ in described), tuple(nodes), tuple(outputs), draw(st.sampled_from(["hold", "hold", "advance"]))
    )
    seed = draw(st.integers(0, 2**32))
    rng = random.Random(seed)
    events = merged(*(generate(stream, seed + index, index) for index, (_, stream) in enumerate(described)))
    return graph, [_rowed(e, rng) for e in events], seed


def _rowed(event: Event, rng: random.Random) -> Event:
    region = rng.choice([1, 2, None]) if not event.marker else None
    return replace(event, row={**event.row, "key": event.key, "region": region})


@st.composite
def readings(draw: st.DrawFn, name: str, nth: int) -> OutputPlan:
    one = number(nth)
    view = draw(st.sampled_from([WHOLE, WHOLE, View().where(f"{one} > 2"), View().select(twice=f"{one} * 2")]))
    late = draw(st.sampled_from([PerBatch(), PerBatch(), EveryRows(2), AtExpiry(), After(5), Every(6)]))
    early = draw(st.sampled_from([None, None, EveryRows(2), Every(10), When(f"{one} > 2")]))
    return OutputPlan(name, draw(ALLOWED), draw(st.sampled_from([ACCUMULATING, RETRACTING])), early, late, view)


def engine_of(graph: Graph, root: str, buckets: int) -> Engine:
    """The graph of a chain as a pipeline binds it."""
    kinds = {**KINDS, "region": pl.Int32()}
    first, *others = graph.all_of(Aggregation)
    dedupe = ("id",) if graph.all_of(Rows)[0].dedupe_within is not None else ()
    shape = BoundPlan(graph.plan(first), first.keys, dedupe, buckets, tells_watermark=True)
    results, below, stages = graph.all_of(Results), "", []
    for number, (node, read) in enumerate(zip(others, results, strict=True), 1):
        name = stage_name(below, number)
        stages.append(StagePlan(name, below, read.allowed, read.view, graph.plan(node)))
        below = name
    shape = with_stages(shape, kinds, stages)
    return Engine(shape, kinds, tuple(False for _ in shape.outputs), Store(root), InlineRunner())


def oracle(case: Case) -> Oracle:
    graph, events, _ = case
    engine = Oracle(graph)
    for event in events:
        engine.event(event)
    engine.drain()
    return engine


def the_stages_say_what_the_oracle_says(case: Case) -> None:
    graph, events, seed = case
    rng, ref = random.Random(seed), oracle(case)
    clocks = sorted(rng.randint(0, max((e.arrival for e in events), default=0)) for _ in range(rng.randint(0, 12)))
    with tempfile.TemporaryDirectory() as root:
        got = run_engine(engine_of(graph, root, rng.choice([1, 2, 3])), events, clocks, rng, again=0.1)
    says_the_same(graph, got, ref)


def says_the_same(graph: Graph, got: InlineRun, ref: Oracle) -> None:
    for reading in graph.outputs:
        same_table(graph, reading, got, ref)
        counts, theirs = got.ledger.outputs[reading.output.name], ref.counts(reading.output.name)
        assert {v: counts[v] for v in ("on_time", "admitted", "refused")} == {
            v: theirs[v] for v in ("on_time", "admitted", "refused")
        }, reading


def same_table(graph: Graph, reading: Reading, got: InlineRun, ref: Oracle) -> None:
    node, output = graph.node(reading.of), reading.output
    assert isinstance(node, Aggregation)
    names = output.view.names(node.keys, [name for name, _ in node.aggregates], "a view")
    mine = [
        (
            (r["window_start"], r["window_end"]), tuple(r[k] for k in node.keys), r["sequence"], r["op"], r["timing"],
            tuple(r[n] for n in names),
        )
        for r in got.panes[output.name]
    ]  # fmt: skip
    theirs = [
        (p.window, p.key, p.sequence, p.op, p.timing, tuple(p.values.values())) for p in ref.panes if p.output == output.name
    ]
    ours, oracles = standing(mine), standing(theirs)
    assert ours.keys() == oracles.keys(), (output, ours.keys() ^ oracles.keys())
    wrong = {at: (ours[at], oracles[at]) for at in ours if not alike(ours[at], oracles[at])}
    assert not wrong, (output, wrong)


@tried(EXAMPLES)
@given(chains())
def test_windows_over_results_of_fixed_windows(case: Case) -> None:
    the_stages_say_what_the_oracle_says(case)


@tried(EXAMPLES // 4)
@given(chains(dedupe=True))
def test_over_rows_of_which_duplicates_are_taken_out(case: Case) -> None:
    the_stages_say_what_the_oracle_says(case)


@tried(EXAMPLES)
@given(chains(first=sessions))
def test_windows_over_results_of_sessions(case: Case) -> None:
    the_stages_say_what_the_oracle_says(case)


class RowByRow(random.Random):
    """Every batch takes all that has arrived."""

    def choice(self, seq: Any) -> Any:
        return seq[-1]


def a_session_that_is_open_again() -> None:
    """The result of [14, 19) has fired in [0, 20); at W = 23 a late row joins its session to one that is open until 28.

    By then W is beyond 20 + 5, so that what does not leave at that row stays for good.
    """
    rows = ((14, "a"), (22, "b"), (23, "a"), (18, "a"), (60, "b"))  # each arrives an instant after the one before
    events = [Event(n, t, key, {"key": key, "value": 1}, 0, "0", n) for n, (t, key) in enumerate(rows)]
    graph = Graph(
        (SourcePlan(Bounded(0), ("0",)),),
        (
            Rows("rows", (0,), COLUMNS),
            Aggregation("stage 0", "rows", Session(5), ("key",), FIRST),
            Results("results 1", "stage 0", 20),
            Aggregation("stage 1", "results 1", Sliding(20, 20), (), over(1)),
        ),
        (Reading("stage 1", OutputPlan("out", 5)),),
    )
    with tempfile.TemporaryDirectory() as root:
        got = run_engine(engine_of(graph, root, 1), events, list(range(len(rows))), RowByRow(0))
    says_the_same(graph, got, oracle((graph, events, 0)))
    said = [(r["window_end"], r["op"], r["timing"], r["c"]) for r in got.panes["out"]]
    told = [(20, "insert", "on_time", [1]), (20, "retract", "late", [1]), (40, "insert", "on_time", [1, 3])]
    assert said == [*told, (80, "insert", "on_time", [1])]


def test_a_session_that_is_open_again_leaves_the_stage_at_the_row_that_opened_it() -> None:
    a_session_that_is_open_again()


def any_chain(first: Window) -> None:
    @tried(200)
    @given(chains(first=st.just(first), above=st.just(Sliding(20, 20))))
    def tries(case: Case) -> None:
        the_stages_say_what_the_oracle_says(case)

    tries()


def _one_too_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = handing._passed
    monkeypatch.setattr(handing, "_passed", lambda one: passed(one) - (passed(one) > UNSEEN).cast(pl.Int64))


def _withdrawn_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    told = bucket_task.changes
    monkeypatch.setattr(bucket_task, "changes", lambda *given: told(*given).filter(pl.col(OP) == INSERT))


def _open_again_and_not_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionFiring, "_open_again", lambda *given: None)


@pytest.mark.parametrize(
    ("fault", "tries"),
    [
        (_one_too_kind, lambda: any_chain(Sliding(10, 5))),
        (_withdrawn_results_stay, lambda: any_chain(Sliding(10, 5))),
        (_open_again_and_not_withdrawn, a_session_that_is_open_again),
    ],
)
def test_broken_on_purpose_they_differ(fault: Any, tries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds shifted by one; results that were withdrawn go on standing in the next stage; so do sessions that are open again."""
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        tries()
