"""Kafka, the registry's service, a pipeline that runs the whole time, and the command line: both worked changes, all phases, both ways.

The pipeline is started once, before the migration begins, and names only the new field. It is never restarted. Producers write what the
phase asks for: the old shape, both, the new one. What it adds up must be what was sent, minute by minute, in every phase.
"""

from __future__ import annotations

import json
import sqlite3
import time
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

import eventide as ev
from eventide.migration import DriftWatch, Upcast, open_migration
from eventide.migration.data.client import MigrationClient
from eventide.migration.rollout.service import Migrations
from eventide.registry.client import RegistryClient
from eventide.registry.serialisers import AvroDeserialiser, AvroSerialiser
from eventide.registry.service import Options
from tests.migration.desk import CREATED_AT, FARE, PRICING, SIGNUP_DATE, USER_ID, field_names, record
from tests.migration.test_service import QUICK, Shell
from tests.registry.conftest import InThread

START = datetime(2026, 3, 1, tzinfo=UTC)
TS = {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}}


class World:
    """A topic, its subject, a producer that can write either shape, and what it has written."""

    def __init__(self, broker, service, topic: str, schema: str) -> None:
        from confluent_kafka import Producer

        self.broker, self.topic, self.subject = broker, topic, f"{topic}-value"
        broker.create_topic(topic, partitions=2, retention_ms="-1")
        self.registry = RegistryClient(service.url, name="producer")
        self.registry.register(self.subject, schema)
        self.url, self.shell = service.url, Shell(service.url)
        self._producer = Producer({"bootstrap.servers": broker.servers})
        self.minute, self.sent, self.records = 0, {}, []

    def produce(self, make, count: int = 40) -> None:
        """A minute of events, in the schema that is the latest now; `make` gives the record and its value."""
        schema = self.registry.latest(self.subject).text
        write = AvroSerialiser(self.registry, schema, register=False)
        begin = START + timedelta(minutes=self.minute)
        for i in range(count):
            row, value = make(len(self.records))
            row = {**row, "ts": begin + timedelta(seconds=i)}
            body = write({f: row.get(f) for f in field_names(json.loads(schema))}, self.topic)
            self._producer.produce(self.topic, body, partition=i % 2)
            self.records.append(body)
            self.sent[begin] = self.sent.get(begin, 0) + value
        self._producer.flush()
        self.minute += 1

    def settled(self, database: str, seconds: float = 120) -> None:
        """Wait until every minute but the last is in the sink, and find there what was sent."""
        wanted = {at: total for at, total in self.sent.items() if at < START + timedelta(minutes=self.minute - 1)}
        end = time.monotonic() + seconds
        while (found := totals(database)) != wanted:
            assert time.monotonic() < end, (found, wanted)
            time.sleep(0.2)


def totals(database: str) -> dict[datetime, int]:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT window_start, total FROM totals").fetchall()
    except sqlite3.OperationalError:
        return {}
    return {_instant(at): int(total) for at, total in rows}


def _instant(at) -> datetime:
    if isinstance(at, int):
        return datetime.fromtimestamp(at / 1_000_000, UTC)
    found = datetime.fromisoformat(at)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@pytest.fixture
def service(swift_path):
    running = InThread(f"sqlite:///{swift_path}/registry.db", Options(extensions=(Migrations(),)))
    yield running
    running.stop()


def pipeline(world: World, name: str, adapted, tmp_path):
    reader = MigrationClient(world.registry).reader(name)
    source = ev.kafka(
        world.topic, servers=world.broker.servers, topic=world.topic, value=ev.avro(world.url, reader=reader),
        event_time="ts", watermark=ev.bounded("1 second"),
    )  # fmt: skip
    watch = DriftWatch.of(open_migration(name, world.url), registry=world.url)
    sums = adapted(source.map(watch)).window(ev.tumbling("1 minute")).agg(total=ev.sum("amount"))
    output = sums.to("totals", ev.sqlite(f"{tmp_path}/out.db"), late=ev.accumulate("1 hour"))
    return ev.Pipeline(world.topic, output, state=f"{tmp_path}/state"), watch, f"{tmp_path}/out.db"


