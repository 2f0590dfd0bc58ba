"""What a definition may change on existing state is followed from the next batch on, and nothing of what came before it is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline import KINDS, Table, read_back
from test_microbatch import A, B, rows

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, Engine
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.scan import Arrivals
from eventide.model import aggregate
from eventide.model.event import Event, LaneId
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, LateTrigger, PerBatch, PerRow
from eventide.model.watermark import Adaptive, AdaptiveState, Bounded
from eventide.model.window import Sliding
from eventide.testing.spark import event_chunk

SILENT = SourcePlan(Bounded(0), ("a", "b"), idle_after=10)
PLAN = Plan((SILENT,), Sliding(10, 10), (("n", aggregate.count()),), (OutputPlan("out"),))
BOTH = frozenset({A, B})


class Batches:
    """The engine, batch by batch, each under the definition that is given for it."""

    def __init__(self, root: Path) -> None:
        self.root, self.number = str(root), 0
        self.ledger = Table().engine(PLAN, self.root, 1).first_ledger()
        self.panes: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []

    def batch(
        self, plan: Plan, clock: int, *lanes: list[Event], at_end: frozenset[LaneId] = BOTH, diverts: bool = True, **more: Any
    ) -> None:
        engine = Table().engine(plan, self.root, 1)
        if not diverts:
            engine = Engine(BoundPlan(plan, ("key",)), engine.kinds, (False,), engine.store, engine.runner)
        accounts = []
        for lane in lanes:
            at = lane[0].lane_id
            arrivals, chunk = Arrivals.of(at, self.ledger.swept, clock), event_chunk(lane, dict(KINDS))
            account = scan_lane(engine.shape, engine.store, self.number, at, self.ledger.carry(at), arrivals, [chunk])
            accounts.append(LaneAccount.from_json(account.to_json()))
        result = engine.process(self.ledger, BatchInput(self.number, clock, accounts, at_end, BOTH, **more))
        self.panes += read_back(engine, result.panes["out"])
        self.late += read_back(engine, result.late["out"])
        self.ledger = type(self.ledger).from_json(result.ledger.to_json())
        self.number += 1

    @property
    def watermark(self) -> int | None:
        return self.ledger.frontier.watermark


@pytest.mark.parametrize("idle_after", [None, 100])
def test_a_lane_that_was_left_idle_joins_with_its_next_row_whatever_idle_after_is_by_then(
    tmp_path: Path, idle_after: int | None
) -> None:
    """W has gone on to 50 without b: its row for the window that ended at 10 is late, though b's own watermark is 3."""
    run = Batches(tmp_path)
    run.batch(PLAN, 2, rows(A, (1, 2)), rows(B, (2, 3)))
    run.batch(PLAN, 30, rows(A, (30, 50), first=1))
    assert run.watermark == 50
    patient = replace(PLAN, sources=(replace(SILENT, idle_after=idle_after),))
    run.batch(patient, 31, rows(B, (31, 5), first=1))
    assert [(row["_lane"], row["_offset"], row["_watermark"]) for row in run.late] == [("b", 1, 50)]
    assert run.ledger.outputs["out"]["rows_refused"] == 1


def test_a_lane_that_was_never_heard_and_left_behind_is_not_waited_for_again(tmp_path: Path) -> None:
    run = Batches(tmp_path)
    run.batch(PLAN, 30, rows(A, (1, 2), (30, 50)))
    assert run.watermark == 50
    run.batch(replace(PLAN, sources=(replace(SILENT, idle_after=None),)), 31, rows(B, (31, 5)))
    assert [(row["_lane"], row["_offset"]) for row in run.late] == [("b", 0)]


def test_w_holds_and_grows_by_the_rule_of_the_definition_that_runs(tmp_path: Path) -> None:
    advancing = replace(PLAN, when_all_idle="advance")
    run = Batches(tmp_path)
    run.batch(advancing, 3, rows(A, (1, 2)), rows(B, (3, 4)))
    run.batch(advancing, 20)
    assert run.watermark == 11, "all have been idle since 13, and W was 4"
    run.batch(PLAN, 40)
    run.batch(PLAN, 60)
    assert run.watermark == 11
    run.batch(advancing, 70)
    run.batch(advancing, 75)
    assert run.watermark == 16, "it grows from the first look under the rule"


