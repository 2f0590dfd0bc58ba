"""Law 2: every row is somewhere, and so is its value."""

from __future__ import annotations

from hypothesis import given
from randomplans import FIVE_HUNDRED, plans, run, streams

from eventide.model.event import Event
from eventide.model.plan import Plan
from eventide.model.reference import Reference
from eventide.model.window import Sliding
from eventide.testing import PaneTable


@FIVE_HUNDRED
@given(plans(), streams())
def test_rows_in_are_judged_or_markers_or_duplicates_or_dead(plan: Plan, events: list[Event]) -> None:
    rows = run(plan, events).state.rows
    assert rows["in"] == len(events) == rows["judged"] + rows["markers"] + rows["duplicates"] + rows["dead"]
    assert rows["dead"] == sum(event.broken is not None for event in events)
    assert rows["raised"] == 0


@FIVE_HUNDRED
@given(plans(), streams())
def test_pairs_judged_are_on_time_or_admitted_or_refused_and_a_row_counts_under_its_worst(
    plan: Plan, events: list[Event]
) -> None:
    engine = run(plan, events)
    for index, output in enumerate(plan.outputs):
        late = [row for row in engine.late if row.output == output.name]
        pairs, worst = engine.state.pairs[index], engine.state.worst[index]
        assert sum(worst.values()) == engine.state.rows["judged"]
        assert pairs["refused"] == sum(len(row.missed) for row in late)
        assert worst["refused"] == len(late)
        if output.allowed == 0:
            assert pairs["admitted"] == 0
        if isinstance(plan.window, Sliding) and plan.window.size == plan.window.slide:
            assert pairs == worst


@FIVE_HUNDRED
@given(plans(), streams())
def test_what_the_sinks_show_and_what_was_refused_is_what_arrived_in_rows_and_in_value(plan: Plan, events: list[Event]) -> None:
    engine = run(plan, events)
    for index, output in enumerate(plan.outputs):
        table = PaneTable(output.accumulation).apply(p for p in engine.panes if p.output == output.name).visible()
        late = [row for row in engine.late if row.output == output.name]
        pairs = engine.state.pairs[index]
        assert sum(row["n"] for row in table.values()) == pairs["on_time"] + pairs["admitted"]
        if isinstance(plan.window, Sliding) and plan.window.size > plan.window.slide:
            continue
        arrived = sum(value_of(event) for event in judged(plan, events))
        shown = sum(row["total"] or 0 for row in table.values())
        assert shown + sum(value_of(row.event) for row in late) == arrived


def value_of(event: Event) -> int:
    return event.row["value"] or 0


def judged(plan: Plan, events: list[Event]) -> list[Event]:
    rows = [event for event in events if event.broken is None and not event.marker]
    if plan.dedupe_within is None:
        return rows
    engine, kept = Reference(plan), []
    for event in events:
        before = engine.state.rows["judged"]
        engine.event(event)
        if engine.state.rows["judged"] > before:
            kept.append(event)
    return kept
