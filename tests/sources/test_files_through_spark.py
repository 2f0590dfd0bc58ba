"""Files whose rows go through Spark, by a transform or a lane column: the same answers, and every row accounted for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev

DDL = "at timestamp, region string, paise bigint"
START = 1_700_000_000_000_000
ROWS = 600


def events() -> pl.DataFrame:
    """One event a second; every 50th is a minute older than its place."""
    nth = pl.int_range(ROWS, eager=True)
    times = START + nth * 1_000_000 - (nth % 50 == 49).cast(pl.Int64) * 60_000_000
    regions = pl.Series(["north", "south", "east"]).gather(nth % 3)
    return pl.DataFrame({"at": times.cast(pl.Datetime("us", "UTC")), "region": regions, "paise": nth + 1})


def write(frame: pl.DataFrame, path: Path, format: str) -> None:
    as_text = frame.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    if format == "parquet":
        frame.write_parquet(path)
    elif format == "avro":
        frame.with_columns(pl.col("at").dt.replace_time_zone(None)).write_avro(path)
    elif format == "csv":
        as_text.write_csv(path)
    else:
        as_text.write_ndjson(path)


def land(root: Path, format: str, spoil: str | None = None) -> str:
    """Three files in order; with `spoil`, a line that nobody can read at the end of the first."""
    root.mkdir()
    for nth, part in enumerate(events().iter_slices(ROWS // 3)):
        path = root / f"{nth}.{format}"
        write(part, path, format)
        if spoil is not None and nth == 0:
            with open(path, "a") as file:
                file.write(spoil)
        os.utime(path, (1_700_000_000 + nth,) * 2)
    return str(root)


def totals(spark: Any, tmp_path: Path, source: Any, name: str) -> tuple[Any, list[tuple[Any, ...]]]:
    sums = source.window(ev.tumbling("1 minute"), by="region").agg(total=ev.sum("paise"), n=ev.count())
    pipeline = ev.Pipeline(name, sums.to("out", late=ev.divert()), state=str(tmp_path / name))
    handle = pipeline.run(spark)
    late = pipeline.late(spark).select("_lane", "_offset", "paise").collect()
    panes = pipeline.panes(spark).select("window_start", "region", "total", "n").collect()
    return handle, [*sorted(map(tuple, panes), key=str), *sorted(map(tuple, late), key=str)]


def source(path: str, format: str, **more: Any) -> Any:
    more = {"lane": "source", "files_per_batch": 1, **more}
    return ev.files(
        "events", path, format=format, schema=DDL, event_time="at", watermark=ev.bounded("10 seconds"), max_ahead=None, **more
    )


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("parquet")
    return totals(spark, root, source(land(root / "in", "parquet"), "parquet"), "parquet")


def test_late_rows_are_there_to_be_found(expected: Any) -> None:
    handle, _ = expected
    assert handle.rows["in"] == ROWS and handle.outputs["out"]["rows_refused"] > 5


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "avro"])
def test_a_transform_works_on_every_format(spark: Any, tmp_path: Path, format: str, expected: Any) -> None:
    """The transform's own column is aggregated; what it filters is gone, what it keeps is judged as ever."""
    from pyspark.sql import functions as F

    doubled = source(land(tmp_path / "in", format), format).transform(
        lambda frame: frame.withColumn("twice", F.col("paise") * 2)
    )
    sums = doubled.window(ev.tumbling("1 minute"), by="region").agg(total=ev.sum("twice"), n=ev.count())
    pipeline = ev.Pipeline("doubled", sums.to("out", late=ev.divert()), state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["in"] == ROWS
    found = sorted(map(tuple, pipeline.panes(spark).select("window_start", "region", "total", "n").collect()), key=str)
    assert [(start, region, total // 2, n) for start, region, total, n in found] == expected[1][: len(found)]


@pytest.mark.parametrize(("format", "spoil"), [("json", "{not json\n"), ("csv", "yesterday,north,much\n")])
@pytest.mark.parametrize("through", ["worker", "transform", "lanes"])
def test_a_line_that_cannot_be_read_is_a_dead_letter_on_every_way(
    spark: Any, tmp_path: Path, format: str, spoil: str, through: str
) -> None:
    path = land(tmp_path / "in", format, spoil)
    read = source(path, format, lane="column:region" if through == "lanes" else "source")
    if through == "transform":
        read = read.transform(lambda frame: frame.where("paise > 0"))
    handle, _ = totals(spark, tmp_path, read, "spoilt")
    assert handle.rows["in"] == ROWS + 1 and handle.rows["dead"] == 1
    assert handle.watermark is not None


@pytest.mark.parametrize(("format", "read"), [("parquet", "auto"), ("parquet", "spark"), ("json", "auto")])
def test_a_column_names_the_lanes(spark: Any, tmp_path: Path, format: str, read: str) -> None:
    """Each region is a lane of its own: offsets count within it, and W is the least of the three."""
    path = land(tmp_path / "in", format)
    _, answers = totals(spark, tmp_path, source(path, format, lane="column:region", read=read), "lanes")
    late = [row for row in answers if len(row) == 3]
    frame = events().with_columns(offset=pl.int_range(pl.len()).over("region"))
    wanted = {(r["region"], r["offset"], r["paise"]) for r in frame.to_dicts()}
    assert late and set(late) <= wanted


def test_a_lane_column_that_is_not_there_is_said_at_the_start(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ev.DefinitionError, match=r"lane='column:country'.*at, region, paise"):
        totals(spark, tmp_path, source(land(tmp_path / "in", "parquet"), "parquet", lane="column:country"), "wrong")


def test_a_transform_that_drops_the_places_is_refused_before_the_first_row(spark: Any, tmp_path: Path) -> None:
    narrow = source(land(tmp_path / "in", "csv"), "csv").transform(lambda frame: frame.select("at", "region", "paise"))
    with pytest.raises(ev.DefinitionError, match="a transform drops the columns __source"):
        totals(spark, tmp_path, narrow, "narrow")
