"""Law 5: drop = accumulate(0); more lateness is never less complete; enough bound is the batch answer; outputs are alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from randomplans import FIVE_HUNDRED, only, plans, run, streams, windows

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import DISCARDING, LatePolicy, divert, drop
from eventide.model.trigger import PerBatch, PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session
from eventide.testing import PaneTable
from eventide.testing.streams import Stream, generate, uniform_delay


@FIVE_HUNDRED
@given(plans(most_outputs=1), streams())
def test_drop_is_accumulate_of_zero_however_late_rows_would_fire(plan: Plan, events: list[Event]) -> None:
    output = plan.outputs[0]
    answers = []
    for policy, trigger in ((drop(), PerBatch()), (divert(), PerRow()), (LatePolicy("accumulate", allowed=0), output.late)):
        engine = run(only(plan, replace(output, allowed=policy.allowed, late=trigger)), events)
        answers.append((engine.panes, engine.late))
    assert answers[0] == answers[1] == answers[2]


@FIVE_HUNDRED
@given(plans(most_outputs=1), streams(), st.sampled_from([0, 3, 12]), st.sampled_from([1, 9, 60]))
def test_allowing_more_lateness_never_makes_an_answer_less_complete(
    plan: Plan, events: list[Event], allowed: int, more: int
) -> None:
    less, full = OutputPlan("less", allowed), OutputPlan("more", allowed + more)
    engine = run(only(plan, less, full), events)
    missed = {
        name: {(r.event.position, w) for r in engine.late if r.output == name for w in r.missed} for name in ("less", "more")
    }
    assert missed["more"] <= missed["less"]
    if isinstance(plan.window, Session):
        return
    shown = {name: PaneTable("accumulating").apply(p for p in engine.panes if p.output == name).visible() for name in missed}
    for window, values in shown["less"].items():
        assert shown["more"][window]["n"] >= values["n"]


@FIVE_HUNDRED
@given(windows, st.integers(0, 8), st.integers(0, 30), st.integers(0, 2**32))
def test_with_a_bound_above_the_worst_disorder_the_stream_gives_the_batch_answer(
    window: object, disorder: int, skew: int, seed: int
) -> None:
    events = generate(Stream(lanes=3, rows=30, delay=uniform_delay(disorder), skew=skew), seed)
    plan = Plan(
        (SourcePlan(Bounded(disorder + 1), ("0", "1", "2")),),
        window,  # type: ignore[arg-type]
        (("values", aggregate.collect("value")),),
        (OutputPlan("drop"),),
    )
    engine = run(plan, events)
    assert engine.late == []
    assert PaneTable("accumulating").apply(engine.panes).visible() == batch_answer(plan, events)


def batch_answer(plan: Plan, events: list[Event]) -> dict:
    rows: dict[tuple, list[int]] = defaultdict(list)
    if isinstance(plan.window, Session):
        for key in {event.key for event in events}:
            run_of: list[Event] = []
            for event in sorted((e for e in events if e.key == key), key=lambda e: e.event_time):
                if run_of and event.event_time - run_of[-1].event_time > plan.window.gap:
                    rows[_session(run_of, plan.window.gap), key] = [e.row["value"] for e in run_of]
                    run_of = []
                run_of.append(event)
            if run_of:
                rows[_session(run_of, plan.window.gap), key] = [e.row["value"] for e in run_of]
    else:
        for event in events:
            for bounds in plan.window.assign(event.event_time):
                rows[bounds, event.key].append(event.row["value"])
    return {window: {"values": sorted(values)} for window, values in rows.items()}


def _session(rows: list[Event], gap: int) -> tuple[int, int]:
    return (rows[0].event_time, rows[-1].event_time + gap)


@FIVE_HUNDRED
@given(plans(), streams())
def test_an_outputs_answers_do_not_depend_on_which_other_outputs_exist(plan: Plan, events: list[Event]) -> None:
    together = run(plan, events)
    for output in plan.outputs:
        alone = run(only(plan, output), events)
        assert [p for p in together.panes if p.output == output.name] == alone.panes
        assert [r for r in together.late if r.output == output.name] == alone.late


@FIVE_HUNDRED
@given(plans(most_outputs=1), streams(), st.integers(1, 9))
def test_coalescing_changes_how_many_panes_there_are_never_the_last(plan: Plan, events: list[Event], batch: int) -> None:
    output = plan.outputs[0]
    if output.early is not None and output.accumulation == DISCARDING and isinstance(plan.window, Session):
        return  # deltas of a session that grew stay under the bounds they were emitted with
    tables = []
    for trigger, rows in ((PerRow(), 1), (PerBatch(), batch), (output.late, batch)):
        engine = run(only(plan, replace(output, late=trigger, early=None)), events, batch=rows)
        tables.append(PaneTable(output.accumulation).apply(engine.panes).visible())
    if output.accumulation == DISCARDING and isinstance(plan.window, Session):
        return
    assert tables[0] == tables[1] == tables[2]
