"""Every sink at a real place, with what a reader there sees, and which of the contract's promises it does not make."""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from contextlib import closing
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from eventide import sinks
from eventide.sinks import plain
from eventide.sinks.changelog import CurrentRows
from eventide.sinks.kinds.clickhouse import Embedded
from eventide.sinks.shape import PaneShape

Rows = list[dict[str, Any]]


@dataclass
class World:
    """Where the real systems of this run are."""

    path: Path
    postgres_server: Any = None
    broker: Any = None
    chdb_path: str = ""
    redis_server: Any = None


@dataclass(frozen=True)
class No:
    """A promise that a sink does not make: `never` by its nature, `not yet`, or `not implemented` here."""

    kind: str
    why: str


UNORDERED = No("never", "a table has no order; rank decides")
UNASKED = No("never", "it keeps no results that could be asked for; it is told of each one that is withdrawn")


class Place:
    """One sink at one place."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    lacks: ClassVar[dict[str, No]] = {}
    random_logs: ClassVar[int] = 240
    """How many random logs it is tried with."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.output = f"o{uuid.uuid4().hex[:10]}"

    def sink(self, **options: Any) -> Any:
        raise NotImplementedError

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        """What a reader sees."""
        raise NotImplementedError

    def logged(self, name: str) -> Rows:
        """The rows of a log."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go."""


class SqlPlace(Place):
    """A database: readers see the view."""

    lacks: ClassVar[dict[str, No]] = {"ordered": UNORDERED, "parallel": No("never", "its file has one writer at a time")}

    def query(self, statement: str) -> Rows:
        raise NotImplementedError

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        return self.query(f"select * from {self.quoted(output or self.output)}")

    def logged(self, name: str) -> Rows:
        return self.query(f"select * from {self.quoted(name)}")


def _dicts(cursor: Any) -> Rows:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class Sqlite(SqlPlace):
    name = "sqlite"

    @property
    def path(self) -> str:
        return str(self.world.path / "results.db")

    def sink(self, **options: Any) -> Any:
        return sinks.sqlite(self.path, **options)

    def query(self, statement: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return _dicts(connection.execute(statement))


class Postgres(SqlPlace):
    name = "postgres"
    needs = ("postgres_server",)
    lacks: ClassVar[dict[str, No]] = {"ordered": UNORDERED}

    def sink(self, **options: Any) -> Any:
        return sinks.postgres(self.world.postgres_server.dsn, **options)

    def query(self, statement: str) -> Rows:
        import psycopg

        with psycopg.connect(self.world.postgres_server.dsn) as connection:
            return _dicts(connection.execute(statement))


class Merge(Postgres):
    name = "merge_sql"
    lacks: ClassVar[dict[str, No]] = {
        "ordered": UNORDERED,
        "parallel": No("not yet", "its staging table is temporary and belongs to one connection"),
    }

    def sink(self, **options: Any) -> Any:
        import psycopg

        dsn = self.world.postgres_server.dsn
        return sinks.merge_sql(lambda: psycopg.connect(dsn), sinks.MergeDialect(), **options)


WAREHOUSE_LACKS = {
    "ordered": UNORDERED,
    "parallel": No("not yet", "its rows go through the driver; executors could stage them side by side"),
}


class Snowflake(SqlPlace):
    """fakesnow in its place: Snowflake's SQL put into DuckDB's, behind Snowflake's own connector."""

    name = "snowflake"
    lacks: ClassVar[dict[str, No]] = WAREHOUSE_LACKS
    random_logs: ClassVar[int] = 8  # the stand-in takes rows one by one

    def __init__(self, world: World) -> None:
        from fakesnow.instance import FakeSnow

        super().__init__(world)
        self.fake = FakeSnow()

    def connect(self) -> Any:
        return self.fake.connect(database="SALES", schema="PUBLIC")

    def sink(self, **options: Any) -> Any:
        made = sinks.snowflake(**options)
        return replace(made, connector=self.connect)

    def query(self, statement: str) -> Rows:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            return _dicts(cursor.execute(statement))


class BigQuery(SqlPlace):
    """DuckDB in its place: each statement is read as BigQuery's and put into DuckDB's words."""

    name = "bigquery"
    lacks: ClassVar[dict[str, No]] = WAREHOUSE_LACKS

    def connect(self) -> Any:
        from tests.support.fake_bigquery import FakeBigQuery

        return FakeBigQuery(self.world.path / "bigquery.duckdb")

    def sink(self, **options: Any) -> Any:
        made = sinks.bigquery("sales", **options)
        return replace(made, connector=self.connect)

    def quoted(self, name: str) -> str:
        return f"`sales`.`{name}`"

    def query(self, statement: str) -> Rows:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            return _dicts(cursor.execute(statement))


class Duck(SqlPlace):
    name = "duckdb"

    @property
    def path(self) -> str:
        return str(self.world.path / "results.duckdb")

    def sink(self, **options: Any) -> Any:
        return sinks.duckdb(self.path, **options)

    def query(self, statement: str) -> Rows:
        import duckdb

        with closing(duckdb.connect(self.path)) as connection:
            connection.execute("set timezone = 'UTC'")
            return _dicts(connection.execute(statement))


class ClickHouse(SqlPlace):
    name = "clickhouse"
    needs = ("chdb_path",)
    lacks: ClassVar[dict[str, No]] = {
        "ordered": UNORDERED,
        "parallel": No("not yet", "its inserts need no common transaction, so executors could send them"),
        "transactional": No("never", "ClickHouse has no transactions; a block of up to a million rows is atomic"),
    }

    def sink(self, **options: Any) -> Any:
        return sinks.clickhouse(f"chdb://{self.world.chdb_path}", **options)

    def query(self, statement: str) -> Rows:
        settings = " settings output_format_arrow_string_as_string = 0"
        table = Embedded(self.world.chdb_path).session.query(statement + settings, "ArrowTable")
        return [{k: _readable(v) for k, v in row.items()} for row in table.to_pylist()]

    def logged(self, name: str) -> Rows:
        """Copies are there until parts are merged; FINAL leaves them out."""
        return self.query(f"select * from {self.quoted(name)} final")


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, dict):
        return {k: _readable(v) for k, v in value.items()}
    return [_readable(v) for v in value] if isinstance(value, list) else value


