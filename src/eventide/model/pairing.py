"""The join of two streams by its definition: all rows that were let in are kept, and every new row is held against all of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from eventide.model.event import Event
from eventide.model.graph import INNER, LEFT, RIGHT, Between, Join
from eventide.model.lateness import Verdict, verdict
from eventide.model.pane import INSERT, LATE, ON_TIME, RETRACT
from eventide.model.time import MAX_TIME, plus

Place = tuple[int, str, int]
"""(source, lane, offset): who a row is, whenever it arrived. Outside of the model the source goes by its name."""
PairId = tuple[Place | None, Place | None]


def place_of(event: Event) -> Place:
    """A row's name.

    >>> place_of(Event(arrival=99, event_time=7, lane="b", offset=3))
    (0, 'b', 3)
    """
    return (event.source, event.lane, event.offset)


@dataclass(frozen=True)
class Said:
    """A pair, or a row without one, that is stated or withdrawn."""

    op: str
    timing: str
    left: Event | None
    right: Event | None

    @property
    def id(self) -> PairId:
        """The two rows' places."""
        return (None if self.left is None else place_of(self.left), None if self.right is None else place_of(self.right))

    @property
    def event_time(self) -> int:
        """The later of the two."""
        return max(row.event_time or 0 for row in (self.left, self.right) if row is not None)


@dataclass
class _Kept:
    row: Event
    matched: bool = False
    alone: bool = False
    """It stands without a pair."""


def judged(join: Join, time: int, watermark: int | None) -> Verdict:
    """What a join says to a row: by the row's own time, or by the end of its window.

    >>> join = Join("j", "l", "r", (("k", "k"),), Between(0, 5), allowed=3)
    >>> judged(join, 10, 10), judged(join, 10, 13), judged(join, 10, 14)
    (<Verdict.ON_TIME: 'on_time'>, <Verdict.ADMITTED: 'admitted'>, <Verdict.REFUSED: 'refused'>)
    """
    if not isinstance(join.within, Between):
        return verdict(watermark, join.within.first_end(time), join.allowed)
    if watermark is None or watermark <= time:
        return Verdict.ON_TIME
    return Verdict.ADMITTED if watermark <= plus(time, join.allowed) else Verdict.REFUSED


def passed(join: Join, side: int, time: int, watermark: int | None, allowed: int = 0) -> bool:
    """Whether no row that is on time (or at most this late) can match a row of this side any more.

    With nothing allowed it is when a row without a match is stated alone; with the join's own A it is when a row may be forgotten.

    >>> join = Join("j", "l", "r", (("k", "k"),), Between(-2, 5), allowed=3)
    >>> passed(join, 0, 10, 15), passed(join, 0, 10, 16), passed(join, 1, 10, 13), passed(join, 0, 10, 16, join.allowed)
    (False, True, True, False)
    """
    if watermark is None or watermark == MAX_TIME:
        return watermark is not None
    if not isinstance(join.within, Between):
        return watermark >= plus(join.within.first_end(time), allowed)
    return watermark > plus(plus(time, join.within.hi if side == 0 else -join.within.lo), allowed)


class Pairing:
    """Both sides of a join, and which of their rows stand alone."""

    def __init__(self, join: Join) -> None:
        self.join = join
        self.kept: tuple[list[_Kept], list[_Kept]] = ([], [])
        self.counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.watermark: int | None = None

    def row(self, event: Event, sides: tuple[int, ...]) -> tuple[Verdict, list[Said]]:
        """A row comes, on one side, or on both of a stream that is joined with itself."""
        assert event.event_time is not None, "a row without an event time is a dead letter"
        result = judged(self.join, event.event_time, self.watermark)
        for side in sides:
            self.counts[side][result] += 1
        if result is Verdict.REFUSED:
            return result, []
        timing = LATE if result is Verdict.ADMITTED else ON_TIME
        new = {side: _Kept(event) for side in sides}
        found: list[tuple[_Kept, _Kept]] = []
        for side in sides:
            found += [(new[side], old) if side == 0 else (old, new[side]) for old in self.kept[1 - side]]
        if len(sides) == 2 and self.join.self_pairs:
            found.append((new[0], new[1]))
        for side in sides:
            self.kept[side].append(new[side])
        pairs = sorted((p for p in found if self._match(p[0].row, p[1].row)), key=_order)
        said = [change for pair in pairs for change in self._pair(pair, timing)]
        return result, said + self._alone(timing)

    def advance(self, watermark: int | None) -> list[Said]:
        """W moved: rows that nothing on time can match any more stand alone."""
        self.watermark = watermark
        return self._alone(ON_TIME)

    def _match(self, left: Event, right: Event) -> bool:
        keys = [(_one(left.row.get(a)), _one(right.row.get(b))) for a, b in self.join.on]
        if any(a is None or a != b for a, b in keys) or left.event_time is None or right.event_time is None:
            return False
        within = self.join.within
        if isinstance(within, Between):
            return within.lo <= right.event_time - left.event_time <= within.hi
        return within.first_end(left.event_time) == within.first_end(right.event_time)

    def _pair(self, pair: tuple[_Kept, _Kept], timing: str) -> list[Said]:
        said = []
        for side, kept in enumerate(pair):
            if kept.alone:
                said.append(_lonely(RETRACT, timing, side, kept.row))
            kept.matched, kept.alone = True, False
        return [*said, Said(INSERT, timing, pair[0].row, pair[1].row)]

    def _alone(self, timing: str) -> list[Said]:
        said = []
        for side in (0, 1):
            if self.join.how in (INNER, RIGHT if side == 0 else LEFT):
                continue
            for kept in self.kept[side]:
                time = kept.row.event_time or 0
                if not (kept.matched or kept.alone) and passed(self.join, side, time, self.watermark):
                    kept.alone = True
                    said.append(_lonely(INSERT, timing, side, kept.row))
        return said


def _order(pair: tuple[_Kept, _Kept]) -> tuple[Any, Any]:
    """Pairs of one position: by the earlier row's, then by the left's."""
    return (min(pair[0].row.position, pair[1].row.position), pair[0].row.position)


def _lonely(op: str, timing: str, side: int, row: Event) -> Said:
    return Said(op, timing, row if side == 0 else None, row if side == 1 else None)


def _one(value: Any) -> Any:
    """Keys as SQL compares them: all that is no number is one value."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def pair_row(said: Said, columns: list[tuple[str, tuple[int, str]]], on: dict[str, str]) -> Event:
    """A pair as a row of its own: at the later position, beside the earlier, at the later event time."""
    rows = [row for row in (said.left, said.right) if row is not None]
    earlier, later = min(rows, key=lambda r: r.position), max(rows, key=lambda r: r.position)
    sides = (said.left, said.right)
    cells: dict[str, Any] = {}
    for name, (side, column) in columns:
        row = sides[side]
        if row is None and name in on:
            row, column = sides[1 - side], on[name]
        cells[name] = None if row is None else row.row.get(column)
    return replace(
        later, event_time=said.event_time, row=cells, beside=(*earlier.position, later is said.left and later is not earlier)
    )
