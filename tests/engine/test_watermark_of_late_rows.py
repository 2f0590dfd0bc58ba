"""A late row is told W as it stood before it, to the microsecond, although the sweep sees only what can change a verdict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from inline import run_in_batches

from eventide.engine.batch import lane_task
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding, Window

Rows = list[tuple[int, int, str]]
"""(arrival, event time, lane)."""


def told(
    root: Path, rows: Rows, clocks: list[int], window: Window, source: SourcePlan, allowed: int = 0, seed: int = 0
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """W of each late row, by lane and offset: as the engine tells it, and as the oracle does."""
    plan = Plan((source,), window, (("n", aggregate.count()),), (OutputPlan("o", allowed), OutputPlan("p", 0)))
    events, offsets = [], dict.fromkeys({lane for _, _, lane in rows}, 0)
    for arrival, time, lane in sorted(rows, key=lambda row: (row[0], row[2])):
        events.append(Event(arrival, time, "k", {"value": 1}, 0, lane, offsets[lane]))
        offsets[lane] += 1
    got, ref = run_in_batches(plan, events, clocks, random.Random(seed), str(root)), Reference(plan)
    for event in events:
        ref.event(event)
    mine = {(r["_lane"], r["_offset"]): r["_watermark"] for r in got.late["p"]}
    assert all(r["_lateness_us"] == r["_watermark"] - r["_missed_last_end"] for r in got.late["p"])
    return mine, {(r.event.lane, r.event.offset): r.watermark for r in ref.late if r.output == "p"}


def test_between_two_thresholds(tmp_path: Path) -> None:
    mine, theirs = told(
        tmp_path, [(1, 13, "a"), (2, 17, "a"), (3, 2, "a")], [10], Sliding(10, 10), SourcePlan(Bounded(0), ("a",))
    )
    assert mine == theirs == {("a", 2): 17}


def test_after_a_lane_has_joined_that_is_far_behind(tmp_path: Path) -> None:
    rows = [(1, 13, "a"), (2, 17, "a"), (3, 12, "b"), (4, 2, "b"), (5, 3, "a")]
    for clocks in ([10], [3, 10], [1, 2, 3, 4, 5]):
        mine, theirs = told(tmp_path / str(len(clocks)), rows, clocks, Sliding(10, 10), SourcePlan(Bounded(0), ("a",)))
        assert mine == theirs == {("b", 1): 17, ("a", 2): 17}


def test_after_the_last_lane_has_fallen_silent(tmp_path: Path) -> None:
    rows = [(1, 13, "a"), (2, 17, "a"), (31, 2, "a")]
    for clocks in ([40], [25, 30, 40]):
        mine, theirs = told(tmp_path / str(len(clocks)), rows, clocks, Sliding(10, 5), SourcePlan(Bounded(0), ("a",), 5))
        assert mine == theirs == {("a", 2): 17}


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_between_two_pieces_of_a_clock_that_is_read_ahead_of_the_sweep(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lane a is read whole, b row by row: where the sweep stops between two pieces, the one before it still tells a's watermark."""
    monkeypatch.setattr(lane_task, "CLOCK_PIECE", piece)
    rows = [(1, 13, "a"), (2, 16, "a"), (3, 17, "a"), (8, 18, "a"), (9, 19, "a"), (4, 19, "b"), (5, 2, "b"), (6, 3, "b")]
    for seed in range(20):
        mine, theirs = told(
            tmp_path / str(seed), rows, [9, 9, 9], Sliding(10, 10), SourcePlan(Bounded(0), ("a", "b")), seed=seed
        )
        assert mine == theirs == {("b", 1): 17, ("b", 2): 17}, seed


@pytest.mark.parametrize("seed", range(120))
def test_however_lanes_come_and_go(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_task, "CLOCK_PIECE", 1 + seed % 3)
    rng = random.Random(seed)
    lanes, arrival, rows = ["a", "b", "c"][: rng.randint(1, 3)], 0, []
    for _ in range(60):
        arrival += rng.choice([0, 0, 1, 2, 3, rng.choice([1, 1, 20])])
        rows.append((arrival, max(0, arrival - rng.choice([0, 1, 2, 5, 12, 30, 40])), rng.choice([*lanes, "a"])))
    clocks = sorted(rng.randint(0, arrival + 5) for _ in range(rng.choice([1, 2, 5])))
    source = SourcePlan(Bounded(rng.choice([0, 3])), tuple(lanes[: rng.randint(1, len(lanes))]), rng.choice([None, 5, 15]))
    window = rng.choice([Sliding(10, 10), Sliding(10, 5), Sliding(10, 5), Session(4)])
    mine, theirs = told(tmp_path, rows, clocks, window, source, rng.choice([0, 4, 10]), seed)
    assert mine == theirs
