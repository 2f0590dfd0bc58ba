"""One reading of a windowed aggregation, by an output or by the next stage: its windows under its own allowed lateness."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from eventide.model.event import Event
from eventide.model.lateness import Verdict, verdict
from eventide.model.pane import EARLY, LATE, ON_TIME, Pane
from eventide.model.plan import OutputPlan, Plan
from eventide.model.standing import WindowState
from eventide.model.time import MAX_TIME, MIN_TIME, plus
from eventide.model.trigger import PerRow
from eventide.model.window import Bounds, Session

Windows = dict[Hashable, dict[Bounds, WindowState]]
"""Key → bounds → state."""
Judged = list[tuple[Bounds, Verdict]]


@dataclass(frozen=True)
class Closing:
    """That a window of an output closed, whether or not it said anything new."""

    output: str
    window: Bounds
    key: Hashable
    closed_at: int
    final: bool


class Reader:
    """Takes rows in, takes them back, closes and expires windows; what it says gathers in `panes` and `closings`."""

    def __init__(self, plan: Plan, output: OutputPlan, windows: Windows | None = None) -> None:
        self.plan, self.output = plan, output
        self.windows: Windows = {} if windows is None else windows
        self.panes: list[Pane] = []
        self.closings: list[Closing] = []
        self._deadline = MIN_TIME
        """No window closes or expires while W is below it; spares a look at every window for every event."""

    def insert(self, event: Event, watermark: int | None, clock: int) -> Judged:
        """A row that was not here before: which windows it meets, and what each says to it."""
        assert event.event_time is not None, "a row without an event time is a dead letter"
        if isinstance(self.plan.window, Session):
            return [self._join_session(self.plan.window, event, watermark, clock)]
        return [self._join_window(event, bounds, watermark, clock) for bounds in self.plan.window.assign(event.event_time)]

    def remove(self, event: Event, watermark: int | None, fire: bool = True) -> Judged:
        """The row of this place is taken back, from every window that can still change; what is left fires, if it has closed."""
        assert not isinstance(self.plan.window, Session), "no row is taken back from sessions"
        assert event.event_time is not None, "a row without an event time is a dead letter"
        met = self.plan.window.assign(event.event_time)
        found = [(bounds, verdict(watermark, bounds[1], self.output.allowed)) for bounds in met]
        for bounds, result in found:
            for state in [s[bounds] for s in self.windows.values() if bounds in s and result is not Verdict.REFUSED]:
                kept = [row for row in state.rows if row.position != event.position]
                if len(kept) < len(state.rows):
                    state.rows, state.pending = kept, state.pending + 1
                    if fire and state.closed and isinstance(self.output.late, PerRow):
                        self.panes += state.fire(self.output, self.plan, LATE)
        return found

    def replace(self, event: Event, watermark: int | None, clock: int) -> Judged:
        """A row that stands for whatever stood under its place."""
        self.remove(event, watermark, fire=False)
        found = self.insert(event, watermark, clock)
        for state in self.in_order():
            if state.closed and state.pending and state.key != event.key and isinstance(self.output.late, PerRow):
                self.panes += state.fire(self.output, self.plan, LATE)  # the row had another key before
        return found

    def _join_window(self, event: Event, bounds: Bounds, watermark: int | None, clock: int) -> tuple[Bounds, Verdict]:
        result = verdict(watermark, bounds[1], self.output.allowed)
        if result is not Verdict.REFUSED:
            state = self.windows.setdefault(event.key, {}).setdefault(bounds, WindowState(bounds, event.key))
            self._take(state, event, result, clock)
        return bounds, result

    def _join_session(self, window: Session, event: Event, watermark: int | None, clock: int) -> tuple[Bounds, Verdict]:
        assert event.event_time is not None, "a row without an event time is a dead letter"
        start, end = own = window.own(event.event_time)
        sessions = self.windows.get(event.key, {})
        joined = [
            s
            for s in sessions.values()
            if s.window[0] <= own[1]
            and own[0] <= s.window[1]
            and verdict(watermark, s.window[1], self.output.allowed) is not Verdict.REFUSED
        ]
        start, end = min([start, *(s.window[0] for s in joined)]), max([end, *(s.window[1] for s in joined)])
        result = verdict(watermark, end, self.output.allowed)
        if result is Verdict.REFUSED:
            return own, result
        merged = WindowState((start, end), event.key)
        for state in sorted(joined, key=lambda s: s.window):
            del sessions[state.window]
            merged.absorb(state)
        merged.closed = result is Verdict.ADMITTED
        self.windows.setdefault(event.key, {})[merged.window] = merged
        self._take(merged, event, result, clock)
        return merged.window, result

    def _take(self, state: WindowState, event: Event, result: Verdict, clock: int) -> None:
        state.closed = state.closed or result is Verdict.ADMITTED
        state.add(event, self.output, clock)
        self._deadline = min(self._deadline, self._next(state))
        if result is Verdict.ADMITTED and isinstance(self.output.late, PerRow):
            self.panes += state.fire(self.output, self.plan, LATE)

    def look(self, clock: int) -> None:
        """The end of a batch: triggers that are looked at once per batch fire."""
        for state in self.in_order():
            trigger = self.output.late if state.closed else self.output.early
            if not isinstance(trigger, PerRow) and state.wants(trigger, self.plan, clock):
                self.panes += state.fire(self.output, self.plan, LATE if state.closed else EARLY)

    def advance(self, watermark: int | None) -> None:
        """W moved: windows close, and end when nothing can change them any more."""
        if watermark is None or watermark < self._deadline:
            return
        self._deadline = MAX_TIME
        for state in self.in_order():
            end, allowed = state.window[1], self.output.allowed
            if not state.closed and end <= watermark:
                state.closed, state.due = True, None
                self.panes += state.fire(self.output, self.plan, ON_TIME)
                self.closings.append(Closing(self.output.name, state.window, state.key, watermark, allowed == 0))
            if state.closed and (watermark == MAX_TIME or plus(end, allowed) <= watermark):
                if state.pending:
                    self.panes += state.fire(self.output, self.plan, LATE)
                del self.windows[state.key][state.window]
                if not self.windows[state.key]:
                    del self.windows[state.key]
            else:
                self._deadline = min(self._deadline, self._next(state))

    def in_order(self) -> list[WindowState]:
        """All windows held, by end, start and key."""
        states = [s for by_window in self.windows.values() for s in by_window.values()]
        return sorted(states, key=lambda s: (s.window[1], s.window[0], str(s.key)))

    def _next(self, state: WindowState) -> int:
        return plus(state.window[1], self.output.allowed) if state.closed else state.window[1]
