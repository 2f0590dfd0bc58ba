"""The two sides of a join, bound to the columns that each has: what the scan keeps of a lane's rows for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.join import BoundJoin
from eventide.kernel.keys import one_of_equals
from eventide.kernel.share import Share
from eventide.model.event import LaneId


@dataclass(frozen=True)
class Side:
    """One side: its sources by their place, its columns, those that must equal the other side's, and its deduplication."""

    name: str
    sources: frozenset[int]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    dedupe: tuple[str, ...] = ()
    dedupe_within: int | None = None

    def kinds(self, kinds: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """Of the types of both sides' columns, its own."""
        return {name: kinds[name] for name in self.columns}

    def counter(self, what: str) -> str:
        """Under which name its rows are counted.

        >>> Side("left", frozenset({0}), ("id",), ("id",)).counter("judged")
        'left_judged'
        """
        return f"{self.name}_{what}"

    def bound(self, shape: BoundPlan) -> BoundPlan:
        """The pipeline as it looks from this side: its own keys and duplicates."""
        plan = replace(shape.plan, dedupe_within=self.dedupe_within)
        return replace(shape, plan=plan, keys=self.keys, dedupe=self.dedupe, beside=())


@dataclass(frozen=True)
class JoinPlan:
    """A join and its two sides."""

    bound: BoundJoin
    sides: tuple[Side, Side]

    @property
    def counted(self) -> tuple[Side, ...]:
        """The sides whose rows are all rows, each once: a stream that is joined with itself stands on both."""
        return self.sides[:1] if self.bound.itself else self.sides


class SideShare(Share):
    """What a side takes of a lane: every row, until the sweep has passed it; only then it is known whether it is let in."""

    def __init__(self, shape: BoundPlan, side: Side, *, counted: bool) -> None:
        own = side.bound(shape)
        super().__init__(own, (own,))
        self.side, self.counted = side, counted

    @property
    def owner(self) -> str:
        """The side's name."""
        return self.side.name

    def take(self, data: pl.DataFrame, joined_w: int | None, joined_known: bool) -> None:
        """The next rows, with the side's own columns."""
        rows = data.select(*self.side.columns, *(name for name in data.columns if name.startswith("__")))
        self._keep(one_of_equals(rows, (*self.side.keys, *self.side.dedupe)))
        self.counts[self.side.counter("kept")] += len(rows)
        if not self.counted:
            del self.counts["kept"]


def side_shares(shape: BoundPlan, join: JoinPlan, lane: LaneId) -> list[Share]:
    """The sides that a lane's rows stand on."""
    return [SideShare(shape, side, counted=side in join.counted) for side in join.sides if lane[0] in side.sources]