def reads(world: World, consumer: str, columns: list[str]) -> None:
    """A consumer that decodes the last record and says what it selects."""
    with RegistryClient(world.url, name=consumer) as client:
        AvroDeserialiser(client)(world.records[-1])
        client.report_usage()
        MigrationClient(client).report_selected(world.subject, columns)


def there_and_back(
    world: World, name: str, database: str, old, both, new, consumers: list[str], paths: tuple[str, str]
) -> None:
    """Every phase forward and every rollback, with events of the right shape in each, then the contract."""
    shell, old_path, new_path = world.shell, *paths
    world.produce(old)
    shell("confirm", name, "--accept-guesses")
    for target in ("expand", "plan", "expand"):  # expand, roll back, expand again
        shell("rollback" if target == "plan" else "advance", name, "--to", target)
        world.produce(old)
    world.settled(database)
    shell("advance", name, "--to", "dual_write")
    world.produce(both)
    shell("rollback", name, "--to", "expand")
    world.produce(old)
    shell("advance", name, "--to", "dual_write")
    world.produce(both)
    world.produce(both)
    world.settled(database)
    _until(lambda: "SHUT" not in shell("status", name).split("gates to migrate:")[1].split("drift:")[0])
    for target in ("migrate", "dual_write", "migrate"):
        shell("rollback" if target == "dual_write" else "advance", name, "--to", target)
        world.produce(both)

    shell("declare", name, world.topic, "--reads", "either", "--owner", "the pipeline")
    for consumer in consumers:
        shell("declare", name, consumer, "--reads", "old", "--owner", "a team")
        reads(world, consumer, [old_path])
    assert f"of {len(consumers) + 1} consumers block" in shell("can-contract", name, exits=1)
    for place, consumer in enumerate(consumers):
        shell("declare", name, consumer, "--reads", "new")
        reads(world, consumer, [new_path])
        if place == len(consumers) // 2:
            world.produce(both)
            shell("declare", name, consumer, "--reads", "old")  # this one had trouble and goes back, alone
            reads(world, consumer, [old_path])
            assert consumer in shell("can-contract", name, exits=1)
            shell("declare", name, consumer, "--reads", "new")
            reads(world, consumer, [new_path])
    world.produce(both)
    world.settled(database)
    assert "read only the new shape" in shell("rollback", name, "--to", "expand", exits=1)
    assert "read only the new shape" in shell("abort", name, exits=1)
    # Records from before the dual write are still in the topic, and everybody who replays it has the adapter.
    assert "SHUT  retention" in shell("can-contract", name, exits=1)
    shell("edit", name, "--set", "upcaster=true")
    _until(lambda: shell.quiet("can-contract", name) == 0)
    for target in ("contract_ready", "migrate", "contract_ready"):
        shell("rollback" if target == "migrate" else "advance", name, "--to", target)
        world.produce(both)
    shell("contract", name, "--confirm", name)
    world.produce(new)
    world.produce(new)
    world.settled(database)
    assert new_path.partition(".")[0] in field_names(json.loads(world.registry.latest(world.subject).text))
    assert old_path not in field_names(json.loads(world.registry.latest(world.subject).text))
    assert moves(world, name) == THERE_AND_BACK


THERE_AND_BACK = [
    ("plan", "expand"), ("expand", "plan"), ("plan", "expand"),
    ("expand", "dual_write"), ("dual_write", "expand"), ("expand", "dual_write"),
    ("dual_write", "migrate"), ("migrate", "dual_write"), ("dual_write", "migrate"),
    ("migrate", "contract_ready"), ("contract_ready", "migrate"), ("migrate", "contract_ready"),
    ("contract_ready", "contracted"),
]  # fmt: skip
"""Every phase forward and every rollback, as the audit log must have them."""


