"""The rows' way in: each takes its place in the one order, is told from markers, duplicates and dead letters, and moves W."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from eventide.model.event import Event, LaneId, Position, least_arrival, start_of
from eventide.model.frontier import Frontier, FrontierState
from eventide.model.plan import SourcePlan
from eventide.model.time import plus
from eventide.model.watermark import LaneState, observe


@dataclass(frozen=True)
class Dedupe:
    """Of these sources together, the first of equal rows is kept within a span of event time; None keeps all."""

    sources: tuple[int, ...]
    within: int | None = None


@dataclass
class IntakeState:
    """What the way in remembers."""

    frontier: FrontierState
    lanes: dict[LaneId, LaneState] = field(default_factory=dict)
    kept: dict[Hashable, list[int]] = field(default_factory=dict)
    """For deduplication: the event times of rows kept, by stream and key."""
    clock: int = 0
    swept: Position | None = None
    """The latest position that was handled; an arrival that lies before it is raised, and counted."""
    rows: Counter[str] = field(default_factory=Counter)


class Intake:
    """One event at a time, in arrival order; what becomes of a row, and of a step of W, is told by `judge` and `advance`."""

    def __init__(
        self, sources: Sequence[SourcePlan], when_all_idle: str, dedupes: Sequence[Dedupe], state: IntakeState
    ) -> None:
        self.sources, self.dedupes, self.state = sources, dedupes, state
        self.frontier = Frontier([s.timing for s in sources], when_all_idle, state.frontier)

    @property
    def watermark(self) -> int | None:
        """W now."""
        return self.frontier.watermark

    def judge(self, event: Event) -> None:
        """A row that is neither a copy nor broken, with W as it stood before it."""
        raise NotImplementedError

    def advance(self) -> None:
        """W may have moved."""
        raise NotImplementedError

    def event(self, event: Event) -> None:
        """Handle the next event; it is judged by W as it stood before it, and then moves W."""
        lane = self.state.lanes.setdefault(event.lane_id, LaneState())
        if lane.last_arrival is not None and event.arrival < lane.last_arrival:
            event = replace(event, arrival=lane.last_arrival)
        least = least_arrival(self.state.swept, event.lane_id)
        if event.arrival < least:
            event = replace(event, arrival=least)
            self.state.rows["raised"] += 1
        event = self.sources[event.source].strategy.timed(event)
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
            self.judge(event)
        observe(self.sources[event.source].strategy, lane, event)
        lane.last_arrival = event.arrival
        self.frontier.hear(event.lane_id, event.arrival, lane.watermark)
        self.advance()

    def pass_time(self, arrival: int) -> None:
        """Nothing arrived up to this time: lanes may fall idle, and windows close. Time begins with the first arrival."""
        if self.state.frontier.first_arrival is not None:
            self._pass_time(arrival)

    def _pass_time(self, arrival: int) -> None:
        self.state.swept = start_of(arrival) if self.state.swept is None else max(self.state.swept, start_of(arrival))
        self.frontier.pass_time(arrival)
        self.advance()

    def _is_duplicate(self, event: Event) -> bool:
        scope, dedupe = next((i, d) for i, d in enumerate(self.dedupes) if event.source in d.sources)
        within = dedupe.within
        if within is None or event.event_time is None:
            return False
        return not is_first(event.event_time, self.state.kept.setdefault((scope, event.dedupe_key), []), self.watermark, within)


def is_first(time: int, kept: list[int], watermark: int | None, within: int) -> bool:
    """Whether no equal row was kept near it; then it is kept. What W has passed by the whole span is forgotten.

    >>> kept = [100]
    >>> is_first(105, kept, 90, within=10), is_first(105, kept, 110, within=10), kept
    (False, True, [105])
    """
    if watermark is not None:
        kept[:] = [t for t in kept if watermark < plus(t, within)]
    if any(abs(time - t) < within for t in kept):
        return False
    kept.append(time)
    return True
