"""One state, lived on and caught up on by turns: whoever begins, each goes on where the other stopped."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.testing.broker import KafkaBroker

BASE = 1_760_000_000
ORDERS = [("run", "start", "run", "start", "run"), ("start", "run", "start", "start", "run", "run")]
"""Catch up, live, catch up …; and live first."""


def table(root: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(root / "out.db") as base:
        return sorted(base.execute("select bank, total from totals").fetchall())


def pipeline(root: Path, source: Any) -> ev.Pipeline:
    tens = source.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"))
    output = tens.to("totals", ev.sqlite(str(root / "out.db")), late=ev.retract("1 hour", refused=ev.divert()))
    return ev.Pipeline("by turns", output, state=str(root / "state"))


def by_turns(spark: Any, made: ev.Pipeline, turns: tuple[str, ...], write: Callable[[int], None], root: Path) -> None:
    """Each turn finds the row of one more window; the one before it is then complete."""
    write(0)
    for turn, how in enumerate(turns, 1):
        write(turn)
        if how == "run":
            handle = made.run(spark)
        else:
            handle = made.start(spark, interval="100 milliseconds")
            end = time.monotonic() + 120
            while handle.rows.get("in", 0) <= turn:
                assert time.monotonic() < end and handle.query.isActive
                handle.query.awaitTermination(0.1)
            handle.stop()
        assert handle.rows["in"] == turn + 1
        assert table(root) == [(f"bank {i}", 2**i) for i in range(turn)]


@pytest.mark.parametrize("turns", ORDERS, ids="-".join)
def test_files_are_lived_on_and_caught_up_on_by_turns(spark: Any, tmp_path: Path, turns: tuple[str, ...]) -> None:
    def write(turn: int) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        times = pl.Series([(BASE + 10 * turn) * 1_000_000]).cast(pl.Datetime("us", "UTC"))
        frame = pl.DataFrame({"at": times, "bank": [f"bank {turn}"], "paise": [2**turn]})
        frame.write_parquet(tmp_path / f"{turn}.aside")
        (tmp_path / f"{turn}.aside").rename(tmp_path / "in" / f"{turn}.parquet")

    source = ev.files(
        "paid", str(tmp_path / "in"), schema="at timestamp, bank string, paise long", event_time="at", watermark=ev.ascending()
    )
    by_turns(spark, pipeline(tmp_path, source), turns, write, tmp_path)


@pytest.mark.parametrize("turns", ORDERS, ids="-".join)
def test_topics_are_lived_on_and_caught_up_on_by_turns(
    spark: Any, broker: KafkaBroker, tmp_path: Path, turns: tuple[str, ...]
) -> None:
    from confluent_kafka import Producer

    topic = f"turns-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.servers})

    def write(turn: int) -> None:
        body = {"at": (BASE + 10 * turn) * 1_000_000, "bank": f"bank {turn}", "paise": 2**turn}
        producer.produce(topic, json.dumps(body).encode())
        assert producer.flush(30) == 0

    source = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.json("at long, bank string, paise long"), event_time="at",
        time_unit="us", watermark=ev.ascending(),
    )  # fmt: skip
    by_turns(spark, pipeline(tmp_path, source), turns, write, tmp_path)


def test_to_catch_up_with_nothing_new_changes_nothing_and_goes_on(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = pl.Series([BASE * 1_000_000, (BASE + 10) * 1_000_000]).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"at": times, "bank": ["a", "b"], "paise": [1, 2]}).write_parquet(tmp_path / "in" / "1.parquet")
    made = pipeline(tmp_path, ev.files("paid", str(tmp_path / "in"), event_time="at", watermark=ev.ascending()))
    for _ in range(3):
        assert made.run(spark).rows["in"] == 2
        assert table(tmp_path) == [("a", 1)]


def test_relative_paths_lead_from_where_the_run_was_started_and_not_from_where_sparks_process_stands(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's JVM and its workers stay where they were begun; a notebook or a test moves on."""
    monkeypatch.chdir(tmp_path)
    name = uuid.uuid4().hex
    Path(name, "in").mkdir(parents=True)
    times = pl.Series([(BASE + 10 * turn) * 1_000_000 for turn in range(3)]).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"at": times, "bank": ["a"] * 3, "paise": [1, 2, 4]}).write_parquet(f"{name}/in/0.parquet")
    source = ev.files("rows", f"{name}/in", event_time="at", watermark=ev.ascending())
    tens = source.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"))
    output = tens.to("totals", ev.sqlite(f"{name}/out.db"), late=ev.drop())
    made = ev.Pipeline("relative", output, state=f"{name}/state", archive=f"{name}/archive")
    assert made.run(spark, drain=True).rows["in"] == 3
    assert [total for _, total in table(tmp_path / name)] == [1, 2, 4]
    assert sorted(path.name for path in Path(name, "state").iterdir()) >= ["checkpoint", "data", "journal", "lease"]
    assert len(list(Path(name).glob("archive/**/*.parquet"))) == 1
    assert made.archived(spark).count() == 3
