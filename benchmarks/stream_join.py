"""Spark's own left join of two streams and Eventide's over the same files, in the same batches, in one run; answers are compared.

    python benchmarks/stream_join.py [--rows 1000000] [--rounds 3] [--work DIR]

Both start from a warm session and read each side's Parquet from two directories, a file of each a batch. Spark: a watermark on both sides, the
condition on times, RocksDB state, append mode, Parquet sink. Eventide: its panes in Parquet in the state directory; once with `late=drop()`,
which lets in what Spark does, and once with lateness above the worst, of which Spark has no counterpart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import native
import numpy as np
import polars as pl

import eventide as ev
from eventide.engine.spark_session import local_session

LANES, BATCHES, SPAN = 2, 10, 600_000_000
BASE, SECOND = 1_700_000_000_000_000, 1_000_000
HI, BOUND, PROMPT = 60 * SECOND, 10 * SECOND, 2 * SECOND
"""A payment matches up to a minute after its order; most rows come within two seconds, well below the bound of both engines."""
SCHEMAS = {
    "orders": "order_id bigint, at timestamp, nth bigint, rupees bigint, slow boolean",
    "payments": "order_id bigint, at timestamp, nth bigint, bank string, slow boolean",
}


def sides(rows: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Orders, and payments of nine in ten of them; one row in a hundred comes minutes after its time (`slow`)."""
    rng = np.random.default_rng(7)
    ordered = BASE + np.sort(rng.integers(0, SPAN, rows))
    paid = np.where(rng.random(rows) < 0.9, ordered + rng.integers(0, HI, rows), BASE + rng.integers(0, SPAN, rows))
    keys = np.where((paid >= ordered) & (paid < ordered + HI), np.arange(rows), rows + np.arange(rows))
    own = (("orders", ordered, np.arange(rows), "rupees"), ("payments", paid, keys, "bank"))
    for name, times, key, column in own:
        slow = rng.random(rows) < 0.01
        arrived = times + np.where(slow, rng.integers(100 * SECOND, 300 * SECOND, rows), rng.integers(0, PROMPT, rows))
        value = rng.integers(1, 100_000, rows)
        cells = {"order_id": key, "at": pl.Series(times).cast(pl.Datetime("us", "UTC")), "nth": np.arange(rows)}
        said = value if column == "rupees" else [f"bank-{number % 20}" for number in value]
        yield name, pl.DataFrame({**cells, column: said, "slow": slow, "arrived": arrived}).sort("arrived")


def write_streams(root: Path, rows: int) -> None:
    for name, frame in sides(rows):
        end = int(frame["arrived"].max()) + 1  # type: ignore[arg-type]
        nth = (pl.col("arrived") - BASE) * BATCHES // (end - BASE)
        parts = frame.with_columns(nth.alias("batch"), (pl.col("nth") % LANES).alias("lane"))
        for (batch, lane), part in parts.partition_by("batch", "lane", as_dict=True).items():
            path = root / name / f"lane-{lane}" / f"{batch:04}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            part.drop("arrived", "batch", "lane").write_parquet(path, compression="lz4")
            moment = BASE / 1e6 + batch * LANES + lane
            os.utime(path, (moment, moment))


def spark_join(spark: Any, root: Path, work: Path) -> float:
    from pyspark.sql import functions as F

    def side(name: str, alias: str) -> Any:
        rows = spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", str(LANES))
        read = rows.option("recursiveFileLookup", "true").parquet(str(root / name))
        return read.withWatermark("at", "10 seconds").alias(alias)

    near = F.expr("o.order_id = p.order_id AND p.at BETWEEN o.at AND o.at + interval 60 seconds")
    pairs = side("orders", "o").join(side("payments", "p"), near, "left")
    shown = pairs.select(F.col("o.nth").alias("order"), F.col("p.nth").alias("payment"), "o.at", "rupees", "bank")
    native.keep_in_rocksdb(spark)
    started = time.perf_counter()
    native.write(shown, work)
    return time.perf_counter() - started


def eventide_join(spark: Any, root: Path, work: Path, late: Any) -> float:
    orders, payments = (
        ev.files(
            name, str(root / name), schema=SCHEMAS[name], event_time="at", lane="directory", files_per_batch=LANES,
            watermark=ev.bounded("10 seconds"), max_ahead=None,
        )
        for name in SCHEMAS
    )  # fmt: skip
    paid = orders.join(payments, on="order_id", within=("0 s", "60 s"), how="left", late=late, prefix=("order_", "payment_"))
    pipeline = ev.Pipeline("shop", paid.to("paid"), state=str(work / "state"))
    started = time.perf_counter()
    pipeline.run(spark)
    return time.perf_counter() - started


def of_spark(work: Path) -> pl.DataFrame:
    return pl.read_parquet(str(work / "out" / "*.parquet")).select("order", "payment")


