"""The course of W: from what lanes said, W as it stood before any position, and what had moved it there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eventide.model.event import LaneId, Position
from eventide.model.frontier import Frontier, SourceTiming


@dataclass(frozen=True, slots=True)
class Heard:
    """A row with which its lane's watermark changed, or which came after a silence; and until when rows came after it that did neither."""

    position: Position
    watermark: int | None
    """The lane's own, from there on."""
    until: int

    @property
    def lane(self) -> LaneId:
        """Whose row it is."""
        return (self.position[1], self.position[2])


@dataclass(frozen=True, slots=True)
class Silence:
    """That lanes fell idle, and W went on without them."""

    instant: int
    lanes: tuple[LaneId, ...]


@dataclass(frozen=True, slots=True)
class Stood:
    """How things stood just before a position."""

    watermark: int | None
    moved: Position | Silence | None
    """The row that had moved W there, or the silence that had; None: nothing had yet, or it grew by the clock."""
    holder: LaneId | None
    """The lane that held W back."""
    own: int | None
    """The watermark of the position's own lane."""
    idle: bool
    """Whether that lane was idle."""


def stood_before(
    asked: Iterable[Position], heard: Sequence[Heard], sources: Sequence[SourceTiming], when_all_idle: str = "hold"
) -> list[Stood]:
    """How things stood before each position; both the positions and what was heard are in order.

    >>> heard = [Heard((10, 0, "a", 0), 100, 10), Heard((11, 0, "b", 0), 70, 11)]
    >>> (stood,) = stood_before([(12, 0, "b", 1)], heard, [SourceTiming(("a", "b"))])
    >>> stood.watermark, stood.moved, stood.holder
    (70, (11, 0, 'b', 0), (0, 'b'))
    """
    course = _Course(Frontier(sources, when_all_idle))
    found, coming = [], iter(heard)
    next_one = next(coming, None)
    for position in asked:
        while next_one is not None and next_one.position < position:
            course.hear(next_one)
            next_one = next(coming, None)
        found.append(course.before(position))
    return found


class _Course:
    """A frontier that remembers what moved it."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.moved: Position | Silence | None = None
        frontier.on_timer = self._fell_silent
        self._was: int | None = None
        self._idle: set[LaneId] = set()

    def hear(self, row: Heard) -> None:
        """The next row that matters."""
        self._pass_time(row.position[0])
        self.frontier.hear(row.lane, row.until, row.watermark)
        self._idle.discard(row.lane)
        self._note(row.position)

    def before(self, position: Position) -> Stood:
        """How things stand before a row at a position."""
        if self.frontier.state.first_arrival is not None:
            self._pass_time(position[0])
        standing = self.frontier.state.lanes.get((position[1], position[2]))
        own, idle = (None, False) if standing is None else (standing.watermark, standing.idle)
        return Stood(self.frontier.watermark, self.moved, self.frontier.holder, own, idle)

    def _pass_time(self, arrival: int) -> None:
        self.frontier.pass_time(arrival)
        self._note(None)

    def _fell_silent(self, instant: int) -> None:
        silent = {lane for lane, standing in self.frontier.state.lanes.items() if standing.idle}
        self._note(Silence(instant, tuple(sorted(silent - self._idle))))
        self._idle = silent

    def _note(self, by: Position | Silence | None) -> None:
        if self.frontier.watermark != self._was:
            self.moved, self._was = by, self.frontier.watermark


def least(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """The least number from low to high that is good, where every number above a good one is good too; None: not even high is.

    >>> least(0, 100, lambda n: n * n >= 50), least(0, 5, lambda n: n * n >= 50)
    (8, None)
    """
    if high < low or not good(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle + 1, high)
    return low
