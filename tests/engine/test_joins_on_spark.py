"""A join on Spark into SQLite: a row that stood without a match is retracted when a late one matches it; the archive gives the same pairs."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
from feeding import at

import eventide as ev

WHEN = pl.Datetime("us", "UTC")
ORDERS = ((0, 0, "a", 10), (1, 1, "b", 20), (2, 2, "c", 30)), ((20, 20, "d", 40),), ((60, 60, "e", 50), (0, 63, "f", 60))
PAYMENTS = ((3, 3, "a", "x"), (4, 4, "a", "y")), ((21, 21, "z", "y"),), ((5, 22, "b", "x"), (61, 62, "e", "z"))


def land(root: Path, name: str, value: str, kind: Any, files: Any, first: int = 0) -> None:
    (root / name).mkdir(exist_ok=True)
    for number, rows in enumerate(files, start=first):
        facts = [(at(time), at(came), order, what) for time, came, order, what in rows]
        schema = {"at": WHEN, "came": WHEN, "order_id": pl.String, value: kind}
        path = root / name / f"{number:03d}.parquet"
        pl.DataFrame(facts, schema=schema, orient="row").write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def shop(root: Path) -> ev.Pipeline:
    orders, payments = (
        ev.files(
            name, str(root / name), schema=f"at timestamp, came timestamp, order_id string, {value}", event_time="at", arrival="came",
            watermark=ev.bounded("0 s"), files_per_batch=1,
        )
        for name, value in (("orders", "rupees bigint"), ("payments", "bank string"))
    )  # fmt: skip
    paid = orders.join(
        payments, on="order_id", within=("0 s", "10 s"), how="left", late=ev.accumulate("20 s", refused=ev.divert()),
        prefix=("order_", "payment_"),
    )  # fmt: skip
    return ev.Pipeline(
        "shop",
        paid.to("paid", ev.sqlite(str(root / "out.db"))),
        state=str(root / "state"),
        archive=str(root / "archive"),
        buckets=2,
    )


def standing(pipeline: ev.Pipeline, spark: Any) -> dict[str, Any]:
    rows = [row.asDict() for row in pipeline.panes(spark).collect()]
    gone = {row["window_id"] for row in rows if row["op"] == "retract"}
    return {r["window_id"]: (r["order_id"], r["order_rupees"], r["payment_bank"]) for r in rows if r["window_id"] not in gone}


def test_a_null_row_is_retracted_in_sqlite_and_a_replay_gives_the_same_pairs(spark: Any, tmp_path: Path) -> None:
    pipeline = shop(tmp_path)
    land(tmp_path, "orders", "rupees", pl.Int64, ORDERS[:2])
    land(tmp_path, "payments", "bank", pl.String, PAYMENTS[:2])
    pipeline.run(spark)
    land(tmp_path, "orders", "rupees", pl.Int64, ORDERS[2:], first=2)
    land(tmp_path, "payments", "bank", pl.String, PAYMENTS[2:], first=2)
    handle = pipeline.run(spark, drain=True)
    with sqlite3.connect(tmp_path / "out.db") as there:
        shown = sorted(there.execute("SELECT order_id, order_rupees, payment_bank FROM paid").fetchall(), key=repr)
    assert shown == [("a", 10, "x"), ("a", 10, "y"), ("b", 20, "x"), ("c", 30, None), ("d", 40, None), ("e", 50, "z")]
    said = [(r["op"], r["order_id"], r["payment_bank"]) for r in pipeline.panes(spark).collect() if r["order_id"] == "b"]
    assert sorted(said, key=repr) == [("insert", "b", "x"), ("insert", "b", None), ("retract", "b", None)]
    (late,) = pipeline.late(spark).collect()
    assert (late["order_id"], late["rupees"], late["bank"]) == ("f", 60, None)
    done = pipeline.backfill(spark=spark)
    assert standing(done.pipeline, spark) == standing(pipeline, spark)
    assert done.outputs["paid"]["rows_refused"] == handle.outputs["paid"]["rows_refused"] == 1
