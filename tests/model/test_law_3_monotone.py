"""Law 3: W never goes back, a closed window stays closed but for admitted late rows, sequences neither repeat nor skip."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from randomplans import FIVE_HUNDRED, plans, run, streams

from eventide.model.event import Event
from eventide.model.pane import INSERT, RETRACT
from eventide.model.plan import Plan
from eventide.model.policy import DISCARDING, RETRACTING
from eventide.model.reference import Reference

ORDER = {"early": 0, "on_time": 1, "late": 2}


@FIVE_HUNDRED
@given(plans(), streams())
def test_w_never_goes_back_and_the_holder_is_a_lane_that_counts(plan: Plan, events: list[Event]) -> None:
    engine, before = Reference(plan), None
    for event in events:
        engine.event(event)
        now = engine.watermark
        assert before is None or (now is not None and now >= before)
        holder = engine.frontier.holder
        assert holder is not None and not engine.frontier.state.lanes[holder].idle
        before = now


@FIVE_HUNDRED
@given(plans(), streams())
def test_a_window_speaks_early_then_on_time_then_late_and_closes_once(plan: Plan, events: list[Event]) -> None:
    engine = run(plan, events)
    closings = [(closing.output, closing.window, closing.key) for closing in engine.closings]
    assert len(closings) == len(set(closings))
    spoke: dict[tuple, int] = defaultdict(int)
    for pane in engine.panes:
        if pane.op == INSERT:
            identity = (pane.output, *pane.window_id)
            assert ORDER[pane.timing] >= spoke[identity]
            assert pane.timing != "on_time" or spoke[identity] < 1
            spoke[identity] = ORDER[pane.timing]


@FIVE_HUNDRED
@given(plans(), streams())
def test_sequences_count_inserts_and_a_retract_withdraws_the_result_that_stands(plan: Plan, events: list[Event]) -> None:
    engine = run(plan, events)
    modes = {output.name: output.accumulation for output in plan.outputs}
    inserts: dict[tuple, int] = defaultdict(int)
    standing: dict[tuple, object] = {}
    for pane in engine.panes:
        identity = (pane.output, *pane.window_id)
        if pane.op == RETRACT:
            assert modes[pane.output] != DISCARDING
            assert pane.sequence == inserts[identity] - 1
            assert pane.values == standing.pop(identity)
        else:
            assert pane.sequence == inserts[identity]
            if modes[pane.output] == RETRACTING:
                assert identity not in standing, "an insert must follow the retract of what it replaces"
            if modes[pane.output] != DISCARDING:
                assert standing.get(identity) != pane.values, "a firing that repeats the last result emits nothing"
            inserts[identity] += 1
            standing[identity] = pane.values


@FIVE_HUNDRED
@given(plans(), streams())
def test_a_restored_engine_goes_on_as_if_nothing_had_happened(plan: Plan, events: list[Event]) -> None:
    whole = run(plan, events)
    middle = len(events) // 2 // 5 * 5
    first = run(plan, events[:middle], drain=False)
    second = Reference.restore(plan, first.snapshot())
    for index, event in enumerate(events[middle:]):
        second.event(event)
        if index % 5 == 4:
            second.look(event.arrival)
    second.drain()
    assert first.panes + second.panes == whole.panes
    assert first.late + second.late == whole.late
    assert second.state == whole.state
