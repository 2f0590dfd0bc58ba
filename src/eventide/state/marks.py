"""Where the watermark of a pipeline stands, source by source and lane by lane: who holds it, since when, and what waits for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from eventide.model.event import LaneId
from eventide.model.frontier import FrontierState, Standing, slowest
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.state.holds import Hold, Holds
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.state.windows import output_windows


@dataclass(frozen=True)
class LaneMark:
    """One lane."""

    source: str
    lane: str
    watermark: int | None
    """None: it was not heard, or has said nothing of time yet."""
    last_arrival: int | None
    """When the last row of it arrived that was read."""
    idle: bool
    """It was silent for so long that nobody waits for it."""


@dataclass(frozen=True)
class Holder:
    """A lane that is waited for."""

    source: str
    lane: str
    since: int | None
    """The clock of the batch since which it is the one; None: the state was left by a run that did not note it."""
    why: str | None
    """Why nothing more can be read of it, where that is so."""


@dataclass(frozen=True)
class SourceMark:
    """One source: the least of its lanes that count."""

    source: str
    watermark: int | None
    lag: int | None
    holder: Holder | None
    lanes: int
    idle: int


@dataclass(frozen=True)
class Marks:
    """All of them, as of the newest commit; spans and times are microseconds."""

    pipeline: str
    batch: int
    clock: int
    """Of the batch: what was read by then is what this is about."""
    finished: bool
    watermark: int | None
    lag: int | None
    moved: int | None
    """The clock of the batch that last moved W; None: as with a holder's `since`."""
    holder: Holder | None
    waiting: dict[str, int]
    """By output, the windows that would close if the holder caught up with the other lanes; with none, up to the clock."""
    sources: tuple[SourceMark, ...]
    lanes: tuple[LaneMark, ...]
    """Slowest first; those that are idle last."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def read_marks(state: State) -> Marks:
    """By the newest commit alone."""
    ledger, clock, holds = state.ledger, int(state.last["clock"]), Holds.from_json(state.last.get("holds"))
    names, frontier = state.sources, ledger.frontier
    lane = holds.holder.lane if holds is not None and holds.holder is not None else slowest(frontier.lanes)
    sources = tuple(_source(names[index], index, frontier, clock, holds) for index in range(len(names)))
    upto = _without(frontier, lane, clock)
    windows = output_windows(state)
    return Marks(
        state.name,
        ledger.batch,
        clock,
        bool(state.last.get("drained")),
        frontier.watermark,
        lag_of(frontier.watermark, clock),
        None if holds is None else holds.moved,
        None if lane is None else _holder(names[lane[0]], lane, holds, None if holds is None else holds.holder),
        {one.output: one.between(frontier.watermark, upto) for one in windows if one.window is not None},
        sources,
        tuple(_lane(names, lane, standing, ledger) for lane, standing in in_order(frontier)),
    )


def _lane(names: list[str], lane: LaneId, standing: Standing, ledger: Ledger) -> LaneMark:
    read = ledger.carries.get(lane)
    return LaneMark(names[lane[0]], lane[1], standing.watermark, None if read is None else read.last_arrival, standing.idle)


def _source(name: str, index: int, frontier: FrontierState, clock: int, holds: Holds | None) -> SourceMark:
    lanes = {lane: standing for lane, standing in frontier.lanes.items() if lane[0] == index}
    last = slowest(lanes)
    mark = None if last is None else lanes[last].watermark
    hold = None if holds is None else holds.sources.get(index)
    holder = None if last is None else _holder(name, last, holds, hold)
    return SourceMark(name, mark, lag_of(mark, clock), holder, len(lanes), sum(standing.idle for standing in lanes.values()))


def _holder(source: str, lane: LaneId, holds: Holds | None, hold: Hold | None) -> Holder:
    return Holder(source, lane[1], None if hold is None else hold.since, None if holds is None else holds.why.get(lane))


def lag_of(mark: int | None, clock: int) -> int | None:
    """How far a watermark is behind a clock; None where it says nothing of it."""
    return None if mark is None or mark == MAX_TIME else max(0, clock - mark)


def _without(frontier: FrontierState, holder: LaneId | None, clock: int) -> int:
    """Where W would stand if the holder had nothing more to come."""
    others = {lane: standing for lane, standing in frontier.lanes.items() if lane != holder}
    next_one = slowest(others)
    if next_one is None:
        return clock
    mark = others[next_one].watermark
    return MIN_TIME if mark is None else mark


def in_order(frontier: FrontierState) -> list[tuple[LaneId, Standing]]:
    """Its lanes, those that are furthest behind first; idle ones last."""
    return sorted(
        frontier.lanes.items(), key=lambda item: (item[1].idle, item[1].watermark is not None, item[1].watermark or 0, item[0])
    )


__all__ = ["Holder", "LaneMark", "Marks", "SourceMark", "in_order", "lag_of", "read_marks"]
