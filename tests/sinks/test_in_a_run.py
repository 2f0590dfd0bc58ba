"""Sinks at the end of a whole run: side streams, outages between batches, and names and values that a user may well have."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide.engine.run import Run
from eventide.sinks import PaneShape, Retry
from eventide.testing.broker import KafkaBroker
from tests.sinks.places import Kafka, Parquet, Place, Postgres, Sqlite, World
from tests.support.postgres import PASSWORD, PostgresServer

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
IMPATIENT = Retry(give_up_after=1, first=0.1)
SHAPE = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()), ("n", pa.int64())))
SCHEMA = "at bigint, arrived bigint, bank string, paise bigint"


def land(landing: Path, number: int, lines: list[Any]) -> None:
    """A file of JSON lines; texts are written as they are."""
    landing.mkdir(exist_ok=True)
    path = landing / f"{number}.json"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    os.utime(path, (1_760_000_000 + number, 1_760_000_000 + number))


def paid(second: int, paise: int, arrived: int | None = None, bank: str = "a") -> dict[str, Any]:
    return {"at": BASE + second * SECOND, "arrived": BASE + (arrived or second) * SECOND, "bank": bank, "paise": paise}


def totals(landing: Path) -> Any:
    source = ev.files(
        "paid", str(landing), format="json", schema=SCHEMA, event_time="at", arrival="arrived", watermark=ev.ascending(),
        files_per_batch=1,
    )  # fmt: skip
    return source.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"), n=ev.count())


@pytest.mark.parametrize("kind", [Kafka, Parquet, Sqlite, Postgres], ids=lambda kind: kind.name)
def test_late_rows_and_dead_letters_go_where_they_are_sent(
    spark: Any, tmp_path: Path, kind: type[Place], request: pytest.FixtureRequest
) -> None:
    world = World(tmp_path, **{need: request.getfixturevalue(need) for need in kind.needs})
    late, dead = kind(world), kind(world)
    awkward = 'x\'; drop table "late"; -- ₹'
    land(tmp_path / "in", 0, [paid(0, 1), "{oops", paid(30, 2), paid(1, 4, arrived=31, bank=awkward)])
    land(tmp_path / "in", 1, [paid(2, 8, arrived=32), {"bank": "a"}, paid(60, 16)])
    name = late.output  # the tables are called after the output and the pipeline
    output = totals(tmp_path / "in").to(name, late=ev.divert(late.sink()))
    pipeline = ev.Pipeline(dead.output, output, state=str(tmp_path / "state"), dead_letters=dead.sink())
    failed = False

    def fail_once(progress: Any) -> None:
        nonlocal failed
        if not failed:
            failed = True
            raise RuntimeError("after the first batch")

    with pytest.raises(Exception, match="after the first batch"):
        pipeline.run(spark, on_progress=fail_once)
    handle = pipeline.run(spark)
    assert (handle.rows["in"], handle.rows["dead"]) == (7, 2)
    rows = sorted((row["_offset"], row["bank"], row["paise"]) for row in late.logged(f"{name}_late"))
    assert rows == [(3, awkward, 4), (4, "a", 8)]
    letters = sorted(dead.logged(f"{dead.output}_dead_letters"), key=lambda row: row["offset"])
    assert [letter["offset"] for letter in letters] == [1, 5]
    assert all(letter["reason"] for letter in letters)


def down_and_up(spark: Any, tmp_path: Path, server: Any, place: Place, stop: Callable[[], None]) -> None:
    """One batch arrives, the sink goes away under the next, and comes back."""
    land(tmp_path / "in", 0, [paid(0, 1), paid(30, 2)])

    def made(**patience: Any) -> ev.Pipeline:
        output = totals(tmp_path / "in").to(place.output, place.sink(**patience), late=ev.retract("1 minute"))
        return ev.Pipeline("paid", output, state=str(tmp_path / "state"))

    before = made().run(spark).run.ledger.batch
    land(tmp_path / "in", 1, [paid(1, 4, arrived=31), paid(60, 8)])
    broken: list[str] = []

    def stopped(point: str) -> None:
        if point == "store" and not broken:
            broken.append(point)
            stop()

    run = Run(made(retry=IMPATIENT), spark, str(tmp_path / "state"), hook=stopped)
    run.open()
    with pytest.raises(Exception, match="SinkUnavailable") as caught:
        run.start(available_now=True).awaitTermination()
    written = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert PASSWORD not in str(caught.value) and PASSWORD.encode() not in written
    assert broken and run.ledger.batch == before, "a batch was committed that the sink did not take"
    run.close()
    server.start()
    assert made().run(spark).rows["in"] == 4
    rows = {str(row["window_start"])[-14:-6]: (row["total"], row["n"], row["sequence"]) for row in place.rows(SHAPE)}
    assert sorted(rows.values()) == [(2, 1, 0), (5, 2, 1)]


def test_postgres_away_in_a_batch_stops_it_before_the_commit_and_it_goes_on(spark: Any, tmp_path: Path) -> None:
    server = PostgresServer().start()
    try:
        place = Postgres(World(tmp_path, postgres_server=server))
        down_and_up(spark, tmp_path, server, place, lambda: server.stop(signal.SIGQUIT))
    finally:
        server.remove()


def test_kafka_away_in_a_batch_stops_it_before_the_commit_and_it_goes_on(spark: Any, tmp_path: Path) -> None:
    with KafkaBroker() as broker:
        place = Kafka(World(tmp_path, broker=broker))
        down_and_up(spark, tmp_path, broker, place, lambda: broker.stop(signal.SIGKILL))


ODD = 'it\'s "x"; drop table y --'


@pytest.mark.parametrize("kind", [Sqlite, Postgres], ids=lambda kind: kind.name)
def test_awkward_names_and_every_kind_of_value_from_source_to_table(
    spark: Any, tmp_path: Path, kind: type[Place], request: pytest.FixtureRequest
) -> None:
    """Keys called like columns of ours; decimals, instants, nulls, arrays and structs among the results."""
    world = World(tmp_path, **{need: request.getfixturevalue(need) for need in kind.needs})
    place = kind(world)
    instant = pl.Datetime("us", "UTC")
    at = pl.Series([BASE, BASE + SECOND, BASE + 60 * SECOND]).cast(instant)
    frame = pl.DataFrame(
        {
            "at": at,
            "sequence": ["₹ '1'", "₹ '1'", "end"],
            "window_start": [None, None, 7],
            ODD: [Decimal("12345678901234.55"), Decimal("0.45"), Decimal("1.00")],
            "seen": at,
            "nothing": pl.Series([None, None, None], dtype=pl.Int64),
            "place": [{"lat": 1.5, "names": ["a", None]}, {"lat": None, "names": []}, {"lat": 0.0, "names": ["z"]}],
        },
        schema_overrides={ODD: pl.Decimal(30, 2)},
    )
    (tmp_path / "in").mkdir()
    frame.write_parquet(tmp_path / "in" / "1.parquet")
    source = ev.files("paid", str(tmp_path / "in"), event_time="at", arrival="at", watermark=ev.ascending())
    results = source.window(ev.tumbling("10 seconds"), by=["sequence", "window_start"]).agg(
        **{ODD: ev.sum(ODD)}, last_seen=ev.max("seen"), nothing=ev.sum("nothing"), places=ev.collect("place"), n=ev.count()
    )
    ev.Pipeline("paid", results.to(place.output, place.sink(), late=ev.drop()), state=str(tmp_path / "state")).run(spark)
    (row,) = place.query(f"select * from {place.quoted(place.output)}")
    assert (row["sequence"], row["window_start"], row["_sequence"], row["n"]) == ("₹ '1'", None, 0, 2)
    assert Decimal(row[ODD]) == Decimal("12345678901235.00")
    seen = row["last_seen"] if isinstance(row["last_seen"], datetime) else datetime.fromisoformat(row["last_seen"])
    assert seen.replace(tzinfo=seen.tzinfo or UTC) == datetime(2025, 10, 9, 8, 53, 21, tzinfo=UTC)
    places = json.loads(row["places"]) if isinstance(row["places"], str) else row["places"]
    assert sorted(places, key=str) == sorted([{"lat": 1.5, "names": ["a", None]}, {"lat": None, "names": []}], key=str)
    assert row["nothing"] in (None, 0)
