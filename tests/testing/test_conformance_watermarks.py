"""Flink's watermark valve, multiplexer, generator and idleness cases against our frontier and strategies."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from eventide.errors import DefinitionError
from eventide.model.event import Event
from eventide.model.frontier import Frontier, SourceTiming
from eventide.model.time import MAX_TIME, duration
from eventide.model.watermark import Bounded, LaneState, observe
from eventide.testing import OutsideTheModel

OTHERS = Path(__file__).resolve().parents[2] / "../shared/conformance/flink.json"

DEFERRED = "outside the model: deferred updates; progress is swept by position, never by a periodic tick"
REMOVED = "outside the model: a lane does not leave; a partition that falls silent is idle"

LISTED = {
    "deferredOutputDoesNotImmediatelyAdvanceWatermark": DEFERRED,
    "singleDeferredWatermark": DEFERRED,
    "singleDeferredWatermarkAfterIdleness": DEFERRED,
    "immediateUpdatesTakeDeferredUpdatesIntoAccount": DEFERRED,
    "lowerImmediateUpdateOnSameOutputDoesNotEmitCombinedUpdate": DEFERRED,
    "testRemoveUnblocksWatermarks": REMOVED,
    "testRemoveOfLowestDoesNotImmediatelyAdvanceWatermark": REMOVED,
    "testRemoveOfHighestDoesNotRetractWatermark": REMOVED,
    "testNotEmittingIdleAfterAllSplitsRemoved": REMOVED,
    "own: an input that leaves": REMOVED,
}

OWN = {
    "valve_cases": [
        {
            "name": "own: W waits for every input, then follows the slowest",
            "inputs": 2,
            "steps": [{"input": 0, "watermark": 30}, {"input": 1, "watermark": 10}, {"input": 1, "watermark": 40}],
            "expect": [{"after_step": 1, "out": [{"watermark": 10}]}, {"after_step": 2, "out": [{"watermark": 30}]}],
        },
        {
            "name": "own: an input that was never heard stops counting when it is idle",
            "inputs": 2,
            "steps": [{"input": 0, "watermark": 30}, {"input": 1, "status": "idle"}, {"input": 0, "status": "idle"}],
            "expect": [{"after_step": 1, "out": [{"watermark": 30}]}, {"after_step": 2, "out": [{"status": "idle"}]}],
        },
        {
            "name": "own: what comes back from idleness does not take W back",
            "inputs": 2,
            "steps": [
                {"input": 0, "watermark": 30},
                {"input": 1, "watermark": 10},
                {"input": 1, "status": "idle"},
                {"input": 1, "watermark": 12},
                {"input": 0, "watermark": 50},
                {"input": 1, "watermark": 60},
            ],
            "expect": [
                {"after_step": 1, "out": [{"watermark": 10}]},
                {"after_step": 2, "out": [{"watermark": 30}]},
                {"after_step": 5, "out": [{"watermark": 50}]},
            ],
        },
    ],
    "multiplexer_cases": [
        {
            "name": "own: idle and back",
            "steps": [
                {"register": "a"},
                {"output": "a", "mode": "immediate", "watermark": 4},
                {"output": "a", "mode": "immediate", "idle": True},
                {"output": "a", "mode": "immediate", "watermark": 3},
            ],
            "observed_each_step": [
                {"watermark": None, "idle": False},
                {"watermark": 4, "idle": False},
                {"watermark": 4, "idle": True},
                {"watermark": 4, "idle": False},
            ],
        },
        {"name": "own: an input that leaves", "steps": [{"register": "a"}, {"unregister": "a"}], "observed_each_step": []},
    ],
    "generator_cases": [
        {"name": "own: no delay", "delay": 0, "events": [5, 9, 7], "watermark_exclusive": 9},
        {"name": "own: below zero", "delay": 10, "events": [3], "watermark_exclusive": -7},
    ],
    "idleness_cases": [
        {"name": "own: not at the instant, but after it", "timeout": 10,
         "steps": [{"advance": 10}, {"check": False}, {"advance": 1}, {"check": True}]},
        {"name": "own: activity puts it off", "timeout": 10,
         "steps": [{"advance": 9}, {"activity": True}, {"advance": 10}, {"check": False}]},
        {"name": "own: no time at all", "timeout": 0, "expect_error": True},
    ],
}  # fmt: skip


def cases(group: str) -> list[Any]:
    found = OWN[group] + (json.loads(OTHERS.read_text())[group] if OTHERS.exists() else [])
    return [pytest.param(case, id=case["name"]) for case in found]


IDLE_AFTER = 10


class Valve:
    """Inputs as lanes. An idle mark is a run of arrivals that ends long enough ago; other lanes stay active throughout."""

    def __init__(self, lanes: list[str]) -> None:
        self.frontier = Frontier([SourceTiming(tuple(lanes), IDLE_AFTER)])
        self.lanes = dict.fromkeys(lanes)
        self.now = 0

    def mark(self, lane: str, watermark: int) -> None:
        held = self.lanes[lane]
        self.lanes[lane] = watermark if held is None else max(held, watermark)
        self._pass()
        self.frontier.hear((0, lane), MAX_TIME, self.lanes[lane])

    def idle(self, lane: str) -> None:
        if self.frontier.state.lanes[0, lane].idle:
            return
        self._pass()
        self.frontier.hear((0, lane), self.now, self.lanes[lane])
        self._pass()

    def active(self, lane: str) -> None:
        self._pass()
        self.frontier.hear((0, lane), MAX_TIME, self.lanes[lane])

    def _pass(self) -> None:
        for lane, standing in self.frontier.state.lanes.items():
            if standing.last_arrival is None and not standing.idle:
                self.frontier.hear(lane, MAX_TIME, None)
        self.now += IDLE_AFTER + 1
        self.frontier.pass_time(self.now)

    @property
    def all_idle(self) -> bool:
        return all(standing.idle for standing in self.frontier.state.lanes.values())


@pytest.mark.parametrize("case", cases("valve_cases"))
def test_w_is_the_least_of_the_inputs_that_count(case: dict[str, Any]) -> None:
    valve = Valve([str(number) for number in range(case["inputs"])])
    out: list[dict[str, Any]] = []
    for index, step in enumerate(case["steps"]):
        before, was_idle = valve.frontier.watermark, valve.all_idle
        if "watermark" in step:
            valve.mark(str(step["input"]), step["watermark"])
        elif step["status"] == "idle":
            valve.idle(str(step["input"]))
        else:
            valve.active(str(step["input"]))
        said = [{"watermark": valve.frontier.watermark}] if valve.frontier.watermark != before else []
        said += [{"status": "idle" if valve.all_idle else "active"}] if valve.all_idle != was_idle else []
        out += [{"after_step": index, "out": said}] if said else []
    assert out == [entry for entry in case["expect"] if entry["out"]]


def multiplex(case: dict[str, Any]) -> list[dict[str, Any]]:
    for step in case["steps"]:
        if step.get("mode") == "deferred" or "periodic_emit" in step:
            raise OutsideTheModel(DEFERRED)
        if "unregister" in step:
            raise OutsideTheModel(REMOVED)
    valve = Valve([step["register"] for step in case["steps"] if "register" in step])
    observed = []
    for step in case["steps"]:
        if step.get("idle"):
            valve.idle(step["output"])
        elif "watermark" in step:
            valve.mark(step["output"], step["watermark"])
        observed.append({"watermark": valve.frontier.watermark, "idle": valve.all_idle})
    return observed


@pytest.mark.parametrize("case", cases("multiplexer_cases"))
def test_the_combined_watermark_follows_each_output_or_the_case_is_listed(case: dict[str, Any]) -> None:
    if case["name"] in LISTED:
        with pytest.raises(OutsideTheModel):
            multiplex(case)
    else:
        assert multiplex(case) == case["observed_each_step"]


@pytest.mark.parametrize("case", cases("generator_cases"))
def test_a_bounded_watermark_trails_the_largest_event_time(case: dict[str, Any]) -> None:
    lane = LaneState()
    for arrival, time in enumerate(case["events"]):
        observe(Bounded(case["delay"]), lane, Event(arrival, time))
    assert lane.watermark == case["watermark_exclusive"]


@pytest.mark.parametrize("case", cases("idleness_cases"))
def test_a_lane_is_idle_strictly_after_its_timeout(case: dict[str, Any]) -> None:
    if case.get("expect_error"):
        with pytest.raises(DefinitionError):
            duration(timedelta(milliseconds=case["timeout"]), what="idle_after")
        return
    frontier, now, lane = Frontier([SourceTiming(("0",), case["timeout"])]), 0, (0, "0")
    frontier.hear(lane, now, 0)
    for step in case["steps"]:
        now += step.get("advance", 0)
        if step.get("activity"):
            frontier.hear(lane, now, 0)
        frontier.pass_time(now)
        if "check" in step:
            assert frontier.state.lanes[lane].idle is step["check"]
