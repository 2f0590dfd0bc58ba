"""The event-time plane of a run: each row where it happened and when it came, and the watermark that ran below them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
from matplotlib import dates
from matplotlib.figure import Figure

VERDICTS = {"on time": ("#0b6e99", 4), "late, admitted": ("#e0931b", 10), "refused": ("#b3262e", 14)}
"""How each is drawn: its colour and the size of its dots."""


def archived(archive: str = "archive") -> pl.DataFrame:
    """All rows that a run kept, in the order in which they were judged."""
    rows = pl.read_parquet(f"{archive}/**/*.parquet", hive_partitioning=False)
    return rows.filter(pl.col("_event_time").is_not_null()).sort("_arrival", "_source", "_lane", "_offset")


def with_watermark(rows: pl.DataFrame, bounds: Mapping[str, timedelta]) -> pl.DataFrame:
    """W as it stood before each row: the least over the lanes of what each had seen, once all were heard."""
    lanes = rows.select("_source", "_lane").unique(maintain_order=True).rows()
    marks = [
        pl.when((pl.col("_source") == source) & (pl.col("_lane") == lane))
        .then(pl.col("_event_time") - bounds[source])
        .cum_max()
        .forward_fill()
        for source, lane in lanes
    ]
    least = pl.when(pl.all_horizontal(mark.is_not_null() for mark in marks)).then(pl.min_horizontal(marks))
    return rows.with_columns(least.cum_max().shift(1).alias("w"))


def with_verdicts(rows: pl.DataFrame, size: timedelta, allowed: timedelta) -> pl.DataFrame:
    """What W means for each row in windows of a size, under an allowed lateness."""
    end = pl.col("_event_time").dt.truncate(size) + size
    on_time, admitted, refused = (pl.lit(name) for name in VERDICTS)
    late = pl.when(pl.col("w") < end + allowed).then(admitted).otherwise(refused)
    verdict = pl.when(pl.col("w").is_null() | (pl.col("w") < end)).then(on_time).otherwise(late)
    return rows.with_columns(verdict.alias("verdict"))


def draw(
    rows: pl.DataFrame,
    bounds: Mapping[str, timedelta],
    size: timedelta,
    allowed: timedelta,
    title: str,
    span: tuple[datetime, datetime] | None = None,
    path: str = "plane.png",
) -> None:
    """The picture, of those rows whose arrival lies in the span."""
    rows = with_verdicts(with_watermark(rows, bounds), size, allowed)
    if span is not None:
        rows = rows.filter(pl.col("_arrival").is_between(*span))
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for name, (colour, size_of_dot) in VERDICTS.items():
        some = rows.filter(pl.col("verdict") == name)
        label = f"{name} ({len(some):,})"
        axes.scatter(some["_arrival"], some["_event_time"], s=size_of_dot, color=colour, linewidths=0, alpha=0.7, label=label)
    axes.step(rows["_arrival"], rows["w"], where="post", color="#333", linewidth=1.2, label="W, the watermark")
    axes.set_title(title)
    axes.set_xlabel("when it came")
    axes.set_ylabel("when it happened")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(dates.DateFormatter("%H:%M"))
    axes.grid(color="#eee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, markerscale=1.5)
    figure.savefig(Path(path), dpi=110)
