"""Any streaming DataFrame of the user's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eventide.definition.source import Source, ahead, idle, skew
from eventide.model.time import Duration
from eventide.model.watermark import Strategy
from eventide.redaction import without_secrets


@without_secrets
@dataclass(frozen=True, kw_only=True)
class FrameSource(Source):
    """A DataFrame (or a function that opens one on a session), with the columns that say its lanes and their order."""

    frame: Any = field(repr=False)
    lane: str | None
    offset: str | None
    connectors: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    """Lanes that are known before a row is read, where a column names the lanes."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The DataFrame's columns, where it is there already."""
        return None if callable(self.frame) else tuple(self.frame.columns)

    @property
    def needs(self) -> tuple[str, ...]:
        return self.connectors

    def opened(self, spark: Any) -> Any:
        """The DataFrame after the user's transforms."""
        frame = self.frame(spark) if callable(self.frame) else self.frame
        for change in self.transforms:
            frame = change(frame)
        return frame


def stream(
    name: str,
    frame: Any,
    *,
    event_time: str,
    watermark: Strategy,
    lane: str | None = None,
    offset: str | None = None,
    arrival: str | None = None,
    idle_after: Duration | None = None,
    max_ahead: Duration | None = "1 day",
    max_skew: Duration | None = "1 minute",
    time_unit: str = "us",
    time_zone: str = "UTC",
    time_format: str | None = None,
) -> FrameSource:
    """A streaming (or, for a backfill, static) DataFrame.

    Where `lane` and `offset` name columns, rows are taken in that order within each lane; where they do not, as they come. How far the
    stream goes nobody can tell, so each lane counts as read up to the end of the batch; the run says so (`OrderWarning`).
    """
    return FrameSource(
        name=name, frame=frame, event_time=event_time, watermark=watermark, lane=lane, offset=offset, arrival=arrival,
        idle_after=idle(name, idle_after), max_ahead=ahead(name, max_ahead), max_skew=skew(name, max_skew), time_unit=time_unit, time_zone=time_zone, time_format=time_format,
    )  # fmt: skip
