"""What one output holds of one window and key: its rows, what of them was emitted, and when it is due again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.model.aggregate import compute
from eventide.model.event import Event
from eventide.model.expression import expression, holds
from eventide.model.pane import INSERT, RETRACT, Pane
from eventide.model.plan import OutputPlan, Plan
from eventide.model.policy import DISCARDING, RETRACTING
from eventide.model.trigger import After, AtExpiry, EarlyTrigger, Every, EveryRows, LateTrigger, When
from eventide.model.window import Bounds


@dataclass
class Emitted:
    """A result that stands at the far end: under which bounds, with which sequence and values."""

    window: Bounds
    sequence: int
    values: Mapping[str, Any] | None
    withdrawn: bool = False
    """It was taken back and nothing stands there, but its sequence is used up."""


@dataclass
class WindowState:
    """One window of one key in one output."""

    window: Bounds
    key: Hashable
    rows: list[Event] = field(default_factory=list)
    pending: int = 0
    """Rows that no firing has covered."""
    closed: bool = False
    emitted: list[Emitted] = field(default_factory=list)
    """Results that stand; more than one only after sessions merged."""
    due: int | None = None
    """When a timed trigger fires next, by the batch clock."""

    def add(self, event: Event, output: OutputPlan, clock: int) -> None:
        """Take a row in."""
        self.rows.append(event)
        self.pending += 1
        trigger = output.late if self.closed else output.early
        if self.due is None and isinstance(trigger, Every | After):
            self.due = clock + _span(trigger)

    def absorb(self, other: WindowState) -> None:
        """Take another session of the same key in; its results stand until the next firing withdraws them."""
        self.rows.extend(other.rows)
        self.pending += other.pending
        self.emitted.extend(other.emitted)
        dues = [due for due in (self.due, other.due) if due is not None]
        self.due = min(dues, default=None)

    def wants(self, trigger: EarlyTrigger | LateTrigger | None, plan: Plan, clock: int) -> bool:
        """Whether a trigger looks at this window now and fires."""
        if isinstance(trigger, Every | After):
            return self._timed(trigger, clock)
        if self.pending == 0 or trigger is None or isinstance(trigger, AtExpiry):
            return False
        if isinstance(trigger, EveryRows):
            return self.pending >= trigger.rows
        if isinstance(trigger, When):
            return holds(expression(trigger.condition), self.values(plan))
        return True

    def _timed(self, trigger: Every | After, clock: int) -> bool:
        if self.due is None or clock < self.due:
            return False
        if isinstance(trigger, After):
            self.due = None
        else:
            self.due += ((clock - self.due) // trigger.period + 1) * trigger.period
        return self.pending > 0

    def values(self, plan: Plan) -> dict[str, Any]:
        """The aggregates over the rows held."""
        return {name: compute(what, self.rows) for name, what in plan.aggregates}

    def fire(self, output: OutputPlan, plan: Plan, timing: str) -> list[Pane]:
        """What an output emits now; nothing when it would repeat itself."""
        covered, self.pending = self.pending, 0
        if output.accumulation == DISCARDING:
            return self._delta(output, plan, timing) if covered and self.rows else []
        shown = output.view.row((self.window, self.key), plan.keys, self.values(plan)) if self.rows else None
        standing = [e for e in self.emitted if not e.withdrawn]
        if len(standing) == 1 and standing[0].window == self.window and shown is not None:
            old = standing[0].values
            if old is not None and same_values(old, shown):
                return []
        moved = [e for e in standing if e.window != self.window or output.accumulation == RETRACTING or shown is None]
        panes = [self._pane(output, plan, timing, RETRACT, e) for e in moved]
        here = next((e for e in self.emitted if e.window == self.window), None)
        if shown is not None:
            here = Emitted(self.window, here.sequence + 1 if here else 0, shown)
            panes.append(self._pane(output, plan, timing, INSERT, here))
        elif here:
            here.withdrawn = True
        self.emitted = [here] if here else []
        return panes

    def withdraw(self, output: OutputPlan, plan: Plan, timing: str) -> list[Pane]:
        """Take back all that stands, though nothing fires: what the next stage must no longer count."""
        standing = [e for e in self.emitted if not e.withdrawn]
        for emitted in standing:
            emitted.withdrawn = True
        return [self._pane(output, plan, timing, RETRACT, e) for e in standing]

    def _delta(self, output: OutputPlan, plan: Plan, timing: str) -> list[Pane]:
        here = next((e for e in self.emitted if e.window == self.window), None)
        now = Emitted(self.window, here.sequence + 1 if here else 0, self.values(plan))
        self.rows, self.emitted = [], [now]
        return [self._pane(output, plan, timing, INSERT, now)]

    def _pane(self, output: OutputPlan, plan: Plan, timing: str, op: str, said: Emitted) -> Pane:
        return Pane(output.name, said.window, self.key, said.sequence, op, timing, said.values or {}, plan.generation)


def _span(trigger: Every | After) -> int:
    return trigger.period if isinstance(trigger, Every) else trigger.delay


def same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results are the same; a NaN equals a NaN here, in lists and structs too."""
    return all(_same(value, other[name]) for name, value in one.items())


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    return bool(one == other or (one != one and other != other))