def moves(world: World, name: str) -> list[tuple[str, str]]:
    log = world.registry.call("GET", "/eventide/v1/audit", subjectPrefix=world.subject, action="move_migration", limit=1_000)
    done = [line["detail"] for line in log if line["outcome"] == "done" and line["detail"]["migration"] == name]
    return [(move["from"], move["to"]) for move in done]


def _until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def test_the_worked_rename(broker, service, spark, tmp_path):
    world = World(broker, service, "migrated-users", record(USER_ID, SIGNUP_DATE, TS))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record(USER_ID, CREATED_AT, TS))
    world.shell(
        "plan", "migrated-users-value", str(wanted), "--name", "signup", "--rename", "signup_date=created_at", *QUICK[:4]
    )
    day = date(2025, 9, 14)

    def at(i):
        return day + timedelta(days=i % 5)

    def value(i):
        return (at(i) - date(2025, 1, 1)).days

    def old(i):
        return {"user_id": i, "signup_date": at(i)}, value(i)

    def new(i):
        return {"user_id": i, "created_at": datetime.combine(at(i), datetime.min.time(), UTC) + timedelta(hours=i % 24)}, value(
            i
        )

    def both(i):
        return {**old(i)[0], **new(i)[0]}, value(i)

    def adapted(source):
        migration = open_migration("signup", world.url)
        days = (pl.col("created_at").dt.date() - pl.date(2025, 1, 1)).dt.total_days()
        return source.map(Upcast.of(migration)).map(lambda rows: rows.with_columns(days.alias("amount")))

    made, watch, database = pipeline(world, "signup", adapted, tmp_path)
    running = made.start(spark, interval="500 milliseconds")
    try:
        there_and_back(world, "signup", database, old, both, new, ["growth", "crm", "billing"], ("signup_date", "created_at"))
        _until(lambda: running.rows["in"] == len(world.records))  # the sink hears of a batch before the ledger does
        assert running.rows.get("dead", 0) == 0
        status = MigrationClient(world.registry)("GET", "signup")
        assert (status["drift"]["drifted"], status["phase"]) == (0, "contracted")
        assert watch.total.counts["differ"] == 0 and watch.total.checked == len(world.records)
    finally:
        running.stop()


def test_the_ride_share_restructure_with_43_consumers(broker, service, spark, tmp_path):
    zone = {"name": "zone", "type": "string"}
    world = World(broker, service, "migrated-rides", record(zone, FARE, TS))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record(zone, PRICING, TS))
    said = world.shell("plan", "migrated-rides-value", str(wanted), "--name", "pricing", *QUICK[:4])
    assert "nest  fare_cents -> pricing.base, pricing.surge, pricing.tax   GUESS" in said

    def parts(i):
        return {"base": 500 + 7 * i, "surge": i % 3 * 100, "tax": i % 11}

    def fare(i):
        return sum(parts(i).values())

    def old(i):
        return {"zone": f"z{i % 4}", "fare_cents": fare(i)}, fare(i)

    def new(i):
        return {"zone": f"z{i % 4}", "pricing": parts(i)}, fare(i)

    def both(i):
        return {**old(i)[0], **new(i)[0]}, fare(i)

    def adapted(source):
        pricing = pl.col("pricing").struct
        total = pricing.field("base") + pricing.field("surge") + pricing.field("tax")
        return source.map(Upcast.of(open_migration("pricing", world.url))).map(
            lambda rows: rows.with_columns(total.alias("amount"))
        )

    made, watch, database = pipeline(world, "pricing", adapted, tmp_path)
    running = made.start(spark, interval="500 milliseconds")
    consumers = [f"team-{i:02d}" for i in range(42)]  # the pipeline is the 43rd
    try:
        there_and_back(world, "pricing", database, old, both, new, consumers, ("fare_cents", "pricing.base"))
        _until(lambda: running.rows["in"] == len(world.records))  # the sink hears of a batch before the ledger does
        assert running.rows.get("dead", 0) == 0
        status = MigrationClient(world.registry)("GET", "pricing")
        assert (status["drift"]["drifted"], len(status["consumers"])) == (0, 43)
        assert watch.total.counts["differ"] == 0 and watch.total.checked == len(world.records)
    finally:
        running.stop()


