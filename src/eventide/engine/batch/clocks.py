"""The lanes' own clocks in the store: what W was, exactly, when a row came that is told it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from eventide.engine.batch.lane_task import clock_of
from eventide.kernel.columns import ARRIVAL, LANE, POSITION, UNSEEN
from eventide.kernel.judge import W
from eventide.kernel.resolution import watermark_before
from eventide.model.event import LaneId, Position
from eventide.model.sweep import BEFORE_ALL, Counted, Swept
from eventide.state.ledger import Ledger
from eventide.state.store import Part, PartKind, Store


@dataclass(frozen=True)
class LaneClocks:
    """What a batch knows of them: which lanes counted when, W where the least of them can go back, and where the clocks are stored."""

    counted: tuple[Counted, ...]
    floors: tuple[tuple[Position, int], ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, store: Store, ledger: Ledger, swept: Swept, before: int | None) -> LaneClocks:
        """After a sweep that began with W as it was before.

        Where a lane joins, or the last one falls silent, W is what it was until then; what happens while it is undefined leaves nothing behind.
        """
        counted = tuple(swept.counted[lane] for lane in sorted(swept.counted))
        parts = tuple(part for part in ledger.parts if part.kind == PartKind.CLOCK)
        begun = () if before is None else ((BEFORE_ALL, before),)
        clocks = cls(counted, begun, parts)
        held = sorted(position for position, mark in (swept.joinings | swept.silences).items() if mark is not None)
        if not held:
            return clocks
        at = clocks._at(pl.DataFrame(held, schema=dict.fromkeys(POSITION, pl.Int64) | {LANE: pl.String}, orient="row"), store)
        at = at.with_columns(pl.col(W).cum_max())
        return cls(counted, (*begun, *zip(held, at[W], strict=True)), parts)

    @property
    def floor(self) -> int:
        """W at the last of these places, below which it never goes again."""
        return self.floors[-1][1] if self.floors else UNSEEN

    def beside(self, rows: pl.DataFrame, store: Store) -> pl.DataFrame:
        """Rows with W as it stood before each of them; what they were judged by is less only where all clocks were kept."""
        judged = rows.sort(POSITION)
        return self._at(judged, store).with_columns(pl.max_horizontal(W, judged[W]).alias(W))

    def _at(self, rows: pl.DataFrame, store: Store) -> pl.DataFrame:
        low, high = rows[ARRIVAL][0], rows[ARRIVAL][-1]
        found = watermark_before(rows, self.counted, self.floors, lambda lane: self._clock(lane, low, high, store))
        return rows.with_columns(pl.Series(W, found))

    def _clock(self, lane: LaneId, low: int, high: int, store: Store) -> Iterator[pl.DataFrame]:
        """A lane's clock in order, as far as rows that arrived between two instants can ask for it.

        Of what lies before the first of them only the last piece is needed: a watermark never goes back.
        """
        own = [part for part in self.parts if part.output == clock_of(lane) and part.low <= high]
        own.sort(key=lambda part: (part.batch, part.group))
        for index, part in enumerate(own):
            if index + 1 == len(own) or own[index + 1].low >= low:
                yield from store.read([part])
