"""One lane read in order, one pass: which rows are ahead of their lane, which are suspects, and the lane's progress.

A row whose first window ends after its own lane's watermark is *ahead*. Since the lane last joined the minimum, W cannot have
passed the lane's watermark, so only W as it stood just before that joining can have closed the row's window. A row that is
not ahead is a *suspect*, judged at its own position once the sweep has come there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eventide.model.event import Event, LaneId, Position
from eventide.model.time import MAX_TIME
from eventide.model.watermark import LaneState, Strategy, observe


@dataclass(frozen=True, slots=True)
class Progress:
    """A lane at a position: its watermark from there on, and until which arrival it certainly counts as active."""

    position: Position
    watermark: int | None
    active_until: int
    joins: bool = False

    @property
    def lane(self) -> LaneId:
        """Whose progress it is."""
        return (self.position[1], self.position[2])


@dataclass(slots=True)
class LaneReading:
    """What a lane carries from one reading to the next."""

    clock: LaneState = field(default_factory=LaneState)
    joined: Position | None = None
    last: Position | None = None


@dataclass
class LaneScan:
    """What one reading of a lane gave."""

    ahead: list[tuple[Position, Event]] = field(default_factory=list)
    """(where the lane joined, row)."""
    suspects: list[Event] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)


def scan(
    events: Iterable[Event],
    reading: LaneReading,
    strategy: Strategy,
    idle_after: int | None,
    first_end: Callable[[int], int],
    crosses: Callable[[int | None, int | None], bool],
) -> LaneScan:
    """Read a lane's next rows; `crosses` tells whether a verdict can see the difference between two watermarks."""
    found = LaneScan()
    before_first = True
    for event in map(strategy.timed, events):
        clock = reading.clock
        last_arrival = clock.last_arrival
        joins = last_arrival is None or (idle_after is not None and event.arrival - last_arrival > idle_after)
        if joins:
            if not before_first and last_arrival is not None and reading.last is not None:
                found.progress.append(Progress(reading.last, clock.watermark, last_arrival))
            reading.joined = event.position
        watermark = clock.watermark
        if event.broken is None and not event.marker and event.event_time is not None:
            if watermark is None or first_end(event.event_time) > watermark:
                found.ahead.append((reading.joined or event.position, event))
            else:
                found.suspects.append(event)
        observe(strategy, clock, event)
        if joins or before_first or crosses(watermark, clock.watermark):
            found.progress.append(Progress(event.position, clock.watermark, MAX_TIME, joins))
        clock.last_arrival, reading.last, before_first = event.arrival, event.position, False
    if not before_first and reading.last is not None and reading.clock.last_arrival is not None:
        found.progress.append(Progress(reading.last, reading.clock.watermark, reading.clock.last_arrival))
    return found
