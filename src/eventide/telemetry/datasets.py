"""What sources and sinks are called in OpenLineage: a namespace, which says where, and a name, which says what is there."""

from __future__ import annotations

import os
import re
from functools import singledispatch
from typing import NamedTuple
from urllib.parse import urlsplit

from eventide.definition.source import Source
from eventide.sinks.kinds.bigquery import BigQueryDialect
from eventide.sinks.kinds.clickhouse import ClickHouseSink
from eventide.sinks.kinds.delta import DeltaSink
from eventide.sinks.kinds.duckdb import DuckSink
from eventide.sinks.kinds.iceberg import IcebergSink
from eventide.sinks.kinds.kafka import KafkaSink
from eventide.sinks.kinds.parquet import ParquetSink
from eventide.sinks.kinds.postgres import PostgresSink
from eventide.sinks.kinds.redis import RedisSink
from eventide.sinks.kinds.sqlite import SqliteSink
from eventide.sinks.kinds.webhook import WebhookSink
from eventide.sinks.warehouse import MergeSink
from eventide.sources.delta import DeltaRows
from eventide.sources.files import FileSource
from eventide.sources.frame import FrameSource
from eventide.sources.kafka import KafkaSource
from eventide.storage.address import for_arrow, is_local, local_path

PORTS = {"postgres": 5432, "clickhouse": 8123, "redis": 6379, "kafka": 9092}
SETTING = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S+)")
"""One of a libpq connection string."""


class Dataset(NamedTuple):
    """A data set's name."""

    namespace: str
    name: str


def at(address: str, *below: str) -> Dataset:
    """Files, by their address.

    >>> at("s3a://lake/out?region=eu-west-1", "totals")
    Dataset(namespace='s3://lake', name='out/totals')
    >>> at("/srv/landing/")
    Dataset(namespace='file', name='/srv/landing')
    """
    if is_local(address):
        return Dataset("file", "/".join([os.path.abspath(local_path(address)), *below]))
    parts = urlsplit(for_arrow(address))
    host = (
        parts.netloc if parts.scheme.startswith("abfs") else parts.netloc.rpartition("@")[2]
    )  # where Azure's container stands
    return Dataset(f"{parts.scheme}://{host}", "/".join([parts.path.strip("/"), *below]).strip("/") or "/")


def server(kind: str, address: str) -> str:
    """A server, without user and password.

    >>> server("kafka", "b1:9092,b2:9092"), server("redis", "rediss://:secret@cache/2")
    ('kafka://b1:9092', 'redis://cache:6379')
    """
    host = address.partition("://")[2] or address
    host = re.split(r"[,/?]", host)[0].rpartition("@")[2]
    return f"{kind}://{host}" if re.search(r":\d+$", host) else f"{kind}://{host}:{PORTS[kind]}"


@singledispatch
def read_from(source: Source) -> list[Dataset]:
    """Where a source's rows come from; nothing where only the program knows."""
    return []


@read_from.register
def _(source: KafkaSource) -> list[Dataset]:
    return [Dataset(server("kafka", source.servers), topic) for topic in source.topics]


@read_from.register
def _(source: FileSource) -> list[Dataset]:
    return [at(source.path)]


@read_from.register
def _(source: FrameSource) -> list[Dataset]:
    return [at(source.frame.path)] if isinstance(source.frame, DeltaRows) else []


@singledispatch
def written_to(sink: object, name: str) -> Dataset | None:
    """Where a sink keeps results, or the rows of a log, of this name; None where nothing says."""
    return None


@written_to.register
def _(sink: KafkaSink, name: str) -> Dataset:
    return Dataset(server("kafka", sink.servers), sink.topic)


@written_to.register
def _(sink: ParquetSink, name: str) -> Dataset:
    return at(sink.path, sink.table or name)


@written_to.register
def _(sink: DeltaSink, name: str) -> Dataset:
    return at(sink.path)


@written_to.register
def _(sink: IcebergSink, name: str) -> Dataset:
    known = dict(sink.properties)
    return Dataset(_unsecret(known.get("warehouse") or known.get("uri") or sink.catalog_name), sink.table)


@written_to.register(SqliteSink)
@written_to.register(DuckSink)
def _(sink: SqliteSink | DuckSink, name: str) -> Dataset:
    kind = "sqlite" if isinstance(sink, SqliteSink) else "duckdb"
    return Dataset(f"{kind}://{os.path.abspath(sink.path)}", sink.table or name)


@written_to.register
def _(sink: PostgresSink, name: str) -> Dataset:
    if "://" in sink.dsn:
        host, base = server("postgres", sink.dsn), urlsplit(sink.dsn).path.strip("/")
    else:
        said = {key: value.strip("'") for key, value in SETTING.findall(sink.dsn)}
        host = server("postgres", f"{said.get('host', 'localhost')}:{said.get('port', PORTS['postgres'])}")
        base = said.get("dbname", said.get("user", ""))
    return Dataset(host, f"{base}.{sink.schema or 'public'}.{sink.table or name}")


@written_to.register
def _(sink: ClickHouseSink, name: str) -> Dataset:
    if sink.dsn.startswith("chdb://"):
        return Dataset(f"chdb://{os.path.abspath(sink.dsn.removeprefix('chdb://'))}", f"default.{sink.table or name}")
    return Dataset(server("clickhouse", sink.dsn), f"{urlsplit(sink.dsn).path.strip('/') or 'default'}.{sink.table or name}")


@written_to.register
def _(sink: RedisSink, name: str) -> Dataset:
    return Dataset(server("redis", sink.url), sink.key or name)


@written_to.register
def _(sink: WebhookSink, name: str) -> Dataset:
    parts = urlsplit(sink.where)
    return Dataset(f"{parts.scheme}://{parts.netloc}", parts.path or "/")


@written_to.register
def _(sink: MergeSink, name: str) -> Dataset | None:
    if not isinstance(sink.dialect, BigQueryDialect):
        return None  # where the connection leads, only the program knows
    return Dataset("bigquery", f"{sink.dialect.dataset}.{sink.table or name}")


def _unsecret(address: str) -> str:
    parts = urlsplit(address)
    return address if not parts.scheme else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


__all__ = ["Dataset", "at", "read_from", "written_to"]
