"""A conformance transcript read as a plan and steps, so that any engine can replay it.

A case says its window, trigger, accumulation and steps in the words of `replay`. Nothing here runs anything: the reading is
shared by all engines, and what the model has no words for is refused by name instead of being replayed as something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventide.errors import EventideError
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, ACCUMULATIONS, DISCARDING
from eventide.model.time import MAX_TIME, saturate
from eventide.model.trigger import (
    PER_BATCH,
    After,
    AtExpiry,
    EarlyTrigger,
    Every,
    EveryRows,
    LateTrigger,
    PerRow,
)
from eventide.model.watermark import Punctuated
from eventide.model.window import Session, Sliding, Window

Case = Mapping[str, Any]

OUTPUT = "replay"
"""The name of the one output of a replayed case."""
LANE = "0"
"""The name of the one lane of its one source."""


class OutsideTheModel(EventideError):
    """A case asks for what Eventide's semantics have no words for: a global window, no on-time firing, and the like."""


@dataclass(frozen=True)
class Step:
    """One step of a case: one micro-batch. Rows (a watermark is a marker row), a new clock, or a restart from a snapshot."""

    index: int
    events: tuple[Event, ...] = ()
    clock: int | None = None
    restore: bool = False


def translate(case: Case) -> tuple[Plan, list[Step]]:
    """The plan and the steps of a case; raises OutsideTheModel for what cannot be said.

    >>> plan, steps = translate({"window": {"kind": "fixed", "size": 10}, "steps": [{"elements": [3]}, {"watermark": 10}]})
    >>> plan.window, steps[1].events[0].candidate
    (Sliding(size=10, slide=10, offset=0), 10)
    """
    steps = _steps(case["steps"])
    early, late, allowed, accumulation = _firing(case)
    plan = Plan(
        sources=(SourcePlan(Punctuated(when="marker", value="complete_to"), (LANE,)),),
        window=_window(case["window"]),
        aggregates=_aggregates(steps),
        outputs=(OutputPlan(OUTPUT, allowed, accumulation, early, late),),
    )
    return plan, steps


def _window(spec: Mapping[str, Any]) -> Window:
    kind = spec.get("kind")
    if kind == "session":
        return Session(_positive(spec, "gap"))
    if kind in ("fixed", "tumbling", "sliding"):
        size = _positive(spec, "size")
        slide = _positive(spec, "slide") if spec.get("slide") is not None else size
        if slide > size:
            raise OutsideTheModel(f"a slide of {slide} above the size {size} leaves rows between windows out of every result.")
        return Sliding(size, slide, int(spec.get("offset") or 0) % slide)
    raise OutsideTheModel(f"a window of kind {kind!r}; the kinds are fixed, sliding and session.")


def _positive(spec: Mapping[str, Any], name: str) -> int:
    value = spec.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise OutsideTheModel(f"the window's {name} is {value!r}; it must be a whole number above zero.")
    return value


def _firing(case: Case) -> tuple[EarlyTrigger | None, LateTrigger, int, str]:
    allowed = int(case.get("allowed_lateness") or 0)
    accumulation = case.get("accumulation") or ACCUMULATING
    trigger = case.get("engine_trigger", case.get("trigger"))
    if isinstance(trigger, str):
        kind = trigger.removeprefix("purging_")
        mode = DISCARDING if trigger != kind else _known(accumulation)
        if kind == "event_time":
            return None, PerRow(), allowed, mode
        word, _, number = kind.partition(":")
        if word == "count" and number.isdigit() and not any("watermark" in name for step in case["steps"] for name in step):
            # A trigger that only counts says nothing when a window closes, which ours do; without a watermark none closes.
            return _paced({"count": int(number)}), PER_BATCH, allowed, mode
        raise OutsideTheModel(f"the trigger {trigger!r} does not fire when the window closes and for each row after that.")
    trigger = {"late": {"count": 1}} if trigger is None else trigger
    if "on_time" in trigger and trigger["on_time"] is None:
        raise OutsideTheModel("a trigger with no on-time firing; our windows always report when they close.")
    if "late" not in trigger and "early" not in trigger:
        raise OutsideTheModel(f"the trigger {trigger!r} says neither early nor late; give it as {{early, on_time, late}}.")
    late = trigger.get("late")
    if late is None:
        # Nothing fires after the on-time pane, so no row that comes after it can count: that is an allowed lateness of zero.
        return _early(trigger.get("early")), PER_BATCH, 0, _known(accumulation)
    return _early(trigger.get("early")), _late(late), allowed, _known(accumulation)


