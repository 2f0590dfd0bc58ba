"""The oracle: one event at a time, in arrival order. What it answers is what every other engine must answer."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from eventide.model.event import Event, LaneId, Position, least_arrival, start_of
from eventide.model.frontier import Frontier, FrontierState
from eventide.model.lateness import Verdict, verdict
from eventide.model.pane import EARLY, LATE, ON_TIME, LateRow, Pane
from eventide.model.plan import OutputPlan, Plan
from eventide.model.standing import WindowState
from eventide.model.time import MAX_TIME, MIN_TIME, plus
from eventide.model.trigger import PerRow
from eventide.model.watermark import LaneState, observe
from eventide.model.window import Bounds, Session

_WORST = {Verdict.ON_TIME: 0, Verdict.ADMITTED: 1, Verdict.REFUSED: 2}


@dataclass(frozen=True)
class Closing:
    """That a window of an output closed, whether or not it said anything new."""

    output: str
    window: Bounds
    key: Hashable
    closed_at: int
    final: bool


@dataclass
class ReferenceState:
    """All that the engine remembers; the snapshot is this state."""

    frontier: FrontierState
    lanes: dict[LaneId, LaneState] = field(default_factory=dict)
    windows: list[dict[Hashable, dict[Bounds, WindowState]]] = field(default_factory=list)
    """For each output: key → bounds → state."""
    kept: dict[Hashable, list[int]] = field(default_factory=dict)
    """For deduplication: the event times of rows kept, by key."""
    clock: int = 0
    swept: Position | None = None
    """The latest position that was handled; an arrival that lies before it is raised, and counted."""
    rows: Counter[str] = field(default_factory=Counter)
    pairs: list[Counter[str]] = field(default_factory=list)
    worst: list[Counter[str]] = field(default_factory=list)


class Reference:
    """Handles one event at a time. Emissions gather in `panes`, refused rows in `late`, closings in `closings`.

    >>> from eventide.model.plan import Plan, SourcePlan, OutputPlan
    >>> from eventide.model import aggregate, watermark, window
    >>> plan = Plan((SourcePlan(watermark.Bounded(5), ("0",)),), window.Sliding(10, 10), (("n", aggregate.count()),),
    ...             (OutputPlan("counts"),))
    >>> engine = Reference(plan)
    >>> for time in (1, 8, 17): engine.event(Event(time, time))
    >>> engine.panes[0].window, engine.panes[0].values
    ((0, 10), {'n': 2})
    """

    def __init__(self, plan: Plan, state: ReferenceState | None = None) -> None:
        self.plan = plan
        fresh = Frontier([s.timing for s in plan.sources], plan.when_all_idle)
        self.state = state or ReferenceState(
            fresh.state,
            windows=[{} for _ in plan.outputs],
            pairs=[Counter() for _ in plan.outputs],
            worst=[Counter() for _ in plan.outputs],
        )
        self.frontier = Frontier([s.timing for s in plan.sources], plan.when_all_idle, self.state.frontier)
        self.panes: list[Pane] = []
        self.late: list[LateRow] = []
        self.closings: list[Closing] = []
        self._deadline = MIN_TIME
        """No window closes or expires while W is below it; spares a look at every window for every event."""

    @property
    def watermark(self) -> int | None:
        """W now."""
        return self.frontier.watermark

    def snapshot(self) -> ReferenceState:
        """The state as it stands, cut loose from the engine."""
        return copy.deepcopy(self.state)

    @classmethod
    def restore(cls, plan: Plan, state: ReferenceState) -> Reference:
        """An engine that goes on from a snapshot."""
        return cls(plan, copy.deepcopy(state))

    def event(self, event: Event) -> None:
        """Handle the next event; it is judged by W as it stood before it, and then moves W."""
        lane = self.state.lanes.setdefault(event.lane_id, LaneState())
        if lane.last_arrival is not None and event.arrival < lane.last_arrival:
            event = replace(event, arrival=lane.last_arrival)
        least = least_arrival(self.state.swept, event.lane_id)
        if event.arrival < least:
            event = replace(event, arrival=least)
            self.state.rows["raised"] += 1
        event = self.plan.sources[event.source].strategy.timed(event)
        self._pass_time(event.arrival)
        self.state.swept = event.position
        self.state.rows["in"] += 1
        if event.broken is not None:
            self.state.rows["dead"] += 1
        elif event.marker:
            self.state.rows["markers"] += 1
        elif self._is_duplicate(event):
            self.state.rows["duplicates"] += 1
        else:
            self.state.rows["judged"] += 1
            for index, output in enumerate(self.plan.outputs):
                self._judge(index, output, event)
        observe(self.plan.sources[event.source].strategy, lane, event)
        lane.last_arrival = event.arrival
        self.frontier.hear(event.lane_id, event.arrival, lane.watermark)
        self._close_and_expire()

    def look(self, clock: int | None = None) -> None:
        """The end of a batch: triggers that are looked at once per batch fire; the clock may have moved."""
        if clock is not None and clock > self.state.clock:
            self.state.clock = clock
        for index, output in enumerate(self.plan.outputs):
            for state in self._in_order(index):
                trigger = output.late if state.closed else output.early
                if isinstance(trigger, PerRow) or not state.wants(trigger, self.plan, self.state.clock):
                    continue
                self.panes += state.fire(output, self.plan, LATE if state.closed else EARLY)

    def pass_time(self, arrival: int) -> None:
        """Nothing arrived up to this time: lanes may fall idle, and windows close. Time begins with the first arrival."""
        if self.state.frontier.first_arrival is not None:
            self._pass_time(arrival)

    def drain(self) -> None:
        """The end of the input: every open window closes, every retained one ends."""
        self.look()
        self.frontier.drain()
        self._close_and_expire()

    def _pass_time(self, arrival: int) -> None:
        self.state.swept = start_of(arrival) if self.state.swept is None else max(self.state.swept, start_of(arrival))
        self.frontier.pass_time(arrival)
        self._close_and_expire()

    def _is_duplicate(self, event: Event) -> bool:
        within = self.plan.dedupe_within
        if within is None or event.event_time is None:
            return False
        time, watermark = event.event_time, self.frontier.watermark
        kept = self.state.kept.setdefault(event.dedupe_key, [])
        if watermark is not None:
            kept[:] = [t for t in kept if watermark < plus(t, within)]
        if any(abs(time - t) < within for t in kept):
            return True
        kept.append(time)
        return False

    def _judge(self, index: int, output: OutputPlan, event: Event) -> None:
        assert event.event_time is not None, "a row without an event time is a dead letter"
        if isinstance(self.plan.window, Session):
            found = [self._join_session(index, output, self.plan.window, event)]
        else:
            found = [self._join_window(index, output, event, bounds) for bounds in self.plan.window.assign(event.event_time)]
        missed = tuple(bounds for bounds, result in found if result is Verdict.REFUSED)
        for _, result in found:
            self.state.pairs[index][result] += 1
        self.state.worst[index][max((result for _, result in found), key=_WORST.__getitem__)] += 1
        if missed and self.frontier.watermark is not None:
            self.late.append(LateRow(output.name, event, self.frontier.watermark, missed))

    def _join_window(self, index: int, output: OutputPlan, event: Event, bounds: Bounds) -> tuple[Bounds, Verdict]:
        result = verdict(self.frontier.watermark, bounds[1], output.allowed)
        if result is not Verdict.REFUSED:
            state = self.state.windows[index].setdefault(event.key, {}).setdefault(bounds, WindowState(bounds, event.key))
            self._take(output, state, event, result)
        return bounds, result

    def _join_session(self, index: int, output: OutputPlan, window: Session, event: Event) -> tuple[Bounds, Verdict]:
        assert event.event_time is not None, "a row without an event time is a dead letter"
        start, end = own = window.own(event.event_time)
        watermark = self.frontier.watermark
        sessions = self.state.windows[index].get(event.key, {})
        joined = [
            s
            for s in sessions.values()
            if s.window[0] <= own[1]
            and own[0] <= s.window[1]
            and verdict(watermark, s.window[1], output.allowed) is not Verdict.REFUSED
        ]
        start, end = min([start, *(s.window[0] for s in joined)]), max([end, *(s.window[1] for s in joined)])
        result = verdict(watermark, end, output.allowed)
        if result is Verdict.REFUSED:
            return own, result
        merged = WindowState((start, end), event.key)
        for state in sorted(joined, key=lambda s: s.window):
            del sessions[state.window]
            merged.absorb(state)
        merged.closed = result is Verdict.ADMITTED
        self.state.windows[index].setdefault(event.key, {})[merged.window] = merged
        self._take(output, merged, event, result)
        return merged.window, result

    def _take(self, output: OutputPlan, state: WindowState, event: Event, result: Verdict) -> None:
        state.closed = state.closed or result is Verdict.ADMITTED
        state.add(event, output, self.state.clock)
        self._deadline = min(self._deadline, _deadline(state, output))
        if result is Verdict.ADMITTED and isinstance(output.late, PerRow):
            self.panes += state.fire(output, self.plan, LATE)

    def _close_and_expire(self) -> None:
        watermark = self.frontier.watermark
        if watermark is None or watermark < self._deadline:
            return
        self._deadline = MAX_TIME
        for index, output in enumerate(self.plan.outputs):
            for state in self._in_order(index):
                end = state.window[1]
                if not state.closed and end <= watermark:
                    state.closed, state.due = True, None
                    self.panes += state.fire(output, self.plan, ON_TIME)
                    self.closings.append(Closing(output.name, state.window, state.key, watermark, output.allowed == 0))
                if state.closed and (watermark == MAX_TIME or plus(end, output.allowed) <= watermark):
                    if state.pending:
                        self.panes += state.fire(output, self.plan, LATE)
                    del self.state.windows[index][state.key][state.window]
                    if not self.state.windows[index][state.key]:
                        del self.state.windows[index][state.key]
                else:
                    self._deadline = min(self._deadline, _deadline(state, output))

    def _in_order(self, index: int) -> list[WindowState]:
        states = [s for by_window in self.state.windows[index].values() for s in by_window.values()]
        return sorted(states, key=lambda s: (s.window[1], s.window[0], str(s.key)))


def _deadline(state: WindowState, output: OutputPlan) -> int:
    return plus(state.window[1], output.allowed) if state.closed else state.window[1]
