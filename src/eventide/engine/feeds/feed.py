"""What a run needs of every source once it is opened, and what the kinds of sources share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from eventide.definition.source import Source
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.event_times import can_be_time
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_times import Times
from eventide.engine.spark_compat import arrow_schema
from eventide.engine.spark_notes import Noted, TakenFile
from eventide.errors import DefinitionError
from eventide.model.event import LaneId
from eventide.state.ledger import Ledger

PATH, MODIFIED, SIZE = "__path", "__modified", "__size"
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


class Feed(Protocol):
    """What the run needs of every source."""

    @property
    def index(self) -> int:
        """Its place among the sources."""

    @property
    def source(self) -> Source:
        """As it was declared."""

    @property
    def reading(self) -> Reading:
        """How its rows are read."""

    def known_lanes(self) -> tuple[str, ...]:
        """The lanes that W waits for from the start."""

    def frame(self, spark: Any) -> Any:
        """A streaming DataFrame: rows with their place, or (for files) where the rows are."""

    def reach(self, ledger: Ledger, noted: Noted, read: list[LandedFile], clock: int) -> Reach:
        """Looked at once for each batch, after its clock was read; a batch that is run again goes by what was seen then."""

    def lost(self, taken: list[TakenFile]) -> Iterable[str]:
        """Lanes whose first rows can no longer be read; `taken` are the files that an earlier generation had read."""

    def in_sight(self) -> Any:
        """What there is to be read now, noted before a run whose input ends with it."""

    def has_read(self, seen: Any, noted: Noted) -> bool:
        """Whether all that was in sight then has been read in the batches up to one; what is gone since cannot be."""

    def check_same(self, memory: dict[str, Any]) -> None:
        """Stop where what it remembers of an earlier batch is no longer what it would read."""


def arrow_kinds(spark_schema: Any) -> dict[str, pl.DataType]:
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
    for column in (source.event_time, source.arrival):
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