def test_a_topic_is_checked_on_the_command_line_and_drift_holds_the_migration(broker, service, spark, tmp_path):
    world = World(broker, service, "migrated-fares", record({"name": "ride", "type": "long"}, FARE, TS))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record({"name": "ride", "type": "long"}, PRICING, TS))
    world.shell("plan", "migrated-fares-value", str(wanted), "--name", "fares", *QUICK)
    world.shell("confirm", "fares", "--accept-guesses")
    for target in ("expand", "dual_write"):
        world.shell("advance", "fares", "--to", target)

    def both(i):
        parts = {"base": 100 + i, "surge": 10, "tax": 1 + (i == 33)}  # one tax is not in the fare
        return {"ride": i, "fare_cents": 111 + i, "pricing": parts}, 111 + i

    world.produce(both)
    topic = ["--topic", "migrated-fares", "--bootstrap", broker.servers, "--key", "ride"]
    said = world.shell("check", "fares", *topic, "--fail-on-drift", "--report", exits=1)
    assert "40 events: neither 0, agree 39, new only 0, old only 0, differ 1" in said and '"ride": 33' in said
    assert "1 of 40 events drift" in world.shell("advance", "fares", "--to", "migrate", exits=1)
    assert '"ride": 33' in world.shell("status", "fares")


def test_a_topic_with_records_from_before_the_dual_write_does_not_drift_by_them(broker, service, spark, tmp_path):
    world = World(broker, service, "migrated-early", record({"name": "ride", "type": "long"}, FARE, TS))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record({"name": "ride", "type": "long"}, PRICING, TS))
    world.produce(lambda i: ({"ride": i, "fare_cents": 100 + i}, 100 + i))
    time.sleep(0.01)
    world.shell("plan", "migrated-early-value", str(wanted), "--name", "early", *QUICK[:4])
    world.shell("confirm", "early", "--accept-guesses")
    for target in ("expand", "dual_write"):
        world.shell("advance", "early", "--to", target)
    time.sleep(0.01)
    world.produce(lambda i: ({"ride": i, "fare_cents": 100 + i, "pricing": {"base": 100 + i, "surge": 0, "tax": 0}}, 100 + i))
    check = ["check", "early", "--topic", "migrated-early", "--bootstrap", broker.servers, "--report", "--everything"]
    said = world.shell(*check, "--fail-on-drift")
    assert "40 events: neither 0, agree 40" in said and "40 events from before the dual write, which are no drift" in said
    world.shell("advance", "early", "--to", "migrate")
    # They are no drift, but they are there: the old shape may not go while somebody could replay them.
    assert "SHUT  retention" in world.shell("can-contract", "early", exits=1)


