"""A source opened for a run: its columns, its lanes, what it adds to Spark's query, and how far it has been read."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from eventide.engine.decode import Reading, transformed
from eventide.engine.filereading import LandedFile, lane_of, list_files
from eventide.engine.filerows import columns_after_transforms
from eventide.engine.kafkaends import end_offsets
from eventide.engine.ledger import Ledger
from eventide.engine.store import StoreError, file_system
from eventide.engine.wire import Registry, avro_kinds
from eventide.errors import DefinitionError, OrderWarning
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, RAW, SOURCE
from eventide.model.event import LaneId
from eventide.sources.base import Source
from eventide.sources.files import SUFFIXES, FileSource
from eventide.sources.formats import Format
from eventide.sources.frame import FrameSource
from eventide.sources.kafka import TUNED, KafkaSource

PATH, MODIFIED = "__path", "__modified"


@dataclass(frozen=True)
class Reach:
    """How far a source was read in a batch: the lanes it knows, and those that are at their end (None: it cannot tell)."""

    lanes: frozenset[LaneId]
    at_end: frozenset[LaneId] | None
    memory: dict[str, Any] = field(default_factory=dict)


class Feed(Protocol):
    """What the run needs of every source."""

    @property
    def index(self) -> int:
        """Its place among the sources."""

    @property
    def source(self) -> Source:
        """As it was declared."""

    @property
    def reading(self) -> Reading:
        """How its rows are read."""

    def known_lanes(self) -> tuple[str, ...]:
        """The lanes that W waits for from the start."""

    def frame(self, spark: Any) -> Any:
        """A streaming DataFrame: rows with their place, or (for files) where the rows are."""

    def reach(self, ledger: Ledger, offsets: list[dict[str, Any]], read: list[LandedFile]) -> Reach:
        """Looked at after the batch's clock was read."""


