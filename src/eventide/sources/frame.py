"""Any streaming DataFrame of the user's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eventide.model.time import Duration
from eventide.model.watermark import Strategy
from eventide.sources.base import Source, ahead, idle


@dataclass(frozen=True, kw_only=True)
class FrameSource(Source):
    """A DataFrame, with the columns that say its lanes and their order."""

    frame: Any = field(repr=False)
    lane: str | None
    offset: str | None
    lanes: tuple[str, ...] = ()
    """Lanes that are known before a row is read, where a column names the lanes."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The DataFrame's columns."""
        return tuple(self.frame.columns)


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
    time_unit: str = "us",
) -> FrameSource:
    """A streaming (or, for a backfill, static) DataFrame.

    Where `lane` and `offset` name columns, rows are taken in that order within each lane. Where they do not, nobody can promise an
    order: the rows of a batch are then judged together, and the run says so.
    """
    return FrameSource(
        name=name, frame=frame, event_time=event_time, watermark=watermark, lane=lane, offset=offset, arrival=arrival,
        idle_after=idle(name, idle_after), max_ahead=ahead(name, max_ahead), time_unit=time_unit,
    )  # fmt: skip