class Lake(Place):
    """Tables on files, read through the sink's own `read`."""

    lacks: ClassVar[dict[str, No]] = {
        "ordered": UNORDERED,
        "parallel": No("not yet", "executors could write the files, and the driver commit them"),
    }

    def table(self, shape: PaneShape, output: str) -> pa.Table:
        raise NotImplementedError

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        return self.table(shape, output or self.output).to_pylist()


class Delta(Lake):
    name = "delta"

    def sink(self, **options: Any) -> Any:
        return sinks.delta(str(self.world.path / "delta"), **options)

    def table(self, shape: PaneShape, output: str) -> pa.Table:
        return self.sink().read(shape)

    def logged(self, name: str) -> Rows:
        from deltalake import DeltaTable

        return DeltaTable(self.sink().path).to_pyarrow_table().to_pylist()


class Iceberg(Lake):
    name = "iceberg"

    def sink(self, **options: Any) -> Any:
        path = self.world.path
        catalog = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/lake"}
        return sinks.iceberg(catalog, "sales.totals", **options)

    def table(self, shape: PaneShape, output: str) -> pa.Table:
        return self.sink().read(shape)

    def logged(self, name: str) -> Rows:
        return self.sink().catalog().load_table("sales.totals").scan().to_arrow().to_pylist()


class Parquet(Lake):
    name = "parquet"

    def sink(self, **options: Any) -> Any:
        return sinks.parquet(str(self.world.path / "out"), **options)

    def table(self, shape: PaneShape, output: str) -> pa.Table:
        import pyarrow.parquet as pq

        return pq.read_table(self.world.path / "out" / output / "current.parquet", partitioning=None)

    def logged(self, name: str) -> Rows:
        import pyarrow.parquet as pq

        return pq.read_table(self.world.path / "out" / name).to_pylist()


class Kafka(Place):
    name = "kafka_topic"
    needs = ("broker",)
    lacks: ClassVar[dict[str, No]] = {
        "transactional": No("not yet", "records are sent by an idempotent producer, without Kafka transactions"),
        "parallel": No("not yet", "executors could send; the markers then wait for all of them"),
        "generations": UNASKED,
    }

    def sink(self, **options: Any) -> Any:
        return sinks.kafka_topic(self.world.broker.servers, self.output, **options)

    def records(self) -> Rows:
        """Every JSON record of the topic, duplicates included."""
        return [json.loads(message.value()) for message in self.messages()]

    def messages(self) -> list[Any]:
        return consume(self.world.broker.servers, self.output)

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        table = CurrentRows(shape)
        for record in self.records():
            table.apply(record)
        stored = list(table)
        return _summed(stored, shape) if shape.accumulation == "discarding" else stored

    def logged(self, name: str) -> Rows:
        """A consumer keeps one record of each key."""
        return [json.loads(value) for value in {m.key(): m.value() for m in self.messages()}.values()]


