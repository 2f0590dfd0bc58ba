"""Law 4: any duplication and any reordering of a pane log ends in the same table."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from randomplans import FIVE_HUNDRED, outputs, plans, run, streams

from eventide.model.event import Event
from eventide.model.pane import Pane
from eventide.model.plan import OutputPlan, Plan
from eventide.testing import PaneTable


@FIVE_HUNDRED
@given(plans(), streams(), outputs(), st.integers(0, 2**32))
def test_duplicated_and_shuffled_panes_end_in_the_same_table(
    plan: Plan, events: list[Event], output: OutputPlan, seed: int
) -> None:
    panes = run(replace(plan, outputs=(output,)), events).panes
    rng = random.Random(seed)
    disordered = [pane for pane in panes for _ in range(rng.randint(1, 3))]
    rng.shuffle(disordered)
    assert PaneTable(output.accumulation).apply(disordered).visible() == PaneTable(output.accumulation).apply(panes).visible()


@FIVE_HUNDRED
@given(plans(most_outputs=1), streams(), st.integers(0, 2**32))
def test_a_new_generation_supersedes_the_old_in_any_order(plan: Plan, events: list[Event], seed: int) -> None:
    old, new = run(plan, events).panes, run(replace(plan, generation=1), events, batch=1).panes
    accumulation = plan.outputs[0].accumulation
    disordered = [*old, *new]
    random.Random(seed).shuffle(disordered)
    fresh = PaneTable(accumulation).apply(new).visible()
    both = PaneTable(accumulation).apply(disordered).visible()
    assert {window: both[window] for window in fresh} == fresh


def test_a_stale_insert_does_not_bring_a_withdrawn_window_back() -> None:
    insert = Pane("out", (0, 10), "k", 0, "insert", "on_time", {"n": 1})
    table = PaneTable("accumulating").apply([insert, replace(insert, op="retract"), insert])
    assert table.visible() == {}


def test_a_retract_of_an_older_sequence_is_a_no_op() -> None:
    first = Pane("out", (17, 18), "k", 0, "insert", "on_time", {"n": 1})
    second = replace(first, sequence=1, values={"n": 2})
    table = PaneTable("accumulating").apply([first, second, replace(first, op="retract")])
    assert table.visible() == {((17, 18), "k"): {"n": 2}}