def test_a_change_given_up_in_any_phase_loses_nothing(broker, service, spark, tmp_path):
    ride = {"name": "ride", "type": "long"}
    world = World(broker, service, "migrated-given-up", record(ride, FARE, TS))
    shell = world.shell
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record(ride, PRICING, TS))

    def old(i):
        return {"ride": i, "fare_cents": 100 + i}, 100 + i

    def both(i):
        return {**old(i)[0], "pricing": {"base": 90 + i, "surge": 10, "tax": 0}}, 100 + i

    def planned(name):
        shell("plan", world.subject, str(wanted), "--name", name, *QUICK, "--set", "upcaster=true")
        shell("confirm", name, "--accept-guesses")

    def expand(name):
        shell("advance", name, "--to", "expand")
        world.produce(old)

    def dual_write(name):
        shell("advance", name, "--to", "dual_write")
        world.produce(both)

    def migrate(name):
        shell("check", name, "--topic", world.topic, "--bootstrap", broker.servers, "--report", "--fail-on-drift")
        shell("advance", name, "--to", "migrate")
        world.produce(both)

    def contract_ready(name):
        shell("declare", name, world.topic, "--reads", "either")
        world.produce(both)
        _until(lambda: shell.quiet("can-contract", name) == 0)
        shell("advance", name, "--to", "contract_ready")
        world.produce(both)

    def adapted(source):
        pricing = pl.col("pricing").struct
        total = pricing.field("base") + pricing.field("surge") + pricing.field("tax")
        return source.map(Upcast.of(open_migration("until-plan", world.url))).map(
            lambda rows: rows.with_columns(total.alias("amount"))
        )

    planned("until-plan")
    made, _, database = pipeline(world, "until-plan", adapted, tmp_path)
    running = made.start(spark, interval="500 milliseconds")
    way = (expand, dual_write, migrate, contract_ready)
    try:
        for far, last in enumerate(("plan", "expand", "dual_write", "migrate", "contract_ready")):
            name = f"until-{last}"
            planned(name)
            for step in way[:far]:
                step(name)
            for _ in range(2):
                shell("abort", name, "--withdraw")
            assert field_names(json.loads(world.registry.latest(world.subject).text)) == ["ride", "fare_cents", "ts"]
            assert moves(world, name)[-1] == (last, "aborted") and len(moves(world, name)) == far + 1
            world.produce(old)
        world.produce(old)
        world.settled(database)
        _until(lambda: running.rows["in"] == len(world.records))
        assert running.rows.get("dead", 0) == 0
    finally:
        running.stop()


def test_one_pipeline_is_moved_and_another_stays_as_it_was_deployed(broker, service, spark, tmp_path):
    """The pipeline that names the old field is deployed once, with the adapter, and reads on even after the field is gone."""
    ride = {"name": "ride", "type": "long"}
    world = World(broker, service, "migrated-one-by-one", record(ride, FARE, TS))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(record(ride, PRICING, TS))
    world.shell("plan", world.subject, str(wanted), "--name", "fare", *QUICK, "--set", "upcaster=true")
    world.shell("confirm", "fare", "--accept-guesses")
    pricing = pl.col("pricing").struct
    amounts = {"old": pl.col("fare_cents"), "new": pricing.field("base") + pricing.field("surge") + pricing.field("tax")}

    def deployed(side):
        def adapted(source):
            shape = Upcast.of(open_migration("fare", world.url), to=side)
            return source.map(shape).map(lambda rows: rows.with_columns(amounts[side].alias("amount")))

        (tmp_path / side).mkdir()
        return pipeline(world, "fare", adapted, tmp_path / side)

    def old(i):
        return {"ride": i, "fare_cents": 100 + i}, 100 + i

    def new(i):
        return {"ride": i, "pricing": {"base": 90 + i, "surge": 10, "tax": 0}}, 100 + i

    staying = deployed("old")
    world.produce(old)
    for target in ("expand", "dual_write"):
        world.shell("advance", "fare", "--to", target)
    world.produce(lambda i: ({**old(i)[0], **new(i)[0]}, 100 + i))
    world.shell("check", "fare", "--topic", world.topic, "--bootstrap", broker.servers, "--report", "--fail-on-drift")
    world.shell("advance", "fare", "--to", "migrate")
    world.shell("declare", "fare", world.topic, "--reads", "either")
    moved = deployed("new")
    for made, _, _ in (staying, moved):
        assert made.run(spark).rows["in"] == 80
    world.shell("advance", "fare", "--to", "contract_ready")
    world.shell("contract", "fare", "--confirm", "fare")
    world.produce(new)
    world.produce(new)
    for made, _, database in (staying, moved):
        handle = made.run(spark)
        assert (handle.rows["in"], handle.rows.get("dead", 0)) == (160, 0)
        world.settled(database)