@pytest.mark.parametrize("patient", [AtExpiry(), EveryRows(5), Every(100), After(100)])
@pytest.mark.parametrize("prompt", [PerBatch(), PerRow()])
def test_late_rows_that_an_older_trigger_held_back_are_said(tmp_path: Path, patient: LateTrigger, prompt: LateTrigger) -> None:
    """Neither another row for the window nor another moment comes: the last value is complete all the same."""
    source = SourcePlan(Bounded(0), ("a", "b"))
    held = replace(PLAN, sources=(source,), outputs=(OutputPlan("out", 20, late=patient),))
    said = replace(held, outputs=(OutputPlan("out", 20, late=prompt),))
    run = Batches(tmp_path)
    run.batch(held, 2, rows(A, (1, 5)), rows(B, (2, 12)))
    run.batch(held, 3, rows(A, (3, 12), first=1))
    run.batch(held, 4, rows(A, (4, 6), first=2))
    assert [(pane["window_end"], pane["n"]) for pane in run.panes] == [(10, 1)]
    run.batch(said, 5)
    assert [(pane["window_end"], pane["n"], pane["timing"]) for pane in run.panes[1:]] == [(10, 2, "late")]
    run.batch(said, 6)
    run.batch(said, 7, drain=True)
    assert [(pane["window_end"], pane["n"]) for pane in run.panes[2:]] == [(20, 2)]


@pytest.mark.parametrize("counting", [AtExpiry(), EveryRows(5)])
def test_a_timer_that_takes_over_from_a_count_runs(tmp_path: Path, counting: LateTrigger) -> None:
    source = SourcePlan(Bounded(0), ("a", "b"))
    plan = replace(PLAN, sources=(source,), outputs=(OutputPlan("out", 20, late=counting),))
    timed = replace(plan, outputs=(OutputPlan("out", 20, late=After(2)),))
    run = Batches(tmp_path)
    run.batch(plan, 3, rows(A, (1, 5), (3, 12)), rows(B, (2, 12)))
    run.batch(plan, 4, rows(A, (4, 6), first=2))
    run.batch(timed, 5, rows(A, (5, 7), first=3))
    run.batch(timed, 7)
    assert [(pane["window_end"], pane["n"]) for pane in run.panes] == [(10, 1), (10, 3)]


def test_a_row_diverted_by_a_new_wish_is_told_no_less_than_it_was_judged_by(tmp_path: Path) -> None:
    """Lane a was read ahead while nobody asked for clocks; b's row at 5 is refused under W = 25 or more."""
    source = SourcePlan(Bounded(0), ("a", "b"))
    plan = replace(PLAN, sources=(source,))
    run = Batches(tmp_path)
    run.batch(plan, 2, rows(A, (1, 2)), rows(B, (2, 31)), at_end=BOTH, diverts=False)
    run.batch(plan, 9, rows(A, (3, 21), (4, 25), (9, 29), first=1), at_end=frozenset({A}), diverts=False)
    run.batch(plan, 9, rows(B, (5, 3), first=1))
    (row,) = run.late
    assert 21 <= row["_watermark"] <= 25 and row["_lateness_us"] >= 0


def test_an_adaptive_bound_follows_its_lane_in_steps_of_another_length() -> None:
    """Counted in minutes the steps have lower numbers than in seconds: they are no earlier ones."""
    state = AdaptiveState(50)
    for arrival in range(1000, 1010):
        state.enter(arrival, Adaptive(0.5, 0, 50, 1, 50))
        state.seen = {0: 8}
    tight, longer = state.bound, Adaptive(0.5, 0, 50, 60, 50)
    assert tight < 50
    for arrival in range(1020, 2000, 60):
        state.enter(arrival // 60, longer)
        state.seen = {0: 8}
    assert state.bound < tight
    state.enter(2000 // 60, Adaptive(0.5, 30, 50, 60, 50))
    assert state.bound == 30, "between the floor and the ceiling of the definition that runs"
