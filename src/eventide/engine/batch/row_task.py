"""Rows that come through Spark: each partition's lanes through the kernel, one line of account for each lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from eventide.engine.batch.content import Content
from eventide.engine.batch.lane_task import write_found
from eventide.engine.between_tasks import ready_for_the_next
from eventide.engine.feeds.arrow_rows import rows_of
from eventide.engine.feeds.decode import Reading
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, SOURCE
from eventide.kernel.scan import Arrivals, LaneCarry, LaneScanner
from eventide.model.event import LaneId, Position
from eventide.state.store import Store


@dataclass(frozen=True)
class RowScan:
    """A function for mapInArrow; it travels to the workers with the lanes' carries."""

    shape: BoundPlan
    store: Store
    batch: int
    readings: dict[int, Reading]
    carries: dict[LaneId, LaneCarry]
    swept: Position | None
    clock: int
    of_files: frozenset[int] = frozenset()
    """The sources whose rows come from files, which may be replaced."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Scan every lane of a partition; rows of a lane come in order."""
        scanners: dict[LaneId, LaneScanner] = {}
        contents: dict[LaneId, Content] = {}
        for batch in batches:
            frame = rows_of(pa.Table.from_batches([batch]))
            for key, rows in frame.partition_by([SOURCE, LANE], as_dict=True, maintain_order=True).items():
                lane = (int(key[0]), str(key[1]))
                if lane not in scanners:
                    carry, arrivals = self.carries.get(lane, LaneCarry()), Arrivals.of(lane, self.swept, self.clock)
                    scanners[lane] = LaneScanner(self.shape, lane, carry, arrivals, self.shape.witness(self.batch, lane))
                    contents |= {lane: Content(self.shape.needed)} if lane[0] in self.of_files else {}
                chunk = self._chunk(lane, rows, scanners[lane])
                if lane in contents:
                    contents[lane].add(chunk)
                scanners[lane].read(chunk)
        lines, asked = [], set()
        for lane, scanner in scanners.items():
            account = write_found(self.shape, self.store, self.batch, lane, scanner.carry, scanner.finish())
            account.content = contents[lane].text if lane in contents else ""
            if lane[0] not in asked:  # the lanes of a source share its maps
                asked.add(lane[0])
                account.observed = self.readings[lane[0]].observed()
            lines.append(account.to_json())
        ready_for_the_next()
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["line"])

    def _chunk(self, lane: LaneId, rows: pl.DataFrame, scanner: LaneScanner) -> pl.DataFrame:
        """Places for rows that have none: the batch's clock as arrival, the order of coming as offset."""
        next_offset = scanner.carry.last_offset + 1
        rows = rows.drop(SOURCE, LANE).with_columns(
            pl.col(ARRIVAL).fill_null(self.clock),
            pl.when(pl.col(OFFSET) < 0)
            .then(pl.int_range(next_offset, next_offset + pl.len(), dtype=pl.Int64))
            .otherwise(pl.col(OFFSET))
            .alias(OFFSET),
        )
        return self.readings[lane[0]].prepare(rows)
