"""Why a row became what it did: W at its position, its verdicts and the remedies, against the reference engine that has seen everything."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from randomplans import plans, streams

from eventide.model import aggregate
from eventide.model.course import Heard, Silence
from eventide.model.event import Event
from eventide.model.fate import Asked, Case
from eventide.model.graph import Aggregation, Graph, Reading, Results, Rows
from eventide.model.lateness import Verdict
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference, worst_of
from eventide.model.watermark import Bounded, LaneState, observe
from eventide.model.window import Session, Sliding

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class Watched(Reference):
    """The reference, which notes what became of each row."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.found: dict = {}

    def judge(self, event: Event) -> None:
        self.found[event.position] = (
            self.watermark, [r.insert(event, self.watermark, self.state.clock) for r in self._again()]
        )  # fmt: skip
        super().judge(event)

    def _again(self):
        import copy

        return [copy.deepcopy(reader) for reader in self.readers]


def watched(plan: Plan, events: list[Event]) -> Watched:
    engine = Watched(plan)
    for event in events:
        engine.event(event)
    return engine


def heard(plan: Plan, events: list[Event]) -> list[Heard]:
    """Every row, each as if it mattered."""
    lanes, found = {}, []
    for event in events:
        lane = lanes.setdefault(event.lane_id, LaneState())
        observe(plan.sources[event.source].strategy, lane, event)
        found.append(Heard(event.position, lane.watermark, event.arrival))
    return found


def case_of(plan: Plan, events: list[Event], row: Event) -> Case:
    before = [e for e in events if e.position < row.position and e.broken is None and not e.marker]
    return Case(
        plan.sources,
        heard(plan, [e for e in events if e.position < row.position]),
        row,
        before,
        plan.dedupe_within,
        plan.when_all_idle,
    )


@EXAMPLES
@given(plans(most_outputs=2), streams(), st.data())
def test_w_and_every_verdict_are_the_references(plan: Plan, events: list[Event], data: st.DataObject) -> None:
    reference = watched(plan, events)
    able = [e for e in events if e.broken is None and not e.marker]
    assume(able)
    row = data.draw(st.sampled_from(able))
    case = case_of(plan, events, row)
    assert (case.duplicate_of is None) == (row.position in reference.found)
    if case.duplicate_of is None:
        watermark, found = reference.found[row.position]
        assert case.stood.watermark == watermark
        assert [case.judged(Asked(o.name, plan.window, o.allowed)) for o in plan.outputs] == found


@settings(EXAMPLES, max_examples=15)
@given(plans(most_outputs=1), streams(), st.data())
def test_the_least_setting_lets_the_row_in_and_one_less_does_not(plan: Plan, events: list[Event], data: st.DataObject) -> None:
    reference, (output,) = watched(plan, events), plan.outputs
    refused = [
        e for e in events if e.position in reference.found and worst_of(reference.found[e.position][1][0]) is Verdict.REFUSED
    ]
    assume(refused)
    row = data.draw(st.sampled_from(refused))
    remedy = case_of(plan, events, row).remedy(Asked(output.name, plan.window, output.allowed))

    def lets_in(changed: Plan) -> bool:
        found = watched(changed, events).found
        return row.position in found and worst_of(found[row.position][1][0]) is not Verdict.REFUSED

    def allowing(span: int) -> Plan:
        return replace(plan, outputs=(replace(output, allowed=span),))

    def declared(**settings: object) -> Plan:
        return replace(plan, sources=(replace(plan.sources[0], **settings),))

    assert lets_in(allowing(remedy.allowed)) and not lets_in(allowing(remedy.allowed - 1))
    if plan.dedupe_within is not None:
        return  # what is remembered for longer may make other rows duplicates
    bound, idle_after = remedy.bound, remedy.idle_after
    if bound is not None:
        assert lets_in(declared(strategy=Bounded(bound))) and not lets_in(declared(strategy=Bounded(bound - 1)))
    else:
        assert not lets_in(declared(strategy=Bounded(10**6)))
    if idle_after is not None:
        assert lets_in(declared(idle_after=idle_after)) and not lets_in(declared(idle_after=idle_after - 1))
    else:
        assert plan.sources[0].idle_after is None or not lets_in(declared(idle_after=10**6))


@settings(EXAMPLES, max_examples=15)
@given(streams(), st.sampled_from([Sliding(10, 10), Sliding(20, 5)]), st.sampled_from([0, 8, 30]), st.sampled_from([0, 8, 30]))
def test_ways_through_a_stage_are_those_that_the_oracle_counts(
    events: list[Event], first: Sliding, below: int, above: int
) -> None:
    sources, second = (SourcePlan(Bounded(3), ("0", "1"), 20),), Sliding(40, 20)
    n = (("n", aggregate.count()),)
    graph = Graph(
        sources,
        (Rows("rows"), Aggregation("a", "rows", first, (), n), Results("r", "a", below), Aggregation("b", "r", second, (), n)),
        (Reading("b", OutputPlan("out", above)),),
    )
    oracle, plan = Oracle(graph), Plan(sources, first, n, ())
    for event in events:
        oracle.event(event)
    told = dict.fromkeys(Verdict, 0)
    asked = Asked("out", second, above, ((first, below),))
    for row in (e for e in events if e.broken is None and not e.marker):
        case = Case(sources, heard(plan, [e for e in events if e.position < row.position]), row)
        watermark = case.stood.watermark
        for _, end in first.assign(row.event_time):
            if watermark is None or watermark < end + below:  # others the first stage refuses: they never come to the second
                for _, verdict in case.judged(replace(asked, below=((One(end), below),))):
                    told[verdict] += 1
    counts = oracle.counts("out")
    assert told == {verdict: counts[verdict] for verdict in Verdict}


class One(Sliding):
    """Of all windows the one that ends there."""

    def __new__(cls, end: int) -> One:
        made = object.__new__(cls)
        object.__setattr__(made, "end", end)
        return made

    def __init__(self, end: int) -> None:
        super().__init__(1, 1)

    def assign(self, event_time: int) -> list[tuple[int, int]]:
        return [(self.end - 1, self.end)]


def test_a_silence_that_moved_w_is_named() -> None:
    sources = (SourcePlan(Bounded(0), ("a", "b"), 10),)
    events = [Event(0, 5, lane="a"), Event(1, 3, lane="b"), Event(8, 40, lane="a", offset=1), Event(30, 7, lane="b", offset=1)]
    case = Case(sources, heard(Plan(sources, Session(5), (), ()), events[:-1]), events[-1])
    assert case.stood.watermark == 40 and case.stood.idle and case.stood.own == 3
    assert case.stood.moved == Silence(11, ((0, "b"),))
    remedy = case.remedy(Asked("out", Sliding(10, 10), 0))
    assert (remedy.allowed, remedy.bound, remedy.idle_after) == (31, 31, 29)