def arrow_kinds(spark_schema: Any) -> dict[str, pl.DataType]:
    """Spark's column types as the kernel's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    empty = pl.from_arrow(to_arrow_schema(spark_schema).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return {name: pl.Datetime("us", "UTC") if isinstance(kind, pl.Datetime) else kind for name, kind in empty.schema.items()}


def parse_ddl(spark: Any, schema: str) -> Any:
    """A DDL text as a Spark schema."""
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(schema)
    except Exception as error:
        raise DefinitionError(f"the schema {schema!r} is not Spark DDL: {str(error).splitlines()[0]}") from error


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
        decoding = Reading(index, source.name, kinds, "", source.watermark, None, source.time_unit, decoder)
        feed = cls(index, source, decoding, decoding, _openable(source))
        if source.transforms:
            kinds = arrow_kinds(columns_after_transforms(spark, feed))
        feed.reading = _reading(index, source, kinds, decoder if feed.in_worker else None)
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
            return tuple(sorted({f.lane for f in self._listed()}))
        return ()

    def _listed(self) -> list[LandedFile]:
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
        )

    def landed(self, path: str, modified: int) -> LandedFile:
        """A file that Spark found."""
        local = path.removeprefix("file://").removeprefix("file:") if path.startswith("file:") else path
        return LandedFile(local, modified, lane_of(local, self.source.path, self.source.lane))

    def reach(self, ledger: Ledger, offsets: list[dict[str, Any]], read: list[LandedFile]) -> Reach:
        """A lane is at its end when every file of it that is listed has been read."""
        remembered = ledger.sources.get(self.source.name, {}).get("last", {})
        past = {lane: (modified, set(names)) for lane, (modified, names) in remembered.items()}
        for file in read:
            modified, names = past.get(file.lane, (-1, set()))
            if file.modified >= modified:
                past[file.lane] = (file.modified, {_tail(file.path)} | (names if file.modified == modified else set()))
        ahead = {f.lane for f in self._listed() if not _is_read(f, past)}
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
    return {name: pl.Datetime("us", "UTC") if isinstance(kind, pl.Datetime) else kind for name, kind in empty.schema.items()}


@dataclass
class KafkaFeed:
    """Topics: each partition is a lane."""

    index: int
    source: KafkaSource
    reading: Reading
    spark: Any = None
    decoding: Reading | None = None
    """How records are decoded before the user's transforms see them; without transforms the scan does it itself."""

    @classmethod
    def open(cls, spark: Any, index: int, source: KafkaSource) -> KafkaFeed:
        """Find out the columns."""
        form = source.value
        registry, kinds = _registry(source, form)
        if form.schema is not None:
            kinds = arrow_kinds(parse_ddl(spark, form.schema))
        if source.headers and "headers" in kinds:
            raise DefinitionError(
                f"source {source.name!r}: its records have a column 'headers' of their own, which headers=True would hide. "
                "Leave headers=True away, or read the records under another schema."
            )
        if source.beside:  # such columns come from Spark, as those of a transform do
            kinds = {name: kind for name, kind in kinds.items() if name not in source.beside}
            source = replace(source, transforms=(_as_it_is, *source.transforms))
        if not source.transforms:
            return cls(index, source, replace(_reading(index, source, kinds, form.kind), registry=registry), spark)
        decoding = Reading(index, source.name, kinds, "", source.watermark, None, source.time_unit, form.kind, registry)
        feed = cls(index, source, decoding, spark, decoding)
        changed = {n: k for n, k in arrow_kinds(feed.frame(spark).schema).items() if not n.startswith("__")}
        feed.reading = _reading(index, source, changed, None)
        return feed

    def known_lanes(self) -> tuple[str, ...]:
        """The partitions that the topics have now."""
        return tuple(sorted(_lane(topic, partition, self.source) for topic, partition in end_offsets(self.spark, self.source)))

    def frame(self, spark: Any) -> Any:
        """Records with their place."""
        from pyspark.sql import functions as F

        options = {**TUNED, **dict(self.source.options)}
        reader = spark.readStream.format("kafka").options(**options)
        reader = reader.option("kafka.bootstrap.servers", self.source.servers).option("subscribe", ",".join(self.source.topics))
        reader = reader.option("startingOffsets", self.source.starting).option("failOnDataLoss", "true")
        if self.source.rows_per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.source.rows_per_batch))
        if self.source.headers:
            reader = reader.option("includeHeaders", "true")
        lane = F.col("partition").cast("string") if len(self.source.topics) == 1 else F.concat_ws("-", "topic", "partition")
        records = reader.load().select(
            F.lit(self.index).cast("long").alias(SOURCE),
            lane.alias(LANE),
            F.col("offset").alias(OFFSET),
            F.expr("unix_micros(timestamp)").alias(ARRIVAL),
            F.col("value").alias(RAW),
            *self.source.beside,
        )
        return records if self.decoding is None else transformed(records, self.decoding, self.source)

    def reach(self, ledger: Ledger, offsets: list[dict[str, Any]], read: list[LandedFile]) -> Reach:
        """A partition is at its end when the batch goes up to what the broker says is the end."""
        ends = end_offsets(self.spark, self.source)
        taken = next((o for o in offsets if any(topic in o for topic in self.source.topics)), {})
        lanes, done = set(), set()
        for (topic, partition), end in ends.items():
            lane = (self.index, _lane(topic, partition, self.source))
            lanes.add(lane)
            if int(taken.get(topic, {}).get(str(partition), 0)) >= end:
                done.add(lane)
        return Reach(frozenset(lanes), frozenset(done))


def _registry(source: KafkaSource, form: Format) -> tuple[Registry | None, dict[str, pl.DataType]]:
    """The registry that a format names, and for Avro the columns of the schema to read by."""
    if form.registry is None:
        return None, {}
    from eventide.registry.client import RegistryClient

    reader, references = form.reader, dict[str, str]()
    if form.kind == "avro" and reader is None and form.subject is not None:
        with RegistryClient(form.registry, auth=form.auth, name=source.name) as client:
            latest = client.latest(form.subject)
            reader, references = latest.text, client.texts(latest)
    asked = Registry(form.registry, source.name, reader, form.on_unreadable, form.on_registry_down, form.auth)
    return asked, avro_kinds(reader, references) if form.kind == "avro" and reader is not None else {}


