"""The operator watermark W: the least of the lanes that are not idle, never backwards, idle instants taken in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eventide.model.event import LaneId
from eventide.model.time import MAX_TIME, plus


@dataclass(frozen=True)
class SourceTiming:
    """What the frontier must know of a source: its lanes at the start, and when a silent one stops counting."""

    lanes: tuple[str, ...] = ()
    idle_after: int | None = None


@dataclass(slots=True)
class Standing:
    """Where one lane stands."""

    watermark: int | None = None
    last_arrival: int | None = None
    idle: bool = False


@dataclass
class FrontierState:
    """All that W depends on; the snapshot is this state."""

    watermark: int | None = None
    lanes: dict[LaneId, Standing] = field(default_factory=dict)
    first_arrival: int | None = None
    all_idle_since: int | None = None
    all_idle_from: int = 0


def slowest(lanes: Mapping[LaneId, Standing]) -> LaneId | None:
    """Of lanes, the one that the others wait for: the least that counts, or one that was not heard yet; None where none counts.

    >>> slowest({(0, "a"): Standing(90), (0, "b"): Standing(70), (1, "a"): Standing(10, idle=True)})
    (0, 'b')
    """
    counted = [(lane, standing) for lane, standing in lanes.items() if not standing.idle]
    if not counted:
        return None
    return min(counted, key=lambda item: (item[1].watermark is not None, item[1].watermark or 0, item[0]))[0]


class Frontier:
    """Sweeps arrivals in order into W.

    >>> frontier = Frontier([SourceTiming(("a", "b"))])
    >>> frontier.hear((0, "a"), 10, 100); frontier.watermark is None
    True
    >>> frontier.hear((0, "b"), 11, 70); frontier.watermark, frontier.holder
    (70, (0, 'b'))
    """

    def __init__(
        self, sources: Sequence[SourceTiming], when_all_idle: str = "hold", state: FrontierState | None = None
    ) -> None:
        self.sources = tuple(sources)
        self.advances = when_all_idle == "advance"
        self.state = state or FrontierState(
            lanes={(index, lane): Standing() for index, source in enumerate(sources) for lane in source.lanes}
        )
        if not self.advances:
            self.state.all_idle_since = None  # W grew under an older definition, and holds from here on
        self.on_timer: Callable[[int], None] = lambda instant: None
        self._next_due: int | None = None

    @property
    def watermark(self) -> int | None:
        """W: no row with an event time below it is expected any more; None while undefined."""
        return self.state.watermark

    @property
    def holder(self) -> LaneId | None:
        """The lane that holds W back: the slowest one that counts, or one that was not heard yet."""
        return slowest(self.state.lanes)

    def pass_time(self, arrival: int) -> None:
        """Everything that happens before an event that arrives at this time: lanes fall idle in order, ties together."""
        state = self.state
        if state.first_arrival is None:
            state.first_arrival = arrival
        if self._next_due is None or arrival > self._next_due:
            self._fall_idle(arrival)
        if state.all_idle_since is not None and state.watermark is not None and arrival > state.all_idle_since:
            state.watermark = max(state.watermark, plus(state.all_idle_from, arrival - state.all_idle_since))

    def _fall_idle(self, arrival: int) -> None:
        due: dict[int, list[Standing]] = {}
        later = MAX_TIME
        for lane, standing in self.state.lanes.items():
            instant = self._idle_instant(lane, standing)
            if instant is None:
                continue
            if instant < arrival:
                due.setdefault(instant, []).append(standing)
            else:
                later = min(later, instant)
        for instant in sorted(due):
            for standing in due[instant]:
                standing.idle = True
            self._refresh()
            self._grow_from(instant)
            self.on_timer(instant)
        self._grow_from(arrival)
        self._next_due = later

    def _grow_from(self, instant: int) -> None:
        """While all lanes are idle W grows: from when the last of them fell silent, or from when the definition says so."""
        state = self.state
        if not self.advances or state.all_idle_since is not None or state.watermark is None:
            return
        if all(standing.idle for standing in state.lanes.values()):
            state.all_idle_since, state.all_idle_from = instant, state.watermark

    def _idle_instant(self, lane: LaneId, standing: Standing) -> int | None:
        idle_after = self.sources[lane[0]].idle_after
        if standing.idle or idle_after is None or self.state.first_arrival is None:
            return None
        since = self.state.first_arrival if standing.last_arrival is None else standing.last_arrival
        return plus(since, idle_after)

    def hear(self, lane: LaneId, arrival: int, watermark: int | None) -> None:
        """An event came by a lane, whose own watermark now is this (None: it has said nothing yet)."""
        state = self.state
        if state.first_arrival is None:
            state.first_arrival = arrival
        standing = state.lanes.get(lane)
        if standing is None:
            standing = state.lanes[lane] = Standing(idle=True)
        could_hold = (
            standing.idle or standing.watermark is None or state.watermark is None or standing.watermark <= state.watermark
        )
        standing.idle = False
        standing.last_arrival = arrival
        standing.watermark = watermark
        state.all_idle_since = None
        instant = self._idle_instant(lane, standing)
        if instant is not None and (self._next_due is None or instant < self._next_due):
            self._next_due = instant if self._next_due is not None else None
        if could_hold:
            self._refresh()

    def _refresh(self) -> None:
        low: int | None = None
        for standing in self.state.lanes.values():
            if standing.idle:
                continue
            if standing.watermark is None:
                return
            if low is None or standing.watermark < low:
                low = standing.watermark
        if low is not None and (self.state.watermark is None or low > self.state.watermark):
            self.state.watermark = low

    def drain(self) -> None:
        """The end of the input: nothing more can come, W moves to +∞."""
        self.state.watermark = MAX_TIME
