"""A Delta table as a stream of what is appended to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.definition.source import ahead, idle, skew
from eventide.model.time import Duration
from eventide.model.watermark import Strategy
from eventide.redaction import without_secrets
from eventide.sources.frame import FrameSource
from eventide.storage.address import from_here


@without_secrets
@dataclass(frozen=True)
class DeltaRows:
    """Opens the table on the session of the run."""

    path: str
    files_per_batch: int | None

    def __call__(self, spark: Any) -> Any:
        """A streaming DataFrame of the rows appended."""
        reader = spark.readStream.format("delta")
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.files_per_batch))
        return reader.load(from_here(self.path))


def delta_table(
    name: str,
    path: str,
    *,
    event_time: str,
    watermark: Strategy,
    lane: str | None = None,
    offset: str | None = None,
    arrival: str | None = None,
    idle_after: Duration | None = None,
    files_per_batch: int | None = None,
    max_ahead: Duration | None = "1 day",
    max_skew: Duration | None = "1 minute",
    time_unit: str = "us",
    time_zone: str = "UTC",
    time_format: str | None = None,
) -> FrameSource:
    """Rows as they are appended to a Delta table.

    A table keeps no order among its rows: name the columns that do (`lane`, `offset`), or they are taken as they come.
    """
    return FrameSource(
        name=name, frame=DeltaRows(str(path), files_per_batch), event_time=event_time, watermark=watermark, lane=lane, offset=offset,
        arrival=arrival, idle_after=idle(name, idle_after), max_ahead=ahead(name, max_ahead), max_skew=skew(name, max_skew), time_unit=time_unit, time_zone=time_zone, time_format=time_format, connectors=("delta",),
    )  # fmt: skip
