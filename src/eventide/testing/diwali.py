"""A night of payments to try things on: four cities as lanes, and a tower in Lucknow that holds its minute back."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

MINUTE = 60_000_000
CITIES = ("mumbai", "delhi", "chennai", "lucknow")
SCHEMA = "event_time timestamp, arrived_at timestamp, bank string, paise bigint"
HELD_BACK = 1_824


def night_before(now: datetime) -> datetime:
    """The start of an hour that has just ended."""
    return (now - timedelta(minutes=62)).astimezone(UTC).replace(second=0, microsecond=0)


def write_landing(
    root: Path, begin: datetime, *, rows: int = 600_000, minutes: int = 60, files: int = 15, seed: int = 11
) -> int:
    """Write the night as Parquet files, one directory for each city; gives how many payments the tower held back.

    Most payments arrive within a second, some half a minute late; those of minute 30 (at most 1,824) wait in Lucknow for 16 minutes.
    """
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    start = int(begin.timestamp()) * 1_000_000
    held = 0
    for index, city in enumerate(CITIES):
        count = rows // len(CITIES)
        happened = np.sort(start + rng.integers(0, minutes * MINUTE, count))
        slow = rng.random(count) < 0.015
        delay = np.where(slow, rng.integers(20, 60, count) * 1_000_000, rng.integers(0, 1_000_000, count))
        if city == "lucknow":
            tower = np.flatnonzero((happened >= start + 30 * MINUTE) & (happened < start + 31 * MINUTE))[:HELD_BACK]
            held = len(tower)
            delay[tower] = start + 46 * MINUTE + 22_000_000 - happened[tower]
        frame = pl.DataFrame(
            {
                "event_time": pl.Series(happened).cast(pl.Datetime("us", "UTC")),
                "arrived_at": pl.Series(happened + delay).cast(pl.Datetime("us", "UTC")),
                "bank": pl.Series(rng.integers(0, 20, count)).replace_strict({i: f"bank-{i:02}" for i in range(20)}),
                "paise": rng.integers(100, 5_000_000, count),
            }
        ).sort("arrived_at", maintain_order=True)
        _in_files(root / city, frame, files, index)
    return held


def _in_files(directory: Path, frame: object, files: int, index: int) -> None:
    import polars as pl

    assert isinstance(frame, pl.DataFrame)
    directory.mkdir(parents=True, exist_ok=True)
    size = -(-len(frame) // files)
    for number in range(files):
        part = frame[number * size : (number + 1) * size]
        path = directory / f"{number:04}.parquet"
        part.write_parquet(path)
        landed = part["arrived_at"].max()
        assert isinstance(landed, datetime)
        os.utime(path, (landed.timestamp() + index, landed.timestamp() + index))
