"""Rows of landed files that go through Spark: transforms work on them, a column names their lanes, or only Spark can open them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.engine.between_tasks import ready_for_the_next
from eventide.engine.feeds.decode import Reading, past_transforms
from eventide.engine.feeds.file_chunks import frames_of, with_faults
from eventide.engine.feeds.landed import LandedFile
from eventide.errors import DefinitionError
from eventide.kernel.arrow_types import small_schema
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, RAW, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.engine.feeds.files import FileFeed

ORDER, ROW = "__order", "__row"
PLACES = {
    SOURCE: pl.Int64(),
    LANE: pl.String(),
    OFFSET: pl.Int64(),
    ARRIVAL: pl.Int64(),
    ORDER: pl.Int64(),
    ROW: pl.Int64(),
    RAW: pl.Binary(),
}
NO_LANE = "null"


def columns_after_transforms(spark: SparkSession, feed: FileFeed) -> StructType:
    """The Spark schema that the user's transforms make of the files' columns."""
    empty = spark.createDataFrame([], _spark_schema(feed.decoding))
    return past_transforms(empty, list(PLACES), feed.source).drop(*PLACES, DEAD).schema


def rows_of_files(spark: SparkSession, feed: FileFeed, files: list[LandedFile], beside: str | None = None) -> DataFrame:
    """The files' rows as a DataFrame, each lane in one partition and in order.

    Where a column names the lanes, a file that cannot be read stands in the lane `beside`: a lane made of a dead letter alone would
    say no time, and hold W for ever.
    """
    if feed.source.lane_column is not None:
        if beside is None and any(file.fault is not None for file in files):
            beside = _first_lane(spark, feed, [file for file in files if file.fault is None])
        files = [replace(file, lane=beside or NO_LANE) for file in files]
    read = _worker_rows(spark, feed, files) if feed.openable else _spark_rows(spark, feed, files)
    changed = past_transforms(read, list(PLACES), feed.source)
    return changed.repartition(LANE).sortWithinPartitions(LANE, ORDER, ROW).drop(ORDER, ROW)


def faults_of_files(spark: SparkSession, feed: FileFeed, files: list[LandedFile]) -> list[LandedFile]:
    """The files, of which those that cannot be read say why."""
    if not feed.openable:
        return [replace(file, fault=file.fault or _spark_fault(spark, feed, file)) for file in files]
    # Here, not on workers: those of the job that has just failed are being ended, and a task that gets one of them fails as well.
    return with_faults(files, feed.source.format, feed.decoding)


def _first_lane(spark: SparkSession, feed: FileFeed, files: list[LandedFile]) -> str | None:
    from pyspark.sql import functions as F

    if not files:
        return None
    readable = rows_of_files(spark, feed, files).where(F.col(DEAD).isNull())
    [row] = readable.agg(F.min(LANE)).collect()
    found: str | None = row[0]
    return found


def _spark_schema(reading: Reading) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_arrow_schema(reading))


def _arrow_schema(reading: Reading) -> pa.Schema:
    empty = pl.DataFrame(schema={**PLACES, **reading.kinds, DEAD: pl.String()})
    return small_schema(empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema)


def _worker_rows(spark: SparkSession, feed: FileFeed, files: list[LandedFile]) -> DataFrame:
    """Workers read the files, one task for each: any format, and what cannot be read becomes a dead letter as ever."""
    return _listed_rows(spark, feed, list(enumerate(files)))


def _listed_rows(spark: SparkSession, feed: FileFeed, files: list[tuple[int, LandedFile]]) -> DataFrame:
    facts = [(order, file.path, file.modified, file.lane, file.size, file.fault) for order, file in files]
    shared = spark.sparkContext.parallelize(facts, max(1, len(facts)))
    listed = spark.createDataFrame(shared, "nth long, path string, modified long, lane string, size long, fault string")
    task = FileRows(feed.decoding, feed.source.format, feed.source.lane_column)
    return listed.mapInArrow(task, _spark_schema(feed.decoding))


@dataclass(frozen=True)
class FileRows:
    """A function for mapInArrow: from files to their rows with their places."""

    reading: Reading
    format: str
    lane_column: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read every file that is named."""
        schema = _arrow_schema(self.reading)
        for batch in batches:
            for facts in batch.to_pylist():
                nth, row = facts.pop("nth"), 0
                file = LandedFile(**facts)
                for frame in frames_of(file, self.format, self.reading):
                    placed = self._placed(self._decoded(frame), file, nth, row).select(schema.names)
                    row += len(frame)
                    yield from placed.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema).to_batches()
        ready_for_the_next()

    def _decoded(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.reading.decoder is not None and DEAD not in frame.columns:
            return pl.concat([frame, self.reading.decode(frame[RAW])], how="horizontal")
        missing = {RAW: pl.Binary(), DEAD: pl.String()}
        return frame.with_columns([pl.lit(None, dtype=kind).alias(n) for n, kind in missing.items() if n not in frame.columns])

    def _placed(self, frame: pl.DataFrame, file: LandedFile, nth: int, row: int) -> pl.DataFrame:
        return frame.with_columns(
            pl.lit(self.reading.source, dtype=pl.Int64).alias(SOURCE),
            self._lane(file.lane).alias(LANE),
            pl.lit(-1, dtype=pl.Int64).alias(OFFSET),
            pl.lit(file.modified, dtype=pl.Int64).alias(ARRIVAL),
            pl.lit(nth, dtype=pl.Int64).alias(ORDER),
            pl.int_range(row, row + pl.len(), dtype=pl.Int64).alias(ROW),
        )

    def _lane(self, otherwise: str) -> pl.Expr:
        """A row that cannot be read has no column to name its lane: it stands beside its neighbour, so that no lane is made of it."""
        if self.lane_column is None:
            return pl.lit(otherwise)
        named = pl.col(self.lane_column).cast(pl.String).fill_null(NO_LANE)
        readable = pl.when(pl.col(DEAD).is_null()).then(named)
        return readable.forward_fill().backward_fill().fill_null(otherwise)


def _spark_rows(spark: SparkSession, feed: FileFeed, files: list[LandedFile]) -> DataFrame:
    """Spark reads the files, but those that it cannot read: each of them is one row."""
    bad = [(nth, file) for nth, file in enumerate(files) if file.fault is not None]
    good = [(nth, file) for nth, file in enumerate(files) if file.fault is None]
    parts = [_parquet_rows(spark, feed, good)] * bool(good) + [_listed_rows(spark, feed, bad)] * bool(bad)
    return reduce(lambda one, other: one.unionByName(other), parts)


def _spark_fault(spark: SparkSession, feed: FileFeed, file: LandedFile) -> str | None:
    """Why Spark cannot read a file whose bytes it can read."""
    try:
        _parquet_rows(spark, feed, [(0, file)]).write.format("noop").mode("overwrite").save()
    except Exception as error:
        plain = spark.read.format("binaryFile").option("__globPaths__", "false").load(file.path)
        plain.select("content").write.format("noop").mode("overwrite").save()
        said = str(error).strip().splitlines()
        return next((line for line in reversed(said) if line.startswith("Caused by: ")), said[0])
    return None


def _parquet_rows(spark: SparkSession, feed: FileFeed, numbered: list[tuple[int, LandedFile]]) -> DataFrame:
    """Parquet only, whose rows Spark can number."""
    from pyspark.sql import functions as F

    source, files = feed.source, [file for _, file in numbered]
    if source.format != "parquet":
        raise DefinitionError(
            f"source {source.name!r}: {source.format} files are read by the workers, which must be able to open {source.path!r}; only "
            "Parquet can be read by Spark instead. Land Parquet, or read the files with Spark yourself and pass the DataFrame to stream(…)."
        )
    wanted = _spark_schema(feed.decoding)
    users = type(wanted)([field for field in wanted if field.name in feed.decoding.kinds])
    # A path is a path: what would be a pattern in it is not looked for.
    frame = spark.read.schema(users).option("__globPaths__", "false").parquet(*[f.path for f in files])
    # Files of different lanes may have the same name: the whole path tells them apart. Spark gives it as an encoded URI.
    path = F.expr("regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^file:/+', '/')")
    lane = (
        F.coalesce(F.col(source.lane_column).cast("string"), F.lit(NO_LANE))
        if source.lane_column
        else _lookup({f.path: f.lane for f in files}, path)
    )
    places = {
        SOURCE: F.lit(feed.index).cast("long"),
        LANE: lane,
        OFFSET: F.lit(-1).cast("long"),
        ARRIVAL: _lookup({f.path: f.modified for f in files}, path),
        ORDER: _lookup({f.path: nth for nth, f in numbered}, path),
        ROW: F.col("_metadata.row_index"),
        RAW: F.lit(None).cast("binary"),
        DEAD: F.lit(None).cast("string"),
    }
    return frame.select("*", *[column.alias(name) for name, column in places.items()])


def _lookup(values: dict[str, Any], key: Column) -> Column:
    from pyspark.sql import functions as F

    return F.create_map(*[F.lit(part) for pair in values.items() for part in pair])[key]