def _as_it_is(frame: Any) -> Any:
    return frame


def _lane(topic: str, partition: int, source: KafkaSource) -> str:
    return str(partition) if len(source.topics) == 1 else f"{topic}-{partition}"


@dataclass
class FrameFeed:
    """A user's DataFrame: Eventide cannot see its end, so its rows are judged by batch."""

    index: int
    source: FrameSource
    reading: Reading

    @classmethod
    def open(cls, spark: Any, index: int, source: FrameSource) -> FrameFeed:
        """Take the columns from the DataFrame after its transforms."""
        return cls(index, source, _reading(index, source, arrow_kinds(source.opened(spark).schema), None))

    def known_lanes(self) -> tuple[str, ...]:
        """The whole source, unless a column names the lanes."""
        return ("0",) if self.source.lane is None else self.source.lanes

    def frame(self, spark: Any) -> Any:
        """The user's rows with their place."""
        return placed(self.source.opened(spark), self.index, self.source.lane, self.source.offset, self.source.arrival)

    def reach(self, ledger: Ledger, offsets: list[dict[str, Any]], read: list[LandedFile]) -> Reach:
        """Nobody can tell."""
        return Reach(frozenset(), None)


def warn_of_batches(feeds: list[Feed]) -> None:
    """Say which sources are judged by batch: a promise that cannot be kept for them must not be taken for kept."""
    for feed in feeds:
        if isinstance(feed, FrameFeed):
            warnings.warn(
                f"source {feed.source.name!r} is a DataFrame: nobody can tell whether a batch took all that was there, so each of its lanes "
                "counts as read up to the end of the batch, and which rows are late may depend on how Spark cuts the stream. kafka(…) and "
                "files(…) do not have this limit.",
                OrderWarning,
                stacklevel=6,
            )


def placed(frame: Any, index: int, lane: str | None, offset: str | None, arrival: str | None) -> Any:
    """A DataFrame with the columns that say where each row stands; -1 stands for "as it comes"."""
    from pyspark.sql import functions as F

    return frame.select(
        F.lit(index).cast("long").alias(SOURCE),
        (F.lit("0") if lane is None else F.col(lane).cast("string")).alias(LANE),
        (F.lit(-1) if offset is None else F.col(offset)).cast("long").alias(OFFSET),
        F.lit(None).cast("long").alias(ARRIVAL),
        *frame.columns,
    )


def _reading(index: int, source: Source, kinds: dict[str, pl.DataType], decoder: str | None) -> Reading:
    reading = Reading(
        index,
        source.name,
        kinds,
        source.event_time,
        source.watermark,
        source.arrival,
        source.time_unit,
        decoder,
        maps=source.maps,
    )
    given = reading.given
    for column in (source.event_time, source.arrival):
        if column is not None and column not in given:
            raise DefinitionError(f"source {source.name!r} has no column {column!r}. Its columns are {', '.join(given)}.")
    return reading


def open_feed(spark: Any, index: int, source: Source) -> Feed:
    """Open a source of any kind."""
    if isinstance(source, FileSource):
        return FileFeed.open(spark, index, source)
    if isinstance(source, KafkaSource):
        return KafkaFeed.open(spark, index, source)
    if isinstance(source, FrameSource):
        return FrameFeed.open(spark, index, source)
    raise DefinitionError(f"source {source.name!r}: {type(source).__name__} is not a kind of source that Eventide can run.")


def parse_offsets(text: str) -> list[dict[str, Any]]:
    """The offsets that Spark noted for a batch, one object for each source that says them as JSON objects."""
    found = []
    for line in text.splitlines()[2:]:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