def of_eventide(work: Path) -> tuple[pl.DataFrame, int]:
    """What stands, and how many null rows were taken back."""
    panes = pl.read_parquet(str(work / "state" / "panes" / "paid" / "**" / "*.parquet"))
    gone = panes.filter(pl.col("op") == "retract")
    standing = panes.filter(pl.col("op") == "insert").join(gone, on="window_id", how="anti")
    assert gone["payment_nth"].null_count() == len(gone), "only null rows are taken back"
    return standing.select(pl.col("order_nth").alias("order"), pl.col("payment_nth").alias("payment")), len(gone)


def batch_join(root: Path) -> pl.DataFrame:
    """All pairs that match, and orders without any, whether a slow row is in it, and whether both engines must have heard all of it."""
    orders, payments = (pl.read_parquet(str(root / name / "**" / "*.parquet")) for name in SCHEMAS)
    near = (pl.col("at_paid") >= pl.col("at")) & (pl.col("at_paid") <= pl.col("at") + pl.duration(microseconds=HI))
    pairs = orders.join(payments, on="order_id", how="left", suffix="_paid").filter(near)
    alone = orders.join(pairs, on="nth", how="anti")
    both = pl.concat([pairs, alone], how="diagonal").with_columns(pl.col("slow") | pl.col("slow_paid").fill_null(False))
    return both.select(pl.col("nth").alias("order"), pl.col("nth_paid").alias("payment"), "slow", "at")


def compared(root: Path, theirs: pl.DataFrame, dropping: pl.DataFrame, correcting: pl.DataFrame, taken_back: int) -> str:
    """Where nothing was slow all agree with the batch join; where it was, ours with lateness still does."""
    whole = batch_join(root)
    sure = whole.filter(pl.col("at") < pl.lit(BASE + SPAN - HI - 3 * BOUND).cast(pl.Datetime("us", "UTC")))
    prompt = sure.filter(~pl.col("slow").any().over("order"))
    on = ["order", "payment"]
    for name, found in (("spark", theirs), ("drop", dropping), ("accumulate", correcting)):
        assert found.n_unique() == len(found), f"{name}: a pair was said twice"
        mine = found.join(prompt.select("order").unique(), on="order", how="semi")
        assert mine.sort(on).equals(prompt.select(on).sort(on)), f"{name}: differs from the batch join where nothing was slow"
    mine = correcting.join(sure.select("order").unique(), on="order", how="semi")
    assert mine.sort(on).equals(sure.select(on).sort(on)), "with lateness above the worst, all is the batch join"
    wrong = theirs.filter(pl.col("payment").is_null()).join(sure.drop_nulls("payment"), on="order", how="semi")
    shown = correcting.join(wrong.select("order"), on="order", how="semi")
    assert len(wrong) and taken_back and shown["payment"].null_count() == 0
    nulls = prompt["payment"].null_count()
    return (
        f"{len(prompt) - nulls:,} pairs and {nulls:,} null rows of prompt rows are the same in all three; {len(wrong):,} null rows of Spark are "
        f"wrong for ever; ours stated and took back {taken_back:,}, and every order stands as in the batch join"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="on each side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("artifacts/stream-join"))
    chosen = parser.parse_args()
    root, warm = chosen.work / f"data-{chosen.rows}", chosen.work / "warm"
    for place, rows in ((root, chosen.rows), (warm, 20_000)):
        if not place.exists():
            write_streams(place, rows)
    spark = local_session(name="stream-join")
    ways = {
        "spark": lambda given, work: spark_join(spark, given, work),
        "drop": lambda given, work: eventide_join(spark, given, work, ev.drop()),
        "accumulate": lambda given, work: eventide_join(spark, given, work, ev.accumulate("10 minutes")),
    }
    for name, way in ways.items():
        shutil.rmtree(chosen.work / f"warm-{name}", ignore_errors=True)
        way(warm, chosen.work / f"warm-{name}")
    ratios: dict[str, list[float]] = {"drop": [], "accumulate": []}
    for round_ in range(chosen.rounds):
        took = {}
        for name, way in ways.items():
            shutil.rmtree(chosen.work / name, ignore_errors=True)
            took[name] = way(root, chosen.work / name)
        for name, found in ratios.items():
            found.append(took["spark"] / took[name])
        print(f"round {round_}: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items()), flush=True)
    correcting, taken_back = of_eventide(chosen.work / "accumulate")
    print(compared(root, of_spark(chosen.work / "spark"), of_eventide(chosen.work / "drop")[0], correcting, taken_back))
    print(json.dumps({f"spark / {name}": round(statistics.median(found), 2) for name, found in ratios.items()}))
    spark.stop()


if __name__ == "__main__":
    main()
