"""The lanes' progress swept, position by position, into W: a short list of steps by which any row can be judged later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eventide.model.event import LaneId, Position, end_of
from eventide.model.frontier import Frontier
from eventide.model.lane import Progress
from eventide.model.time import MIN_TIME, plus


@dataclass(frozen=True, slots=True)
class Step:
    """From after this position on, W is this; `grows` while all lanes are idle and time itself moves it."""

    position: Position
    watermark: int | None
    grows: bool = False

    def at(self, arrival: int) -> int | None:
        """W for an event that arrives then."""
        if not self.grows or self.watermark is None:
            return self.watermark
        return plus(self.watermark, max(0, arrival - self.position[0]))


@dataclass
class Counted:
    """When a lane counted in the minimum during a sweep: whether it did at first, and after which positions that changed."""

    lane: LaneId
    watermark: int | None
    """The lane's own before the sweep."""
    at_first: bool
    turns: list[tuple[Position, bool]] = field(default_factory=list)

    def turn(self, position: Position, counts: bool) -> None:
        """Note from where on the lane counts, or no longer does."""
        if counts != (self.turns[-1][1] if self.turns else self.at_first):
            self.turns.append((position, counts))


@dataclass
class Swept:
    """What one sweep gave: W's steps in order, W just before each lane's joining, and when each lane counted."""

    steps: list[Step]
    joinings: dict[Position, int | None] = field(default_factory=dict)
    counted: dict[LaneId, Counted] = field(default_factory=dict)
    silences: dict[Position, int | None] = field(default_factory=dict)
    """W when the last lane that counted fell idle: it holds then."""

    def watermark_at(self, position: Position) -> int | None:
        """W as it stood before the event at this position."""
        index = bisect_left(self.steps, position, key=lambda step: step.position) - 1
        return self.steps[max(0, index)].at(position[0])


BEFORE_ALL: Position = (MIN_TIME, -1, "", -1)


def sweep(frontier: Frontier, progress: Iterable[Progress], upto: Position) -> tuple[Swept, list[Progress]]:
    """Move the frontier through all progress up to a position; gives what was swept, and the progress that waits."""
    ordered = sorted(progress, key=lambda p: p.position)
    due = [p for p in ordered if p.position <= upto]
    swept = Swept([_step(frontier, BEFORE_ALL)])
    swept.counted = {lane: Counted(lane, s.watermark, not s.idle) for lane, s in frontier.state.lanes.items()}
    frontier.on_timer = lambda instant: _fall_idle(frontier, swept, end_of(instant))
    try:
        for item in due:
            frontier.pass_time(item.position[0])
            if item.joins:
                swept.joinings[item.position] = frontier.watermark
            frontier.hear(item.lane, item.active_until, item.watermark)
            swept.counted.setdefault(item.lane, Counted(item.lane, None, False)).turn(item.position, True)
            _record(swept.steps, _step(frontier, item.position))
        if frontier.state.first_arrival is not None and upto[0] > MIN_TIME:
            frontier.pass_time(upto[0])
    finally:
        frontier.on_timer = lambda instant: None
    return swept, ordered[len(due) :]


def _fall_idle(frontier: Frontier, swept: Swept, position: Position) -> None:
    _record(swept.steps, _step(frontier, position))
    for lane, standing in frontier.state.lanes.items():
        if standing.idle:
            swept.counted[lane].turn(position, False)
    if all(standing.idle for standing in frontier.state.lanes.values()):
        swept.silences[position] = frontier.watermark


def _step(frontier: Frontier, position: Position) -> Step:
    state = frontier.state
    grows = state.all_idle_since is not None
    if grows and position is not BEFORE_ALL:
        return Step(position, state.watermark, True)
    if grows and state.all_idle_since is not None:
        return Step(end_of(state.all_idle_since), state.all_idle_from, True)
    return Step(position, state.watermark)


def _record(steps: list[Step], step: Step) -> None:
    if steps[-1].watermark != step.watermark or steps[-1].grows != step.grows:
        steps.append(step)


def common_position(read_to: Sequence[Position]) -> Position:
    """How far a sweep may go: the least of the positions to which the lanes have been read."""
    return min(read_to, default=BEFORE_ALL)
