"""Every sink over a line that breaks: cut, halved, delayed, refused at random bytes of both directions; nothing is lost or doubled.

A share of the faults in every run, 200 for each sink by `make soak-sinks`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventide import sinks
from eventide.sinks import Retry
from eventide.sinks.kinds.clickhouse import Server
from eventide.testing.broker import KafkaBroker
from tests.sinks.panes import SHAPE, Pane, batch, delivery, expected, random_log, seen
from tests.sinks.places import Kafka, Place, Postgres, Redis, Webhook, World
from tests.support.faults import Breaking
from tests.support.object_store import ObjectStore
from tests.support.postgres import free_port
from tests.support.redis_server import RedisServer

PATIENT = Retry(give_up_after=120, first=0.01, longest=0.1)
FAULTS = [
    pytest.param(10, id="10 faults"),
    pytest.param(200, id="200 faults", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
]


def disturbed_run(sink: Any, output: str, line: Breaking, faults: int) -> list[Pane]:
    """Deliveries over the line until so many faults have struck; gives what was delivered."""
    log: list[Pane] = []
    writer = sink.open(output, SHAPE)

    def step(number: int) -> None:
        panes = random_log(number, seed=11)
        log.extend(panes)
        writer.deliver(batch(panes), delivery(output, number))

    steps = line.until(faults, step)
    writer.close()
    line.heal()
    print(f"\n{type(sink).__name__}: {steps} deliveries, {line.counts}")
    return log


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("kind", ["postgres", "merge_sql"])
def test_postgres(postgres_server: Any, kind: str, faults: int) -> None:
    place = Postgres(World(None, postgres_server=postgres_server))
    with Breaking(postgres_server.port, seed=faults, share=1.0, reach=15_000) as line:
        dsn = postgres_server.dsn.replace(f":{postgres_server.port}/", f":{line.port}/")
        sink = sinks.postgres(dsn, retry=PATIENT)
        if kind == "merge_sql":
            sink = sinks.merge_sql(lambda: psycopg.connect(dsn, connect_timeout=10), retry=PATIENT)
        log = disturbed_run(sink, place.output, line, faults)
    assert seen(place.rows(SHAPE)) == expected(log)


@pytest.mark.parametrize("faults", FAULTS)
def test_webhook(tmp_path: Path, faults: int) -> None:
    place = Webhook(World(tmp_path))
    taken: dict[str, Any] = {}
    with Breaking(place.server.server_port, seed=faults, share=0.7, reach=5_000) as line:
        place.receiver.on_body = lambda key, body: taken.setdefault(key, []).append(body)
        sink = sinks.webhook(f"http://127.0.0.1:{line.port}/hook", keyed=True, batch_rows=20, timeout=5, retry=PATIENT)
        log = disturbed_run(sink, place.output, line, faults)
    place.close()
    assert seen(place.rows(SHAPE)) == expected(log)
    assert all(all(body == bodies[0] for body in bodies) for bodies in taken.values()), "a key stood for two requests"


@pytest.mark.parametrize("faults", FAULTS)
def test_kafka(faults: int) -> None:
    """The broker tells its clients the address of the line, so that every byte of theirs goes over it."""
    broker = KafkaBroker()
    try:
        with Breaking(broker.port, seed=faults, share=1.0, reach=8_000) as line:
            line.heal()
            with (broker.home / "server.properties").open("a") as settings:
                settings.write(f"\nadvertised.listeners=PLAINTEXT://127.0.0.1:{line.port}\n")
            broker.start()
            place = Kafka(World(None, broker=broker))
            line.break_()
            sink = sinks.kafka_topic(f"127.0.0.1:{line.port}", place.output, partitions=3, retry=PATIENT)
            log = disturbed_run(sink, place.output, line, faults)
            assert seen(place.rows(SHAPE)) == expected(log)
    finally:
        broker.remove()


@pytest.fixture(scope="module")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The engine of ClickHouse behind its protocol, in a process of its own."""
    port, home = free_port(), tmp_path_factory.mktemp("clickhouse")
    command = [sys.executable, str(Path(__file__).parents[1] / "support" / "clickhouse_server.py"), str(port), str(home)]
    with subprocess.Popen(command, env=os.environ) as server:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    Server(f"http://127.0.0.1:{port}/sales").close()
                    break
                except Exception:
                    assert server.poll() is None and time.monotonic() < deadline, "ClickHouse did not start"
                    time.sleep(0.2)
            yield port
        finally:
            server.kill()


@pytest.mark.parametrize("faults", FAULTS)
def test_clickhouse(clickhouse_server: int, faults: int) -> None:
    name = Place(World(None)).output
    with Breaking(clickhouse_server, seed=faults, share=1.0, reach=15_000) as line:
        sink = sinks.clickhouse(f"http://127.0.0.1:{line.port}/sales", retry=PATIENT)
        log = disturbed_run(sink, name, line, faults)
    reader = Server(f"http://127.0.0.1:{clickhouse_server}/sales")
    rows = reader.client.query_arrow(f'select * from "{name}"').to_pylist()
    reader.close()
    assert seen(rows) == expected(log)


@pytest.mark.parametrize("faults", FAULTS)
def test_redis(redis_server: RedisServer, tmp_path: Path, faults: int) -> None:
    world = World(tmp_path)
    world.redis_server = redis_server
    place = Redis(world)
    with Breaking(redis_server.port, seed=faults, share=1.0, reach=600) as line:
        log = disturbed_run(sinks.redis(f"redis://127.0.0.1:{line.port}/0", retry=PATIENT), place.output, line, faults)
    assert seen(place.rows(SHAPE)) == expected(log)


def stored(kind: str, port: int, name: str, path: Path) -> Any:
    """A sink into the object store at a port."""
    url, keys = f"http://127.0.0.1:{port}", {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    if kind == "delta":
        options = {**keys, "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "timeout": "10s"}
        return sinks.delta(f"s3://lake/{name}", storage_options=options, retry=PATIENT, compact_every=5)
    if kind == "iceberg":
        catalog = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"s3://lake/{name}", "s3.endpoint": url}
        access = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"}
        return sinks.iceberg({**catalog, **access}, "sales.totals", retry=PATIENT, compact_every=5)
    options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    return sinks.parquet(f"s3://k:s@lake/{name}?{options}", retry=PATIENT)


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_object_store(kind: str, object_store: ObjectStore, tmp_path: Path, faults: int) -> None:
    name = Place(World(tmp_path)).output
    with Breaking(object_store.port, seed=faults, share=0.15, reach=6_000) as line:
        log = disturbed_run(stored(kind, line.port, name, tmp_path), name, line, faults)
        # An Iceberg table remembers the address of nothing but its files, so it is read without the line.
        reader = stored(kind, object_store.port, name, tmp_path)
        rows = (reader.read(name, SHAPE) if kind == "parquet" else reader.read(SHAPE)).to_pylist()
    assert seen(rows) == expected(log)
