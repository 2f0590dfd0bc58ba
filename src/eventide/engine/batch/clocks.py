"""The lanes' own clocks in the store: what W was, exactly, when a row came that is told it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from eventide.engine.batch.lane_task import clock_of
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, POSITION, SOURCE, UNSEEN
from eventide.kernel.judge import W
from eventide.kernel.resolution import CLOCK, watermark_before
from eventide.model.event import LaneId, Position
from eventide.model.lane import Progress
from eventide.model.sweep import BEFORE_ALL, Counted, Swept
from eventide.model.time import plus
from eventide.state.ledger import Ledger
from eventide.state.store import Part, PartKind, Store

PLACE = dict.fromkeys(POSITION, pl.Int64()) | {LANE: pl.String()}
SAID = dict.fromkeys((ARRIVAL, OFFSET, CLOCK), pl.Int64())


@dataclass(frozen=True)
class LaneClocks:
    """What a batch knows of them: which lanes counted when, W where the least of them can go back, and where the clocks are stored."""

    counted: tuple[Counted, ...]
    floors: tuple[tuple[Position, int], ...]
    parts: tuple[Part, ...]
    said: tuple[Progress, ...] = ()
    """What lanes said before their clocks were kept: in a state of an earlier Eventide the sweep saw every change."""

    @classmethod
    def of(cls, store: Store, ledger: Ledger, swept: Swept, before: int | None, due: Sequence[Progress]) -> LaneClocks:
        """After a sweep through the progress that was due, which began with W as it was before.

        Where a lane joins, or the last one falls silent, W is what it was until then; what happens while it is undefined leaves nothing behind.
        """
        counted = tuple(swept.counted[lane] for lane in sorted(swept.counted))
        parts = tuple(part for part in ledger.parts if part.kind == PartKind.CLOCK)
        begun = () if before is None else ((BEFORE_ALL, before),)
        first: dict[str, int] = {}
        for part in parts:
            first[part.output] = min(part.low, first.get(part.output, part.low))
        said = tuple(one for one in due if one.position[0] <= first.get(clock_of(one.lane), one.position[0]))
        clocks = cls(counted, begun, parts, said)
        held = sorted(position for position, mark in (swept.joinings | swept.silences).items() if mark is not None)
        if not held:
            return clocks
        at = clocks._at(pl.DataFrame(held, schema=PLACE, orient="row"), store)
        at = at.with_columns(pl.col(W).cum_max())
        return replace(clocks, floors=(*begun, *zip(held, at[W], strict=True)))

    @property
    def floor(self) -> int:
        """W at the last of these places, below which it never goes again."""
        return self.floors[-1][1] if self.floors else UNSEEN

    def after(self, position: Position, store: Store) -> int:
        """W right after a position; UNSEEN while undefined."""
        arrival, source, lane, offset = position
        place = pl.DataFrame({ARRIVAL: [arrival], SOURCE: [source], LANE: [lane], OFFSET: [plus(offset, 1)]}, schema=PLACE)
        return int(self._at(place, store)[W][0])

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
        if said := [one for one in self.said if one.lane == lane and one.watermark is not None]:
            yield pl.DataFrame(
                [(one.position[0], one.position[3], one.watermark) for one in said], schema=SAID, orient="row"
            ).sort(ARRIVAL, OFFSET)
        own = [part for part in self.parts if part.output == clock_of(lane) and part.low <= high]
        own.sort(key=lambda part: (part.batch, part.group))
        for index, part in enumerate(own):
            if index + 1 == len(own) or own[index + 1].low >= low:
                yield from store.read([part])
