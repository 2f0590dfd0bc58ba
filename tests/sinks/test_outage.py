"""A sink that is down, slow, full or locked: nothing is lost, nothing is doubled, nothing is half applied."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventide import sinks
from eventide.errors import SinkRefused, SinkUnavailable
from eventide.sinks import Retry
from eventide.testing.broker import KafkaBroker
from tests.sinks.panes import SHAPE, batch, delivery, disturbed, expected, pane, random_log, seen
from tests.sinks.places import Duck, Kafka, Parquet, Postgres, Sqlite, World
from tests.support.postgres import PASSWORD, PostgresServer

PANES = [p for number in range(200) for p in random_log(number)]
PATIENT = Retry(give_up_after=60, first=0.05, longest=0.5)
IMPATIENT = Retry(give_up_after=0.3, first=0.05)


@pytest.fixture
def own_postgres() -> Any:
    server = PostgresServer().start()
    yield server
    server.remove()


def until(condition: Any, seconds: float = 30) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Outage(threading.Thread):
    """Takes something down, and brings it back once the writer has noticed."""

    def __init__(self, server: Any, how: signal.Signals, noticed: Any, at_least: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.server, self.how, self.noticed, self.at_least = server, how, noticed, at_least

    def run(self) -> None:
        started = time.monotonic()
        self.server.stop(self.how)
        until(self.noticed)
        time.sleep(max(0.0, self.at_least - (time.monotonic() - started)))
        self.server.start()


def postgres_outage(server: PostgresServer, at_least: float) -> dict[str, Any]:
    """Deliveries with the server stopped in the middle of one; gives the table that readers then see."""
    tries: list[float] = []

    def slept(seconds: float) -> None:
        tries.append(seconds)
        time.sleep(seconds)

    retry = Retry(give_up_after=90, first=0.05, longest=0.5, sleep=slept)
    place = Postgres(World(None, postgres_server=server))
    writer = place.sink(retry=retry).open(place.output, SHAPE)
    deliveries = disturbed(PANES, seed=3, cuts=8)
    apply, outages = writer.database.apply, []

    class Cut(type(writer.database)):  # the server goes away between COPY and MERGE
        def apply(self, *arguments: Any, **named: Any) -> None:
            if not outages:
                outages.append(Outage(server, signal.SIGQUIT, lambda: len(tries) >= 2, at_least))
                outages[0].start()
                until(lambda: server.process is None)
            super().apply(*arguments, **named)

    assert apply
    for number, panes in enumerate(deliveries):
        if number == 3:
            writer.database = Cut(writer.database.dsn)
        writer.deliver(batch(panes), delivery(place.output, number))
    writer.close()
    outages[0].join()
    assert len(tries) >= 2
    return seen(place.rows(SHAPE))


def test_postgres_stopped_in_the_middle_of_a_delivery(own_postgres: PostgresServer) -> None:
    assert postgres_outage(own_postgres, at_least=1.0) == expected(PANES)


@pytest.mark.soak
def test_postgres_stopped_for_twenty_seconds(own_postgres: PostgresServer) -> None:
    assert postgres_outage(own_postgres, at_least=20.0) == expected(PANES)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_kafka_stopped_and_restarted_in_the_middle_of_deliveries(how: signal.Signals) -> None:
    with KafkaBroker() as broker:
        place = Kafka(World(None, broker=broker))
        writer = place.sink(retry=PATIENT, partitions=3).open(place.output, SHAPE)
        deliveries = disturbed(PANES, seed=4, cuts=6)
        outage = None
        for number, panes in enumerate(deliveries):
            if number == 2:
                outage = Outage(broker, how, lambda: broker.pid is None, at_least=2.0)
                outage.start()
                until(lambda: broker.pid is None)
            writer.deliver(batch(panes), delivery(place.output, number))
        writer.close()
        outage.join()
        assert seen(place.rows(SHAPE)) == expected(PANES)
        records = place.records()
        assert len(records) >= sum(map(len, deliveries))


def test_a_broker_that_stays_away_is_named_in_time() -> None:
    broker = KafkaBroker().start()
    try:
        place = Kafka(World(None, broker=broker))
        writer = place.sink(retry=Retry(give_up_after=2)).open(place.output, SHAPE)
        broker.stop(signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(SinkUnavailable, match=place.output):
            writer.deliver(batch(PANES[:10]), delivery(place.output, 0))
        assert time.monotonic() - started < 20
        broker.start()
        writer.deliver(batch(PANES), delivery(place.output, 0))
        assert seen(place.rows(SHAPE)) == expected(PANES)
    finally:
        broker.remove()


def test_a_server_that_stays_away_is_named_in_time_without_its_password() -> None:
    dsn = f"postgresql://me:{PASSWORD}@127.0.0.1:1/x"
    with pytest.raises(SinkUnavailable, match="gave up after") as caught:
        sinks.postgres(dsn, retry=IMPATIENT).open("o", SHAPE)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in repr(sinks.postgres(dsn))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://eventide:wr0ng@127.0.0.1:{port}/postgres",
        "host=127.0.0.1 port={port} user=eventide password=wr0ng",
    ],
)
def test_wrong_credentials_fail_at_once_and_are_named(postgres_server: PostgresServer, dsn: str) -> None:
    with pytest.raises(SinkRefused, match="wrong user name or password") as caught:
        sinks.postgres(dsn.format(port=postgres_server.port)).open("o", SHAPE)
    assert "wr0ng" not in str(caught.value)


def test_a_missing_database_fails_at_once(postgres_server: PostgresServer) -> None:
    with pytest.raises(SinkRefused, match="does not exist"):
        sinks.postgres(postgres_server.dsn.replace("/postgres", "/nowhere")).open("o", SHAPE)


def test_missing_rights_fail_at_once(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("drop role if exists guest")
        connection.execute("create role guest login password 'guest'")
    dsn = f"postgresql://guest:guest@127.0.0.1:{postgres_server.port}/postgres"
    with pytest.raises(SinkRefused, match="permission denied"):
        sinks.postgres(dsn).open("o", SHAPE)


def test_a_value_that_does_not_fit_is_refused_and_nothing_is_applied(postgres_server: PostgresServer) -> None:
    place = Postgres(World(None, postgres_server=postgres_server))
    writer = place.sink().open(place.output, SHAPE)
    good, bad = pane("good", 0, total=1, n=1), {**pane("bad", 0, total=1, n=1), "bank": "nul \0 byte"}
    with pytest.raises(
        SinkRefused, match=r"invalid byte sequence(?s:.*)column bank(?s:.*)no zero byte in a text: take it out in a \.map"
    ):
        writer.deliver(batch([good, bad]), delivery(place.output, 0))
    assert place.rows(SHAPE) == []
    writer.deliver(batch([good]), delivery(place.output, 0))
    assert len(place.rows(SHAPE)) == 1


def named_in_time(writer: Any, place: Postgres, said: str) -> None:
    """A delivery that something at the server holds up for ever is given up, and can be made later."""
    started = time.monotonic()
    with pytest.raises(SinkUnavailable, match=said):
        writer.deliver(batch(PANES), delivery(place.output, 0))
    assert time.monotonic() - started < 20


def test_a_lock_that_nobody_lets_go_of_is_named_in_time(postgres_server: PostgresServer) -> None:
    place = Postgres(World(None, postgres_server=postgres_server))
    writer = place.sink(retry=IMPATIENT).open(place.output, SHAPE)
    with psycopg.connect(postgres_server.dsn) as other:
        other.execute(f'lock table "{place.output}_panes" in access exclusive mode')
        named_in_time(writer, place, "lock timeout")
    writer.deliver(batch(PANES), delivery(place.output, 0))
    assert seen(place.rows(SHAPE)) == expected(PANES)


def test_a_statement_that_never_ends_is_named_in_time(postgres_server: PostgresServer) -> None:
    place = Postgres(World(None, postgres_server=postgres_server))
    writer = place.sink(retry=IMPATIENT).open(place.output, SHAPE)
    with psycopg.connect(postgres_server.dsn, autocommit=True) as other:
        other.execute(
            "create or replace function stuck() returns trigger as 'begin perform pg_sleep(600); return new; end' language plpgsql"
        )
        other.execute(f'create trigger stuck before insert on "{place.output}_panes" for each row execute function stuck()')
        named_in_time(writer, place, "statement timeout")
        other.execute(f'drop trigger stuck on "{place.output}_panes"')
    writer.deliver(batch(PANES), delivery(place.output, 0))
    assert seen(place.rows(SHAPE)) == expected(PANES)


def test_time_outs_of_the_dsn_stay_and_a_large_delivery_gets_more_time(postgres_server: PostgresServer) -> None:
    def limits(dsn: str, rows: int) -> tuple[str, str]:
        database = sinks.postgres(dsn, retry=Retry(give_up_after=30)).database()
        with closing(database.connect()) as connection, connection.transaction():
            database.allow(connection, rows)
            lock, statement = (connection.execute(f"show {name}_timeout").fetchone()[0] for name in ("lock", "statement"))
            return lock, statement

    assert limits(postgres_server.dsn, 0) == ("30s", "30s")
    assert limits(postgres_server.dsn, 30_000) == ("30s", "1min")
    own = f"{postgres_server.dsn}?options=-c%20statement_timeout%3D7s%20-c%20lock_timeout%3D3s"
    assert limits(own, 1_000_000) == ("3s", "7s")


def test_a_full_sqlite_file_is_unavailable_and_rolled_back(tmp_path: Any) -> None:
    place = Sqlite(World(tmp_path))
    writer = place.sink(retry=IMPATIENT).open(place.output, SHAPE)
    writer.deliver(batch([pane("w", 0, total=1, n=1)]), delivery(place.output, 0))
    connect = type(writer.database).connect

    class Full(type(writer.database)):
        def connect(self) -> sqlite3.Connection:
            connection = connect(self)
            connection.execute("pragma max_page_count = 12")
            return connection

    writer.close()
    healthy, writer.database = writer.database, Full(place.path)
    with pytest.raises(SinkUnavailable, match=r"full.*nothing"):
        writer.deliver(batch(PANES), delivery(place.output, 1))
    assert len(place.rows(SHAPE)) == 1
    writer.database = healthy
    writer.deliver(batch(PANES), delivery(place.output, 1))
    assert len(place.rows(SHAPE)) == 1 + len(expected(PANES))


def test_a_locked_sqlite_file_is_waited_for(tmp_path: Any) -> None:
    place = Sqlite(World(tmp_path))
    writer = place.sink(retry=PATIENT).open(place.output, SHAPE)
    with closing(sqlite3.connect(place.path, check_same_thread=False, isolation_level=None)) as other:
        other.execute("begin immediate")
        release = threading.Timer(0.5, lambda: other.execute("commit"))
        release.start()
        writer.deliver(batch(PANES), delivery(place.output, 0))
        release.join()
    assert seen(place.rows(SHAPE)) == expected(PANES)


def test_a_locked_duckdb_file_is_waited_for(tmp_path: Any) -> None:
    """A DuckDB file belongs to one process at a time; another one that reads it is waited for."""
    import sys

    place = Duck(World(tmp_path))
    writer = place.sink(retry=PATIENT).open(place.output, SHAPE)
    hold = f"import duckdb; c = duckdb.connect({place.path!r}); print('held', flush=True); input(); c.close()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline().strip() == "held"
        release = threading.Timer(0.5, lambda: other.communicate("\n"))
        release.start()
        writer.deliver(batch(PANES), delivery(place.output, 0))
        release.join()
    assert seen(place.rows(SHAPE)) == expected(PANES)


@pytest.fixture
def tiny_disk(tmp_path: Any) -> Any:
    """A file system of 200 KB."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("a small file system can be mounted by root only")
    where = tmp_path / "tiny"
    where.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(where)], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_a_full_disk_leaves_parquet_as_it_was(tiny_disk: Any) -> None:
    place = Parquet(World(tiny_disk))
    writer = place.sink(retry=IMPATIENT).open(place.output, SHAPE)
    writer.deliver(batch([pane("w", 0, total=1, n=1)]), delivery(place.output, 0))
    many = [pane(f"{os.urandom(30).hex()}", 0, slot=i, total=i, n=i) for i in range(5000)]
    with pytest.raises(SinkUnavailable, match=r"No space left on device.*nothing"):
        writer.deliver(batch(many), delivery(place.output, 1))
    assert len(place.rows(SHAPE)) == 1
    writer.deliver(batch([pane("x", 0, total=1, n=1)]), delivery(place.output, 1))
    assert len(place.rows(SHAPE)) == 2


def test_a_full_disk_leaves_sqlite_as_it_was(tiny_disk: Any) -> None:
    place = Sqlite(World(tiny_disk))
    writer = place.sink(retry=IMPATIENT).open(place.output, SHAPE)
    writer.deliver(batch([pane("w", 0, total=1, n=1)]), delivery(place.output, 0))
    many = [pane(f"{os.urandom(30).hex()}", 0, slot=i, total=i, n=i) for i in range(5000)]
    with pytest.raises(SinkUnavailable, match="nothing"):
        writer.deliver(batch(many), delivery(place.output, 1))
    assert len(place.rows(SHAPE)) == 1
