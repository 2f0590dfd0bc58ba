"""Topics opened for a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.engine.feeds.avro_kinds import avro_kinds
from eventide.engine.feeds.decode import Reading, transformed
from eventide.engine.feeds.feed import Feed, Reach, arrow_kinds, lane_by_lane, reading_of, times_of
from eventide.engine.feeds.kafka_ends import topic_begins, topic_ends, topic_ids
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.wire import Registry
from eventide.engine.spark_compat import parse_ddl
from eventide.engine.spark_notes import Noted, TakenFile
from eventide.errors import DefinitionError, SourceError
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, RAW, SOURCE
from eventide.sources.formats import Format
from eventide.sources.kafka import TUNED, KafkaSource
from eventide.state.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


class TopicReplaced(SourceError):
    """A topic is no longer the one that was read."""


@dataclass
class KafkaFeed(Feed):
    """Topics: each partition is a lane."""

    source: KafkaSource
    spark: SparkSession
    decoding: Reading | None = None
    """How records are decoded before the user's transforms see them; without transforms the scan does it itself."""

    @classmethod
    def open(cls, spark: SparkSession, index: int, source: KafkaSource) -> KafkaFeed:
        """Find out the columns."""
        form = source.value
        registry, kinds = _registry(source, form)
        if form.schema is not None:
            kinds = arrow_kinds(parse_ddl(form.schema))
        if source.headers and "headers" in kinds:
            raise DefinitionError(
                f"source {source.name!r}: its records have a column 'headers' of their own, which headers=True would hide. "
                "Leave headers=True away, or read the records under another schema."
            )
        if source.beside:  # such columns come from Spark, as those of a transform do
            kinds = {name: kind for name, kind in kinds.items() if name not in source.beside}
            source = replace(source, transforms=(_as_it_is, *source.transforms))
        if not source.transforms:
            return cls(index, source, replace(reading_of(index, source, kinds, form.kind), registry=registry), spark=spark)
        decoding = Reading(
            index, source.name, kinds, "", source.watermark, None, source.time_unit, form.kind, registry, times=times_of(source)
        )
        feed = cls(index, source, decoding, spark=spark, decoding=decoding)
        changed = {n: k for n, k in arrow_kinds(feed.frame(spark).schema).items() if not n.startswith("__")}
        feed.reading = reading_of(index, source, changed, None)
        return feed

    @property
    def in_order(self) -> bool:
        """Partitions are lanes already, unless a transform brings their rows out of order."""
        return not self.source.transforms

    @property
    def is_decoded(self) -> bool:
        """Transforms need columns; without them the scan decodes the records itself."""
        return bool(self.source.transforms)

    def known_lanes(self) -> tuple[str, ...]:
        """The partitions that the topics have now."""
        return tuple(
            sorted(_lane(topic, partition, self.source) for topic, partition in topic_ends(self.spark, self.source).last)
        )

    def frame(self, spark: SparkSession) -> DataFrame:
        """Records with their place, as they come."""
        reader = spark.readStream.format("kafka").option("startingOffsets", self.source.starting)
        if self.source.rows_per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.source.rows_per_batch))
        return self._records(reader)

    def history(self, spark: SparkSession) -> DataFrame:
        """Records with their place, all that the topics hold now."""
        return lane_by_lane(self._records(spark.read.format("kafka").option("startingOffsets", "earliest")), OFFSET)

    def _records(self, reader: DataStreamReader | DataFrameReader) -> DataFrame:
        from pyspark.sql import functions as F

        source = self.source
        reader = reader.options(**{**TUNED, **dict(source.options)}).option("failOnDataLoss", "true")
        reader = reader.option("kafka.bootstrap.servers", source.servers).option("subscribe", ",".join(source.topics))
        if source.headers:
            reader = reader.option("includeHeaders", "true")
        lane = F.col("partition").cast("string") if len(source.topics) == 1 else F.concat_ws("-", "topic", "partition")
        records = reader.load().select(
            F.lit(self.index).cast("long").alias(SOURCE),
            lane.alias(LANE),
            F.col("offset").alias(OFFSET),
            F.expr("unix_micros(timestamp)").alias(ARRIVAL),
            F.col("value").alias(RAW),
            *source.beside,
        )
        return records if self.decoding is None else transformed(records, self.decoding, source)

    def reach(self, ledger: Ledger, noted: Noted, read: list[LandedFile], clock: int) -> Reach:
        """A partition is at its end when the batch goes up to what the broker says is the end.

        Records of an open transaction have arrived and cannot be read yet: until it ends, the partition is not at its end, so that they
        are judged where they stand.
        """
        ends = topic_ends(self.spark, self.source)
        self._refuse_others(ledger.sources.get(self.source.name, {}), ends.ids)
        lanes, done, held = set(), set(), {}
        for (topic, partition), last in ends.last.items():
            lane = _lane(topic, partition, self.source)
            taken = int(noted.offset.get(topic, {}).get(str(partition), 0))
            lanes.add((self.index, lane))
            if taken >= last:
                done.add((self.index, lane))
            elif taken >= ends.stable[topic, partition]:
                held[lane] = f"an open transaction from offset {ends.stable[topic, partition]} on"
        return Reach(frozenset(lanes), frozenset(done), {"topics": ends.ids}, held=held)

    def lost(self, taken: list[TakenFile]) -> set[str]:
        """The partitions that no longer begin with their first record, or are not read from there."""
        source, begins = self.source, topic_begins(self.spark, self.source)
        return {_lane(*at, source) for at, first in begins.items() if first > 0 or not source.begins_with(*at, first)}

    def in_sight(self) -> dict[tuple[str, int], int]:
        """Where each partition ends; records of an open transaction do not count yet."""
        return topic_ends(self.spark, self.source).stable

    def has_read(self, seen: dict[tuple[str, int], int], noted: Noted) -> bool:
        """By the offsets that Spark noted."""
        return all(int(noted.offset.get(topic, {}).get(str(part), 0)) >= end for (topic, part), end in seen.items())

    def check_same(self, memory: dict[str, Any]) -> None:
        """Stop where a topic that was read has been deleted, or is another one under the same name."""
        if memory:
            self._refuse_others(memory, topic_ids(self.spark, self.source))

    def _refuse_others(self, memory: dict[str, Any], now: dict[str, str]) -> None:
        for topic, known in memory.get("topics", {}).items():
            if topic in self.source.topics and now.get(topic) != known:
                found = "there is none of that name" if topic not in now else f"the topic of that name has the id {now[topic]}"
                raise TopicReplaced(
                    f"source {self.source.name!r}: topic {topic!r} at {self.source.servers} had the id {known} when it was read; now {found}. "
                    "It was deleted, and its offsets mean other records or none: read on, rows would be lost without a word. Nothing was "
                    "read of the new topic. To read it from its start, take the next generation: eventide run FILE --start-over."
                )


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
    asked = Registry(
        form.registry, source.name, reader, tuple(references.items()), form.on_unreadable, form.on_registry_down, form.auth
    )
    return asked, avro_kinds(reader, references) if form.kind == "avro" and reader is not None else {}


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def _lane(topic: str, partition: int, source: KafkaSource) -> str:
    return str(partition) if len(source.topics) == 1 else f"{topic}-{partition}"
