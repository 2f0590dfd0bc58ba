"""The archive opened without Spark: each lane's rows in the places that the live run gave them, ready for the kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.engine.backfill import REPLAYED, known_lanes, over_sources, replayed_source
from eventide.engine.changes import describe_definition
from eventide.engine.feeds.feed import Feed, reading_of
from eventide.engine.feeds.frame import FrameFeed
from eventide.engine.feeds.joined import join_plan
from eventide.engine.feeds.projection import clock_columns, common_kinds
from eventide.errors import DefinitionError
from eventide.kernel.columns import ARRIVAL, DEAD, OFFSET, RAW
from eventide.model.event import LaneId
from eventide.state.archive import ArchivedFile, archived_files, archived_kinds, lane_files, lane_rows

PLACED = {f"@{place}": name for place, name in REPLAYED.items()}


@dataclass(frozen=True)
class ArchivedLanes:
    """An archive and the definition over it."""

    pipeline: Pipeline
    """The same definition over what was archived, telling nobody."""
    feeds: list[Feed]
    kinds: dict[str, pl.DataType]
    """The columns that all sources share."""
    files: dict[LaneId, list[ArchivedFile]]

    @classmethod
    def open(cls, pipeline: Pipeline) -> ArchivedLanes:
        """The archive of the state's generation; without one, what to do is said."""
        files, known = archived_files(pipeline), known_lanes(pipeline)
        if not files:
            raise DefinitionError(
                f"the archive {pipeline.archive} of pipeline {pipeline.name!r} holds nothing yet; run it first."
            )
        sources, read = [], []
        for index, source in enumerate(pipeline.sources):
            own = [file for file in files if file.lane[0] == index]
            kinds = {**(archived_kinds(own) if own else {}), **_placed_kinds()}
            given = {name: kind for name, kind in kinds.items() if name not in (DEAD, RAW)}
            sources.append(replayed_source(source, pl.DataFrame(schema=kinds), known.get(source.name, [])))
            read.append(given)
        feeds: list[Feed] = [
            FrameFeed(index, source, reading_of(index, source, given, None))
            for index, (source, given) in enumerate(zip(sources, read, strict=True))
        ]
        over = replace(over_sources(pipeline, tuple(sources), pipeline.state or ""), measure=None, generation=0)
        return cls(over, feeds, common_kinds(feeds, over), lane_files(files))

    def facts(self, buckets: int = 1) -> dict[str, Any]:
        """What a state of this definition would note."""
        lanes = {feed.source.name: list(feed.known_lanes()) for feed in self.feeds}
        facts = describe_definition(self.pipeline, self.kinds, lanes, buckets)
        if self.pipeline.join is not None:
            facts["sides"] = {s.name: list(s.columns) for s in join_plan(self.pipeline.join, self.feeds).sides}
        return facts

    @property
    def users(self) -> list[str]:
        """The user's own columns."""
        return [name for name in self.kinds if name not in _placed_kinds()]

    def count(self) -> int:
        """How many rows it holds, by the footers of its files."""
        held = 0
        for file in (file for files in self.files.values() for file in files):
            with file.open() as opened:
                held += opened.metadata.num_rows
        return held

    def rows(self, lane: LaneId) -> Iterator[pl.DataFrame]:
        """A lane's rows in order, whole."""
        return (rows for _, rows in self.batches(lane))

    def batches(self, lane: LaneId, columns: Collection[str] | None = None) -> Iterator[tuple[int, pl.DataFrame]]:
        """A lane's rows in order with the batch that they came in, their places, times and candidates.

        Of the user's columns they have all, or these and what the clock reads.
        """
        feed = self.feeds[lane[0]]
        reading = replace(feed.reading, keep=tuple(self.kinds))
        wanted: list[str] | None = None
        if columns is not None:
            read = {*columns, *clock_columns(feed.source, reading.kinds), *_placed_kinds()}
            reading = replace(reading, kinds={name: kind for name, kind in reading.kinds.items() if name in read})
            wanted = [name for name in reading.kinds if name not in _placed_kinds()]
        for batch, rows in lane_rows(self.files[lane], wanted):
            placed = (
                rows.rename(PLACED)
                .drop("@_source")
                .with_columns(pl.lit(None, dtype=pl.Int64).alias(ARRIVAL), pl.col("archived_offset").alias(OFFSET))
            )
            yield batch, reading.prepare(placed)


def _placed_kinds() -> dict[str, pl.DataType]:
    """Our columns under the names that a replay gives them."""
    when = pl.Datetime("us", "UTC")
    return {
        "archived_arrival": when, "archived_lane": pl.String(), "archived_offset": pl.Int64(), "archived_event_time": when,
        DEAD: pl.String(), RAW: pl.Binary(),
    }  # fmt: skip


__all__ = ["ArchivedLanes"]
