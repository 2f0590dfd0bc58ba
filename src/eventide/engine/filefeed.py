"""A landing directory opened for a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from eventide.engine.decode import Reading
from eventide.engine.feed import MODIFIED, PATH, SIZE, Reach, arrow_kinds, parse_ddl, reading_of, times_of
from eventide.engine.filereading import LandedFile, lane_of, list_files
from eventide.engine.filerows import columns_after_transforms
from eventide.engine.ledger import Ledger
from eventide.engine.store import StoreError, file_system
from eventide.errors import DefinitionError
from eventide.kernel.columns import SOURCE
from eventide.sources.files import SUFFIXES, FileSource


@dataclass
class FileFeed:
    """A landing directory: Spark keeps track of the files, the workers (or Spark) read them."""

    index: int
    source: FileSource
    reading: Reading
    decoding: Reading
    """How a file's rows are read before the user's transforms see them."""
    openable: bool
    """Whether the worker opens the files, not Spark."""

    @classmethod
    def open(cls, spark: Any, index: int, source: FileSource) -> FileFeed:
        """Find out the columns."""
        kinds = _footer_kinds(source) if source.schema is None else arrow_kinds(parse_ddl(spark, source.schema))
        decoder = "json" if source.format == "json" else None
        decoding = Reading(
            index, source.name, kinds, "", source.watermark, None, source.time_unit, decoder, times=times_of(source)
        )
        feed = cls(index, source, decoding, decoding, _openable(source))
        if source.transforms:
            kinds = arrow_kinds(columns_after_transforms(spark, feed))
        feed.reading = reading_of(index, source, kinds, decoder if feed.in_worker else None)
        if source.lane_column is not None and source.lane_column not in feed.decoding.kinds:
            raise DefinitionError(
                f"source {source.name!r}: lane={source.lane!r}, but the files have no such column. Their columns are "
                f"{', '.join(feed.decoding.kinds)}."
            )
        return feed

    @property
    def in_worker(self) -> bool:
        """Whether rows go from the file to the kernel in one worker, or through Spark in between."""
        return self.openable and not self.source.transforms and self.source.lane_column is None

    def known_lanes(self) -> tuple[str, ...]:
        """The directories that are there, or the whole source."""
        if self.source.lane == "source":
            return ("0",)
        if self.source.lane == "directory":
            return tuple(sorted({f.lane for f in self.listed()}))
        return ()

    def listed(self) -> list[LandedFile]:
        """What has landed by now, oldest first."""
        return list_files(self.source.path, SUFFIXES[self.source.format], self.source.lane)

    def frame(self, spark: Any) -> Any:
        """The paths of new files; their content is never read by Spark."""
        from pyspark.sql import functions as F

        reader = (
            spark.readStream.format("binaryFile")
            .schema("path STRING, modificationTime TIMESTAMP, length LONG, content BINARY")
            .option("pathGlobFilter", SUFFIXES[self.source.format])
            .option("recursiveFileLookup", "true")
        )
        if self.source.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.source.files_per_batch))
        listed = reader.load(self.source.path)
        return listed.select(
            F.lit(self.index).cast("long").alias(SOURCE),
            F.col("path").alias(PATH),
            F.expr("unix_micros(modificationTime)").alias(MODIFIED),
            F.col("length").alias(SIZE),
        )

    def landed(self, path: str, modified: int, size: int) -> LandedFile:
        """A file that Spark found."""
        local = path.removeprefix("file://").removeprefix("file:") if path.startswith("file:") else path
        return LandedFile(local, modified, lane_of(local, self.source.path, self.source.lane), size)

    def reach(self, ledger: Ledger, offsets: list[dict[str, Any]], read: list[LandedFile], clock: int) -> Reach:
        """A lane is at its end when every file of it that is listed has been read."""
        remembered = ledger.sources.get(self.source.name, {}).get("last", {})
        past = {lane: (modified, set(names)) for lane, (modified, names) in remembered.items()}
        for file in read:
            modified, names = past.get(file.lane, (-1, set()))
            if file.modified >= modified:
                past[file.lane] = (file.modified, {_tail(file.path)} | (names if file.modified == modified else set()))
        ahead = {f.lane for f in self.listed() if not _is_read(f, past)}
        lanes = {*past, *ahead, *self.known_lanes()} if self.source.lane_column is None else set()
        at_end = frozenset((self.index, lane) for lane in lanes if lane not in ahead)
        memory = {"last": {lane: [modified, sorted(names)] for lane, (modified, names) in past.items()}}
        if self.source.lane_column is not None:
            return Reach(frozenset(), None if not ahead else frozenset(), memory)
        return Reach(frozenset((self.index, lane) for lane in lanes), at_end, memory)


def _is_read(file: LandedFile, past: dict[str, tuple[int, set[str]]]) -> bool:
    """Spark takes files by modification time; of those with the time of the last one read, only the named ones are read."""
    modified, names = past.get(file.lane, (-1, set()))
    return file.modified < modified or (file.modified == modified and _tail(file.path) in names)


def _openable(source: FileSource) -> bool:
    if source.read == "spark":
        return False
    try:
        file_system(source.path)
    except StoreError:
        if source.read == "worker":
            raise
        return False
    return True


def _tail(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _footer_kinds(source: FileSource) -> dict[str, pl.DataType]:
    import pyarrow.parquet as pq

    landed = list_files(source.path, SUFFIXES[source.format], source.lane)
    if not landed:
        raise DefinitionError(
            f'source {source.name!r}: {source.path} holds no Parquet file yet, so its columns are unknown. Give schema="…" as Spark DDL.'
        )
    files, path = file_system(landed[0].path)
    empty = pl.from_arrow(pq.read_schema(files.open_input_file(path)).empty_table())
    assert isinstance(empty, pl.DataFrame)
    # Pandas writes its index as a column that begins with two underscores; such names are kept for us and are not read.
    named = {name: kind for name, kind in empty.schema.items() if not name.startswith("__")}
    return {name: pl.Datetime("us", "UTC") if isinstance(kind, pl.Datetime) else kind for name, kind in named.items()}
