"""Since when a lane holds W back: noted with every commit, by the clocks of the batches, so that a state can tell it without its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.model.event import LaneId
from eventide.model.frontier import FrontierState, slowest


@dataclass(frozen=True)
class Hold:
    """A lane that others wait for, and the clock of the batch since which it is that one."""

    lane: LaneId
    since: int


@dataclass(frozen=True)
class Holds:
    """Who holds W and each source back after a batch, and since when W has stood where it stands.

    >>> from eventide.model.frontier import Standing
    >>> first = Holds.of(FrontierState(7, {(0, "a"): Standing(9), (0, "b"): Standing(7)}), 100, {}, None)
    >>> later = Holds.of(FrontierState(8, {(0, "a"): Standing(9), (0, "b"): Standing(8)}), 160, {}, first)
    >>> later.holder, later.moved
    (Hold(lane=(0, 'b'), since=100), 160)
    """

    watermark: int | None
    moved: int
    """The clock of the batch that last moved W."""
    holder: Hold | None
    """None: no lane counts."""
    sources: dict[int, Hold] = field(default_factory=dict)
    """The slowest lane of each source, by its place."""
    why: dict[LaneId, str] = field(default_factory=dict)
    """Lanes of which nothing more can be read although they are not at their end, and why."""

    @classmethod
    def of(cls, frontier: FrontierState, clock: int, why: Mapping[LaneId, str], before: Holds | None) -> Holds:
        """After a batch, by what was noted after the one before it."""
        moved = before.moved if before is not None and before.watermark == frontier.watermark else clock
        sources = {}
        for index in sorted({index for index, _ in frontier.lanes}):
            last = slowest({lane: standing for lane, standing in frontier.lanes.items() if lane[0] == index})
            if last is not None:
                sources[index] = _hold(last, clock, None if before is None else before.sources.get(index))
        lane = min(why, default=slowest(frontier.lanes))
        holder = None if lane is None else _hold(lane, clock, None if before is None else before.holder)
        return cls(frontier.watermark, moved, holder, sources, dict(why))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "watermark": self.watermark,
            "moved": self.moved,
            "holder": None if self.holder is None else [*self.holder.lane, self.holder.since],
            "sources": [[*hold.lane, hold.since] for hold in self.sources.values()],
            "why": [[*lane, why] for lane, why in self.why.items()],
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any] | None) -> Holds | None:
        """Back from a commit; None: it is of a run that noted nothing of the kind."""
        if raw is None:
            return None
        holder = None if raw["holder"] is None else _read(raw["holder"])
        sources = {index: _read([index, lane, since]) for index, lane, since in raw["sources"]}
        return cls(raw["watermark"], raw["moved"], holder, sources, {(index, lane): why for index, lane, why in raw["why"]})


def _hold(lane: LaneId, clock: int, before: Hold | None) -> Hold:
    return before if before is not None and before.lane == lane else Hold(lane, clock)


def _read(raw: list[Any]) -> Hold:
    return Hold((raw[0], raw[1]), raw[2])


__all__ = ["Hold", "Holds"]
