"""Where history lies and how workers read it: landed files, the archive, or any rows that Spark can read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.definition.source import Source
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.feed import Feed
from eventide.engine.feeds.opened import open_feed
from eventide.engine.feeds.projection import clock_columns, mapped_columns
from eventide.engine.feeds.union import united
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, SOURCE
from eventide.model.event import LaneId
from eventide.tuning.job import LaneHistory, Record, read_lane
from eventide.tuning.lane_scan import Question


@dataclass(frozen=True)
class RowHistory:
    """Rows that come through Spark, each with its place; called with a question it gives the records before the shuffle."""

    frame: Any
    readings: dict[int, Reading]

    def __call__(self, question: Question, shares: int) -> Any:
        """An RDD of (share, record)."""
        scan = RowScan(question, shares, self.readings)
        return self.frame.mapInArrow(scan, "share int, record binary").rdd.map(
            lambda row: (row[0], pickle.loads(bytes(row[1])))  # noqa: S301
        )


@dataclass(frozen=True)
class RowScan:
    """For mapInArrow: the lanes of one partition, which come one after the other, each in order."""

    question: Question
    shares: int
    readings: dict[int, Reading]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records, packed."""
        chunks = self._chunks(batches)
        held = next(chunks, None)
        while held is not None:
            lane = held[0]

            def of_lane(lane: LaneId = lane) -> Iterator[pl.DataFrame]:
                nonlocal held
                while held is not None and held[0] == lane:
                    yield held[1]
                    held = next(chunks, None)

            for share, record in read_lane(self.question, lane, of_lane(), self.shares):
                yield _line(share, record)

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[LaneId, pl.DataFrame]]:
        offset: dict[LaneId, int] = {}
        for batch in batches:
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            for key, rows in frame.partition_by([SOURCE, LANE], as_dict=True, maintain_order=True).items():
                lane = (int(key[0]), str(key[1]))
                start = offset.get(lane, 0)
                offset[lane] = start + len(rows)
                count = pl.int_range(start, start + len(rows), dtype=pl.Int64)
                numbered = rows.drop(SOURCE, LANE).with_columns(
                    pl.col(ARRIVAL).fill_null(0),
                    pl.when(pl.col(OFFSET) < 0).then(count).otherwise(pl.col(OFFSET)).alias(OFFSET),
                )
                yield lane, self.readings[lane[0]].prepare(numbered)


def _line(share: int, record: Record) -> pa.RecordBatch:
    columns: list[Any] = [pa.array([share], pa.int32()), pa.array([pickle.dumps(record)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["share", "record"])


def open_history(spark: Any, sources: tuple[Source, ...]) -> tuple[list[LaneHistory], RowHistory | None]:
    """Everything that the sources hold now, with as little of each row as the curve needs."""
    lanes: list[LaneHistory] = []
    frames: list[Any] = []
    readings: dict[int, Reading] = {}
    for index, source in enumerate(sources):
        feed = open_feed(spark, index, source)
        if feed.in_worker:
            lanes += _file_lanes(feed)
        else:
            readings[index] = feed.reading
            frames.append(feed.history(spark))
    return lanes, RowHistory(united(frames), readings) if frames else None


def _file_lanes(feed: Feed) -> list[LaneHistory]:
    source, kinds = feed.source, feed.reading.kinds
    wanted = clock_columns(source, kinds) | mapped_columns(source, kinds)
    reading = replace(feed.reading, kinds={name: kind for name, kind in kinds.items() if name in wanted})
    return [LaneHistory(lane, partial(files.chunks, 0)) for lane, files in feed.lanes_in_worker(feed.listed(), reading).items()]


__all__ = ["RowHistory", "open_history"]