def consume(servers: str, topic: str) -> list[Any]:
    """All messages of a topic as it stands."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        parts = [TopicPartition(topic, number, 0) for number in partitions]
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=30)[1] for p in parts}
        consumer.assign(parts)
        messages: list[Any] = []
        while len(messages) < sum(ends.values()):
            found = consumer.consume(10_000, timeout=1.0)
            assert all(m.error() is None for m in found)
            messages += found
        return messages
    finally:
        consumer.close()


def _summed(stored: Rows, shape: PaneShape) -> Rows:
    """A consumer that adds deltas of the highest generation."""
    sums: dict[str, dict[str, Any]] = {}
    for row in sorted(stored, key=lambda row: (row["generation"], row["sequence"])):
        base = sums.get(row["window_id"])
        if base is None or base["generation"] < row["generation"]:
            sums[row["window_id"]] = dict(row)
            continue
        functions = {"sum": lambda a, b: a + b, "min": min, "max": max}
        for name in shape.value_names:
            base[name] = functions[shape.added_by(name)](base[name], row[name])
        base["sequence"] = row["sequence"]
    return list(sums.values())


class Redis(Place):
    name = "redis"
    needs = ("redis_server",)
    lacks: ClassVar[dict[str, No]] = {
        "ordered": UNORDERED,
        "parallel": No("not yet", "executors could send parts; the driver then applies them in one transaction"),
        "generations": No("not yet", "the rank of each result is there, the shape of the results is not"),
    }

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.world.redis_server.url)

    def sink(self, **options: Any) -> Any:
        return sinks.redis(self.world.redis_server.url, **options)

    def found(self, key: str) -> Rows:
        with closing(self.client()) as client:
            return [json.loads(value) for value in client.hgetall(key).values()]

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        stored = self.found(output or self.output)
        return _summed(stored, shape) if shape.accumulation == "discarding" else stored

    def logged(self, name: str) -> Rows:
        return self.found(name)


class Keyed:
    """A receiver as we ask for one: one row per identity, the highest rank stays."""

    def __init__(self) -> None:
        self.rows: dict[Any, dict[str, Any]] = {}
        self.keys: list[str] = []
        self.answers: list[int] = []
        self.on_body: Any = lambda key, body: None
        self.shape = PaneShape(keys=(), values=())

    def rank(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[self.shape.meta(name)] for name in ("generation", "sequence", "op"))

    def take(self, rows: Rows) -> None:
        for row in rows:
            key = tuple(row[name] for name in self.shape.identity)
            old = self.rows.get(key)
            if old is None or self.rank(row) > self.rank(old):
                self.rows[key] = row

    def current(self, shape: PaneShape) -> Rows:
        standing = [row for row in self.rows.values() if row[shape.meta("op")] == "insert"]
        return _summed(standing, shape) if shape.accumulation == "discarding" else standing


class Webhook(Place):
    name = "webhook"
    lacks: ClassVar[dict[str, No]] = {
        "transactional": No("never", "a delivery may take several requests"),
        "parallel": No("never", "its receiver sees panes in order, from one sender"),
        "generations": UNASKED,
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.receiver = Keyed()
        self.logs: dict[Any, dict[str, Any]] = {}
        place = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                place.receiver.keys.append(self.headers["Idempotency-Key"])
                answer = place.receiver.answers.pop(0) if place.receiver.answers else 204
                if answer == 204:
                    place.receiver.on_body(self.headers["Idempotency-Key"], body)
                    place.receiver.take(body.get("panes", []))
                    place.logs.update({(row["lane"], row["offset"]): row for row in body.get("rows", [])})
                self.send_response(answer)
                if answer == 429:
                    self.send_header("Retry-After", "1")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    def sink(self, **options: Any) -> Any:
        return sinks.webhook(self.url, **{"keyed": True, **options})

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        return self.receiver.current(shape)

    def logged(self, name: str) -> Rows:
        return list(self.logs.values())

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Function(Place):
    name = "function"
    lacks: ClassVar[dict[str, No]] = {
        "transactional": No("never", "what the function does is its own affair"),
        "parallel": No("never", "the function is called here, where its user can see it"),
        "generations": UNASKED,
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.receiver = Keyed()
        self.logs: dict[Any, dict[str, Any]] = {}

    def take(self, table: pa.Table, delivery: Any) -> None:
        rows = plain.rows(table)
        if "window_id" not in table.column_names:
            self.logs.update({(row["lane"], row["offset"]): row for row in rows})
            return
        self.receiver.take(rows)

    def sink(self, **options: Any) -> Any:
        return sinks.function(self.take, **{"keyed": True, **options})

    def rows(self, shape: PaneShape, output: str | None = None) -> Rows:
        return self.receiver.current(shape)

    def logged(self, name: str) -> Rows:
        return list(self.logs.values())


PLACES: list[type[Place]] = [
    Sqlite, Postgres, Merge, Snowflake, BigQuery, Duck, ClickHouse, Delta, Iceberg, Parquet, Kafka, Redis, Webhook, Function,
]  # fmt: skip
CONSOLE_LACKS = {
    "transactional": No("never", "lines are printed one by one"),
    "parallel": No("never", "there is one terminal"),
    "generations": UNASKED,
    "convergence": No("never", "nothing is stored: a person reads each change as it comes"),
}