def _known(accumulation: str) -> str:
    if accumulation not in ACCUMULATIONS:
        raise OutsideTheModel(f"the accumulation mode {accumulation!r}; the modes are {', '.join(ACCUMULATIONS)}.")
    return accumulation


def _early(spec: Mapping[str, Any] | None) -> EarlyTrigger | None:
    if spec is None or spec.get("never"):
        return None
    return _paced(spec)


def _late(spec: Mapping[str, Any]) -> LateTrigger:
    return AtExpiry() if spec.get("never") else _paced(spec)


_PACES: dict[str, Callable[[int], EveryRows | Every | After]] = {
    "count": EveryRows,
    "processing_every": Every,
    "processing_delay": After,
}


def _paced(spec: Mapping[str, Any]) -> EveryRows | Every | After:
    if len(spec) == 1:
        ((word, value),) = spec.items()
        if word in _PACES and isinstance(value, int) and value > 0:
            return _PACES[word](value)
    raise OutsideTheModel(
        f"the trigger {dict(spec)!r}; ours are {{count: n}}, {{processing_every: d}}, {{processing_delay: d}} "
        "and, for late rows, {never: true}."
    )


def _steps(specs: Sequence[Mapping[str, Any]]) -> list[Step]:
    steps, offset = [], 0
    for index, spec in enumerate(specs):
        step = _step(index, spec, offset)
        offset += len(step.events)
        steps.append(step)
    return steps


def _step(index: int, spec: Mapping[str, Any], offset: int) -> Step:
    if "elements" in spec:
        times = spec["elements"]
        values = spec.get("values", times)
        keys = spec.get("keys", [None] * len(times))
        rows = [
            _row(index, offset + n, key, value, ts) for n, (key, value, ts) in enumerate(zip(keys, values, times, strict=True))
        ]
        return Step(index, tuple(rows))
    if "element" in spec:
        key, value, ts = spec["element"]
        return Step(index, (_row(index, offset, key, value, ts),))
    if "watermark_exclusive" in spec or "watermark" in spec:
        value = spec.get("watermark_exclusive", spec.get("watermark"))
        time = MAX_TIME if value == "max" else saturate(int(value))
        return Step(index, (Event(index, None, lane=LANE, offset=offset, candidate=time, marker=True),))
    if "processing_time" in spec:
        return Step(index, clock=int(spec["processing_time"]))
    if spec.get("checkpoint_restore"):
        return Step(index, restore=True)
    raise OutsideTheModel(f"step {index} is {dict(spec)!r}, which is neither rows, a watermark, a clock nor a restore.")


def _row(arrival: int, offset: int, key: Any, value: Any, ts: int) -> Event:
    return Event(arrival, ts, key, {"value": value}, lane=LANE, offset=offset)


def _aggregates(steps: Sequence[Step]) -> tuple[tuple[str, aggregate.Aggregate], ...]:
    values = [event.row["value"] for step in steps for event in step.events if not event.marker]
    # Rows without values count as their own timestamps, which need not add up within int64; then there is no sum to compare.
    adds = all(isinstance(value, int | float) for value in values) and sum(map(abs, values)) <= MAX_TIME
    sums = (("sum", aggregate.sum("value")),) if adds else ()
    return (("values", aggregate.collect("value")), *sums, ("count", aggregate.count()))
