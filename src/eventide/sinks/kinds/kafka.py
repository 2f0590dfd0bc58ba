"""Kafka: a changelog of panes, keyed by window, that can carry the watermark to the next pipeline."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import masked, printable, secrets_of, without_secrets
from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.changelog import changes
from eventide.sinks.kinds.kafka_avro import Encoder
from eventide.sinks.libraries import need
from eventide.sinks.ranked import emitted, together
from eventide.sinks.retry import Retry
from eventide.sinks.shape import INSTANT, PaneShape

REFUSED = {
    "_AUTHENTICATION",
    "_INVALID_ARG",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_RECORD",
    "INVALID_TOPIC_EXCEPTION",
    "MSG_SIZE_TOO_LARGE",
    "POLICY_VIOLATION",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "TOPIC_EXCEPTION",
}
"""What a broker will say again, however often it is asked."""
Message = tuple[bytes | None, bytes, int]
ANY_PARTITION = -1


class KafkaWriter:
    """Sends a delivery and waits until every record of it is acknowledged."""

    def __init__(self, sink: KafkaSink, schema: pa.Schema, identity: tuple[str, ...], shape: PaneShape | None) -> None:
        self.sink = sink
        self.schema = schema
        self.identity = identity
        self.shape = shape
        self.op = shape.meta("op") if shape else ""
        self.mark = shape.meta("watermark") if shape else ""
        self._producer: Any = None
        self._refusal: str | None = None
        sink.retry.run(self._prepare)
        self._encode = self._encoder()

    def _encoder(self) -> Callable[[Iterable[dict[str, Any]]], Iterator[bytes]]:
        if self.sink.format == "json":
            return lambda rows: (json.dumps(row, ensure_ascii=False, allow_nan=False).encode() for row in rows)
        columns = self.schema
        if self.sink.markers:
            # A marker has an op and a watermark and nothing else.
            fields = [part.with_nullable(part.name != self.op) for part in self.schema]
            columns = pa.schema([*fields, pa.field(self.mark, INSTANT)])
        return Encoder(columns, f"{self.sink.topic}-value", self.sink.registry)

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.sink.servers,
            "client.id": "eventide",
            "log_level": 2,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": self._noticed,
            **dict(self.sink.config),
        }

    def _noticed(self, error: Any) -> None:
        if error.name() in REFUSED:
            self._refusal = error.str()

    def _prepare(self) -> None:
        """Create the topic if it is missing; the broker must be within reach."""
        admin = need("confluent_kafka.admin", "kafka")
        try:
            client = admin.AdminClient(self._settings())
        except Exception as cause:
            raise self._error(cause) from printable(cause)
        try:
            if self.sink.topic in client.list_topics(timeout=10).topics:
                return
            topic = admin.NewTopic(self.sink.topic, num_partitions=self.sink.partitions)
            client.create_topics([topic])[self.sink.topic].result(10)
        except Exception as cause:
            if "TOPIC_ALREADY_EXISTS" not in str(cause):
                client.poll(0.5)  # a refusal is only told to those who poll; the call itself says that nobody is there
                raise self._error(cause) from printable(cause)

    def _error(self, cause: Any) -> SinkError:
        where = f"Kafka topic {self.sink.topic!r} at {self.sink.servers}"
        error = cause.args[0] if getattr(cause, "args", None) else cause
        name = error.name() if hasattr(error, "name") else ""
        said = error.str() if hasattr(error, "str") else str(cause)
        kind = SinkRefused if self._refusal or name in REFUSED else SinkUnavailable
        told = self._refusal or (f"{said} ({name})" if kind is SinkRefused else said)
        return kind(masked(f"{where}: {told}", secrets_of(self.sink.config)))

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Send the panes in their order, then the watermark to every partition."""
        self._send(self._records(emitted(panes, self.shape) if self.shape else together(panes, self.schema)))
        if self.sink.markers and delivery.watermark is not None:
            self._send(self._markers(delivery))

    def append(self, rows: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Send the rows, keyed by their identity: copies have the same key and the same bytes."""
        self._send(self._records(together(rows, self.schema)))

    def _records(self, table: pa.Table) -> Iterator[Message]:
        if self.shape:
            table = table.set_column(
                table.column_names.index(self.op), self.op, pa.array(changes(table, self.shape), pa.string())
            )
            keys = [str(key).encode() for key in table[self.shape.meta("window_id")].to_pylist()]
        else:
            keys = [json.dumps(row, ensure_ascii=False).encode() for row in plain.rows(table.select(list(self.identity)))]
        rows = plain.rows(table) if self.sink.format == "json" else _typed(table)
        return ((key, value, ANY_PARTITION) for key, value in zip(keys, self._encode(rows), strict=True))

    def _markers(self, delivery: Delivery) -> Iterator[Message]:
        """The watermark, after all panes were acknowledged: nothing more ends at or before it, but corrections."""
        instant = _instant(delivery.watermark or 0)
        row: dict[str, Any] = {self.op: "W", self.mark: instant}
        if self.sink.format == "json":
            row = {
                **plain.plain(row),
                "pipeline": delivery.pipeline,
                "output": delivery.output,
                "batch": delivery.batch,
            }
        (value,) = self._encode([row])
        partitions = self._opened().list_topics(self.sink.topic, timeout=10).topics[self.sink.topic].partitions
        return ((None, value, partition) for partition in partitions)

    def _opened(self) -> Any:
        if self._producer is None:
            limit = max(int(self.sink.retry.give_up_after * 1000), 1000)
            defaults = {
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "message.timeout.ms": limit,
            }
            settings = {**defaults, **self._settings()}
            self._producer = need("confluent_kafka", "kafka").Producer(settings)
        return self._producer

    def _send(self, messages: Iterator[Message]) -> None:
        """The client itself tries again, in order, until its time is up; what it gives up on fails the delivery."""
        failures: list[Any] = []
        producer = self._opened()

        def acknowledged(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        try:
            for key, value, partition in messages:
                while not failures and not self._refusal:
                    try:
                        producer.produce(self.sink.topic, value, key, partition, on_delivery=acknowledged)
                        break
                    except BufferError:
                        producer.poll(0.1)
                producer.poll(0)
                if failures or self._refusal:
                    break
            waiting = len(producer) if failures or self._refusal else producer.flush(self.sink.retry.give_up_after + 5)
        except SinkError:
            self.close()
            raise
        except Exception as cause:
            self.close()
            raise self._error(cause) from printable(cause)
        if failures or waiting or self._refusal:
            self.close()  # what is still queued is dropped; the whole delivery is sent again
            raise self._error(failures[0] if failures else f"{waiting} records were not acknowledged in time")

    def close(self) -> None:
        """Let go of the producer; nothing of a finished delivery waits in it."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.purge()
                producer.flush(1)


def _instant(micros: int) -> datetime:
    """A watermark as a date; the end of the input (+∞) is the last instant that dates know."""
    epoch, micro = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
    first, last = (limit.replace(tzinfo=UTC) for limit in (datetime.min, datetime.max))  # noqa: DTZ901
    return epoch + min(max(micros, (first - epoch) // micro), (last - epoch) // micro) * micro


def _typed(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with Python's own types, for Avro; maps as dicts."""
    columns = [plain.python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


@without_secrets
@dataclass(frozen=True)
class KafkaSink:
    """Panes into a Kafka topic."""

    servers: str
    topic: str
    format: str = "json"
    markers: bool = False
    partitions: int = -1
    registry: str | None = None
    config: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    retry: Retry = field(default=Retry(), repr=False)

    def __post_init__(self) -> None:
        if self.format not in ("json", "avro"):
            raise DefinitionError(f"format={self.format!r} is not one that kafka_topic writes: 'json' or 'avro'")

    @property
    def capabilities(self) -> Capabilities:
        """The rank travels with each record: a consumer with the deduplicator has one row per window."""
        return Capabilities(upsert=True, retract=True, ordered=True, append=True)

    def place(self, name: str) -> Hashable:
        """The topic, whatever the output is called: records do not say whose they are."""
        return type(self).__name__, self.servers, self.topic

    def open(self, output: str, shape: PaneShape) -> KafkaWriter:
        """Check or create the topic."""
        return KafkaWriter(self, shape.schema, shape.identity, shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> KafkaWriter:
        """Late rows or dead letters, keyed by identity."""
        return KafkaWriter(self, schema, identity, None)


def kafka_topic(
    servers: str,
    topic: str,
    format: str = "json",
    markers: bool = False,
    *,
    partitions: int = -1,
    registry: str | None = None,
    config: Mapping[str, Any] | None = None,
    retry: Retry | None = None,
) -> KafkaSink:
    """Results as a changelog in a Kafka topic; `config` takes any librdkafka setting, security included.

    With `markers=True` the watermark follows each delivery, as a record whose op is "W", to every partition.

    >>> kafka_topic("localhost:9092", "alerts", config={"sasl.password": "secret"})
    KafkaSink(servers='localhost:9092', topic='alerts', format='json', markers=False, partitions=-1, registry=None)
    """
    settings = tuple(sorted((config or {}).items()))
    return KafkaSink(servers, topic, format, markers, partitions, registry, settings, retry or Retry())
