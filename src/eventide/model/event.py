"""One event as the engine sees it, and its position in the one order that all answers follow."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.model.time import MAX_TIME, MIN_TIME, plus

LaneId = tuple[int, str]
"""(source index, lane name): a part of a source that is ordered in itself."""

Position = tuple[int, int, str, int]
"""(arrival time, source index, lane, offset)."""

LAST_LANE = "\U0010ffff"


def end_of(arrival: int) -> Position:
    """The position after every event that arrived at this time."""
    return (arrival, MAX_TIME, LAST_LANE, MAX_TIME)


def start_of(arrival: int) -> Position:
    """The position before every event that arrived at this time."""
    return (arrival, -1, "", -1)


def least_arrival(swept: Position | None, lane: LaneId) -> int:
    """The least arrival that a row read from now on can have so that it stands after all that was swept.

    The sweep may end inside an instant. Lanes that sort after the one it ended in can still have rows of that instant, and so can
    that lane itself, whose offsets go on; a row of a lane that sorts before it would lie behind the sweep, and nobody would judge it.

    >>> least_arrival((7, 0, "b", 3), (0, "c")), least_arrival((7, 0, "b", 3), (0, "a")), least_arrival(end_of(7), (0, "c"))
    (7, 8, 8)
    """
    if swept is None or swept[0] in (MIN_TIME, MAX_TIME):
        return MIN_TIME
    return swept[0] if lane >= (swept[1], swept[2]) else plus(swept[0], 1)


@dataclass(frozen=True, slots=True)
class Event:
    """A row with its times and its place. `candidate` is what a punctuated or custom strategy read from it."""

    arrival: int
    event_time: int | None
    key: Hashable = None
    row: Mapping[str, Any] = field(default_factory=dict)
    source: int = 0
    lane: str = "0"
    offset: int = 0
    candidate: int | None = None
    marker: bool = False
    dedupe_key: Hashable = None
    dead: str | None = None
    beside: tuple[Any, ...] | None = None
    """Of a pair that a join made: the place of the earlier of its two rows, and whether the later is the left; it orders the pairs of one position."""

    @property
    def broken(self) -> str | None:
        """Why the row is a dead letter, if it is one: it counts as activity of its lane, and moves no watermark.

        >>> Event(0, None).broken
        'no event time'
        """
        if self.dead is None and self.event_time is None and not self.marker:
            return "no event time"
        return self.dead

    @property
    def lane_id(self) -> LaneId:
        """Which lane of which source it came by."""
        return (self.source, self.lane)

    @property
    def position(self) -> Position:
        """Its place in the total order of arrivals."""
        return (self.arrival, self.source, self.lane, self.offset)
