"""What a run needs of every source once it is opened, and what the kinds of sources share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from eventide.definition.source import Source
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.event_times import can_be_time
from eventide.engine.feeds.file_chunks import LaneFiles
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_times import Times
from eventide.engine.spark_compat import arrow_schema
from eventide.engine.spark_notes import Noted, TakenFile
from eventide.errors import DefinitionError
from eventide.kernel.columns import LANE, SOURCE
from eventide.model.event import LaneId
from eventide.state.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PATH, MODIFIED, SIZE = "__path", "__modified", "__size"
Sight = Any
"""What a source has in sight: each kind notes it in a form of its own, and is given back only what it noted itself."""
EVERY_LANE = "*"
"""Stands for all lanes of a source, where nobody can tell which of them have lost rows."""


@dataclass(frozen=True)
class Reach:
    """How far a source was read in a batch: the lanes it knows, and those that are at their end (None: it cannot tell)."""

    lanes: frozenset[LaneId]
    at_end: frozenset[LaneId] | None
    memory: dict[str, Any] = field(default_factory=dict)
    """What the source wants to know at the next batch, and whenever this one is run again."""
    read_to: dict[LaneId, int] = field(default_factory=dict)
    """Lanes that are not at their end: the time up to which all that could be seen of them has been read."""
    held: dict[str, str] = field(default_factory=dict)
    """Lanes that are not at their end although nothing more can be read of them, and why."""
    unreadable: list[LandedFile] = field(default_factory=list)
    """Files that Spark does not take, in this batch for the first time: each is a dead letter."""


@dataclass
class Feed(ABC):
    """A source opened for a run. What a caller must know of its kind it says itself, so that nobody asks which kind it is."""

    index: int
    """Its place among the sources."""
    source: Source
    """As it was declared."""
    reading: Reading
    """How its rows are read."""

    is_one: ClassVar[bool] = True
    """Whether Spark has it as one source, and notes how far it goes; a user's DataFrame may be several, or none."""
    sees_its_end: ClassVar[bool] = True
    """Whether it can tell that a batch took all that was there; where not, its rows are judged by batch."""
    gives_paths: ClassVar[bool] = False
    """Whether a batch has the paths of its files instead of its rows: then `landed` says which files those are."""

    @property
    def in_order(self) -> bool:
        """Whether its rows come through Spark lane by lane and in order; others are brought together and sorted."""
        return False

    @property
    def is_decoded(self) -> bool:
        """Whether its rows come with the user's columns, not as paths or as bytes that the scan decodes."""
        return True

    @property
    def in_worker(self) -> bool:
        """Whether rows go from a file to the kernel in one worker, or through Spark in between."""
        return False

    @property
    def sees_files(self) -> bool:
        """Whether it can look at its files by itself; where not, Spark shows them, at the cost of a job in each batch."""
        return False

    @property
    def takes_columns(self) -> bool:
        """Whether columns that nobody needs can be left where they are; a record that is decoded is decoded whole."""
        return False

    @abstractmethod
    def known_lanes(self) -> tuple[str, ...]:
        """The lanes that W waits for from the start."""

    @abstractmethod
    def frame(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame: rows with their place, or where the rows are."""

    @abstractmethod
    def history(self, spark: SparkSession) -> DataFrame:
        """All that it holds now, lane by lane and in order."""

    @abstractmethod
    def reach(self, ledger: Ledger, noted: Noted, read: list[LandedFile], clock: int) -> Reach:
        """Looked at once for each batch, after its clock was read; a batch that is run again goes by what was seen then."""

    @abstractmethod
    def lost(self, taken: list[TakenFile]) -> Iterable[str]:
        """Lanes whose first rows can no longer be read; `taken` are the files that an earlier generation had read."""

    @abstractmethod
    def in_sight(self) -> Sight:
        """What there is to be read now, noted before a run whose input ends with it."""

    @abstractmethod
    def has_read(self, seen: Sight, noted: Noted) -> bool:
        """Whether all that was in sight then has been read in the batches up to one; what is gone since cannot be."""

    def check_same(self, memory: dict[str, Any]) -> None:
        """Stop where what it remembers of an earlier batch is no longer what it would read; by default it remembers nothing."""
        return

    def listed(self) -> list[LandedFile]:
        """The files that are there by now, oldest first."""
        return []

    def landed(self, shown: Iterable[tuple[str, int, int]], noted: Noted) -> list[LandedFile]:
        """The files of a batch, by what Spark shows of them (path, time, size) and by what it noted."""
        return []

    def retimed(self, begun: list[LandedFile], now: list[LandedFile]) -> dict[str, int]:
        """Of files that a batch was begun with, those that have another time since, and which: they were touched, or replaced."""
        return {}

    def lanes_in_worker(self, files: list[LandedFile], reading: Reading) -> dict[LaneId, LaneFiles]:
        """The files that workers read by themselves, lane by lane."""
        return {}

    def rows(self, spark: SparkSession, files: list[LandedFile], beside: str | None) -> DataFrame | None:
        """The rows of files that go through Spark, lane by lane and in order; one that cannot be read may stand in the lane `beside`."""
        return None

    def with_faults(self, spark: SparkSession, files: list[LandedFile]) -> list[LandedFile]:
        """The files that go through Spark, of which those that cannot be read say why."""
        return files

    def refuse_bad(self, files: list[LandedFile]) -> None:
        """Stop at a file that cannot be read, where the source says so."""
        return


def lane_by_lane(rows: DataFrame, *order: str) -> DataFrame:
    """Rows with each lane in one partition, in order."""
    return rows.repartition(SOURCE, LANE).sortWithinPartitions(SOURCE, LANE, *order)


def arrow_kinds(spark_schema: StructType) -> dict[str, pl.DataType]:
    """Spark's column types as the kernel's."""
    empty = pl.from_arrow(arrow_schema(spark_schema).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return {name: pl.Datetime("us", "UTC") if isinstance(kind, pl.Datetime) else kind for name, kind in empty.schema.items()}


def reading_of(index: int, source: Source, kinds: dict[str, pl.DataType], decoder: str | None) -> Reading:
    """How a source's rows are read, once it is known that the columns it names are there."""
    reading = Reading(
        index,
        source.name,
        kinds,
        source.event_time,
        source.watermark,
        source.arrival,
        source.time_unit,
        decoder,
        maps=source.maps,
        times=times_of(source),
    )
    given = reading.given
    for column in (None if source.watermark.by_arrival else source.event_time, source.arrival):
        if column is not None and column not in given:
            raise DefinitionError(f"source {source.name!r} has no column {column!r}. Its columns are {', '.join(given)}.")
        if column is not None and not can_be_time(given[column]):
            raise DefinitionError(
                f"source {source.name!r}: the column {column!r} is {given[column]}, which says no time. It must be a timestamp, a date, a number "
                "(with time_unit=) or a text."
            )
    for column in given:
        if column.startswith("__"):
            raise DefinitionError(
                f"source {source.name!r}: the column {column!r} begins with two underscores, which Eventide keeps for itself. Leave it out of "
                "the schema, or rename it before it comes here."
            )
    return reading


def times_of(source: Source) -> Times:
    """How a source's texts say times."""
    return Times(source.time_zone, source.time_format)
