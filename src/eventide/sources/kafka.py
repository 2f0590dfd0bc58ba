"""A Kafka topic: each partition is a lane, the record's offset is its place, the record's timestamp its arrival."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from eventide.definition.source import Source, ahead, idle, skew
from eventide.errors import DefinitionError
from eventide.model.time import Duration
from eventide.model.watermark import Strategy
from eventide.redaction import without_secrets
from eventide.sources.formats import Format, ddl_columns, ddl_types

TUNED = {
    "kafka.isolation.level": "read_committed",
    "kafka.fetch.max.bytes": "104857600",
    "kafka.max.partition.fetch.bytes": "20971520",
    "kafka.max.poll.records": "50000",
}
"""Aborted transactions are no events; the fetch options halve the time to read a topic. An option given by the user wins."""
OURS = {
    "kafka.bootstrap.servers": "servers=",
    "subscribe": "topic=",
    "subscribepattern": "topic= (a list of topics)",
    "assign": "topic=",
    "startingoffsets": "starting=",
    "maxoffsetspertrigger": "rows_per_batch=",
    "includeheaders": "headers=",
}
"""Options of Spark's reader that are said in another way."""
HARMFUL = {
    "minpartitions": "a partition cut in pieces is no longer read in order",
    "maxrecordsperpartition": "a partition cut in pieces is no longer read in order",
    "failondataloss": "a gap in the topic must stop the run, or rows would be lost without a word",
}
"""Options under which a promise could not be kept."""
EARLIEST = -2
"""How Spark writes the first offset that there is."""


@without_secrets
@dataclass(frozen=True, kw_only=True)
class KafkaSource(Source):
    """Topics of one cluster."""

    servers: str
    topics: tuple[str, ...]
    value: Format
    starting: str
    rows_per_batch: int | None
    headers: bool
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the record format, where it says them."""
        if self.value.schema is None:
            return None
        return tuple(dict.fromkeys((*ddl_columns(self.value.schema), *self.beside)))

    @property
    def column_types(self) -> dict[str, str]:
        return {} if self.value.schema is None else ddl_types(self.value.schema)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("kafka",)

    def begins_with(self, topic: str, partition: int, first: int) -> bool:
        """Whether a fresh run reads a partition from an offset on: -2 in `starting` is the first that there is, -1 the end."""
        if any(name.lower().startswith("starting") for name, _ in self.options):
            return False  # by time: only the broker knows where that is
        if self.starting.strip().lower() in ("earliest", "latest"):
            return self.starting.strip().lower() == "earliest"
        try:
            said = int(json.loads(self.starting)[topic][str(partition)])
        except (ValueError, KeyError, TypeError):  # a partition that is not named, or what Spark will refuse
            return False
        return said == EARLIEST or 0 <= said <= first

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns of a record that are not read from its value."""
        return ("key",) * (self.value.kind == "raw") + ("headers",) * self.headers


def kafka(
    name: str,
    *,
    servers: str,
    topic: str | list[str] | tuple[str, ...],
    value: Format,
    event_time: str,
    watermark: Strategy,
    idle_after: Duration | None = None,
    arrival: str | None = None,
    starting: str = "earliest",
    rows_per_batch: int | None = None,
    headers: bool = False,
    max_ahead: Duration | None = "1 day",
    max_skew: Duration | None = "1 minute",
    time_unit: str = "us",
    time_zone: str = "UTC",
    time_format: str | None = None,
    options: dict[str, str] | None = None,
) -> KafkaSource:
    """Read topics. Security and other client options are passed through: `options={"kafka.security.protocol": "SASL_SSL", …}`.

    A row arrived at its record's timestamp (CreateTime or LogAppendTime, as the topic is set up), or at the `arrival` column.
    `headers=True` adds the column `headers`: a list of (key, value), the value as bytes; null for a record without any.
    """
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    if not topics or not all(topics):
        raise DefinitionError(f"kafka(topic={topic!r}): name at least one topic.")
    if not isinstance(value, Format):
        raise DefinitionError(
            f'kafka(value={value!r}): say how to read the records, such as value=json("event_time timestamp, …").'
        )
    for option in options or {}:
        if option.lower() in OURS:
            raise DefinitionError(f"kafka(options={{{option!r}: …}}): say it with {OURS[option.lower()]}")
        if option.lower() in HARMFUL:
            raise DefinitionError(f"kafka(options={{{option!r}: …}}) is refused: {HARMFUL[option.lower()]}.")
    return KafkaSource(
        name=name, servers=servers, topics=topics, value=value, event_time=event_time, watermark=watermark,
        idle_after=idle(name, idle_after), arrival=arrival, starting=starting, rows_per_batch=rows_per_batch, headers=headers,
        max_ahead=ahead(name, max_ahead), max_skew=skew(name, max_skew), time_unit=time_unit, time_zone=time_zone,
        time_format=time_format, options=tuple((options or {}).items()),
    )  # fmt: skip
