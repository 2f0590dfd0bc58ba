"""Rows as files that landed one after the other, as a job that collects them would write them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl


def moment(start: datetime, seconds: float) -> datetime:
    """An instant so many seconds after the start."""
    return start + timedelta(microseconds=round(seconds * 1e6))


def land(directory: Path, rows: pl.DataFrame, files: int, arrival: str = "arrived_at") -> None:
    """Rows in the order of arrival, in Parquet files of equal spans of time; each has landed when its span was over."""
    directory.mkdir(parents=True)
    rows = rows.sort(arrival, maintain_order=True)
    first, last = rows[arrival].min(), rows[arrival].max()
    assert isinstance(first, datetime) and isinstance(last, datetime)
    span = (last - first + timedelta(seconds=1)) / files
    for number in range(files):
        at = pl.col(arrival)
        path = directory / f"{number:02d}.parquet"
        rows.filter((at >= first + number * span) & (at < first + (number + 1) * span)).write_parquet(path)
        landed = (first + (number + 1) * span).astimezone(UTC).timestamp()
        os.utime(path, (landed, landed))
