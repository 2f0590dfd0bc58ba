"""A user's DataFrame opened for a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.feed import Feed, Reach, arrow_kinds, reading_of
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.spark_notes import Noted, TakenFile
from eventide.errors import OrderWarning
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, RAW, SOURCE
from eventide.redaction import warn_of
from eventide.sources.frame import FrameSource
from eventide.state.ledger import Ledger


@dataclass
class FrameFeed:
    """A user's DataFrame: Eventide cannot see its end, so its rows are judged by batch."""

    index: int
    source: FrameSource
    reading: Reading

    @classmethod
    def open(cls, spark: Any, index: int, source: FrameSource) -> FrameFeed:
        """Take the columns from the DataFrame after its transforms; a replay's verdicts on dead letters are no columns of the user's."""
        kinds = arrow_kinds(source.opened(spark).schema)
        users = {name: kind for name, kind in kinds.items() if name not in (DEAD, RAW)}
        return cls(index, source, reading_of(index, source, users, None))

    def known_lanes(self) -> tuple[str, ...]:
        """The whole source, unless a column names the lanes."""
        return ("0",) if self.source.lane is None else self.source.lanes

    def frame(self, spark: Any) -> Any:
        """The user's rows with their place."""
        return placed(self.source.opened(spark), self.index, self.source.lane, self.source.offset, self.source.arrival)

    def reach(self, ledger: Ledger, noted: Noted, read: list[LandedFile], clock: int) -> Reach:
        """Nobody can tell."""
        return Reach(frozenset(), None)

    def lost(self, taken: list[TakenFile]) -> tuple[str, ...]:
        """Nobody can tell; what a DataFrame gives is taken for all there was."""
        return ()

    def in_sight(self) -> None:
        """Nobody can tell."""

    def has_read(self, seen: None, noted: Noted) -> bool:
        """Taken for read when Spark's query has ended: nobody can tell."""
        return True

    def check_same(self, memory: dict[str, Any]) -> None:
        """It remembers nothing: Spark checks its own sources."""


def placed(frame: Any, index: int, lane: str | None, offset: str | None, arrival: str | None) -> Any:
    """A DataFrame with the columns that say where each row stands; -1 stands for "as it comes"."""
    from pyspark.sql import functions as F

    return frame.select(
        F.lit(index).cast("long").alias(SOURCE),
        (F.lit("0") if lane is None else F.col(lane).cast("string")).alias(LANE),
        (F.lit(-1) if offset is None else F.col(offset)).cast("long").alias(OFFSET),
        F.lit(None).cast("long").alias(ARRIVAL),
        *frame.columns,
    )


def warn_of_batches(feeds: list[Feed]) -> None:
    """Say which sources are judged by batch: a promise that cannot be kept for them must not be taken for kept."""
    for feed in feeds:
        if isinstance(feed, FrameFeed):
            warn_of(
                f"source {feed.source.name!r} is a DataFrame: nobody can tell whether a batch took all that was there, so each of its lanes "
                "counts as read up to the end of the batch, and which rows are late may depend on how Spark cuts the stream. kafka(…) and "
                "files(…) do not have this limit.",
                OrderWarning,
            )
