"""Native Spark and Eventide over the same files, in the same batches, in one run; answers are checked.

    python benchmarks/engine.py [--rows 10000000] [--work DIR] [--only tumbling-1k,tumbling-1m,sliding-1k]

Both start from a warm session and read Parquet from four directories, four files a batch. Native Spark: withWatermark + window +
groupBy, RocksDB state, append mode, Parquet sink. Eventide: one output with drop(), its panes in Parquet in the state directory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import polars as pl
from native import seconds

import eventide as ev
from eventide.engine.spark_session import local_session

LANES, SPAN = 4, 600_000_000
BASE = 1_700_000_000_000_000
CASES = {
    "tumbling-1k": (1_000, "60 seconds", None),
    "tumbling-1m": (1_000_000, "60 seconds", None),
    "sliding-1k": (1_000, "60 seconds", "5 seconds"),
}


def write_stream(root: Path, rows: int, keys: int, batches: int) -> None:
    rng = np.random.default_rng(7)
    per_file = rows // (LANES * batches)
    for lane in range(LANES):
        (root / f"lane-{lane}").mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        for lane in range(LANES):
            count = per_file
            arrived = BASE + SPAN * batch // batches + np.sort(rng.integers(0, SPAN // batches, count))
            late = rng.random(count) < 0.009
            happened = arrived - np.where(late, rng.integers(30_000_000, 120_000_000, count), rng.integers(0, 2_000_000, count))
            frame = pl.DataFrame(
                {
                    "ts": pl.Series(happened).cast(pl.Datetime("us", "UTC")),
                    "key": rng.integers(0, keys, count),
                    "value": rng.integers(0, 1_000, count),
                }
            )
            path = root / f"lane-{lane}" / f"{batch:04}.parquet"
            frame.write_parquet(path, compression="lz4")
            moment = BASE / 1e6 + batch * LANES + lane
            os.utime(path, (moment, moment))


def native(spark, root: Path, work: Path, size: str, slide: str | None) -> float:
    from pyspark.sql import functions as F

    schema = "ts timestamp, key bigint, value bigint"
    rows = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", str(LANES))
        .option("recursiveFileLookup", "true")
        .parquet(str(root))
    )
    window = F.window("ts", size, slide) if slide else F.window("ts", size)
    totals = (
        rows.withWatermark("ts", "10 seconds")
        .groupBy(window, "key")
        .agg(F.sum("value").alias("total"), F.count("*").alias("n"))
    )
    return seconds(spark, totals, work)


def ours(spark, root: Path, work: Path, size: str, slide: str | None) -> tuple[float, ev.Pipeline]:
    source = ev.files(
        "stream", str(root), schema="ts timestamp, key bigint, value bigint", event_time="ts", lane="directory",
        files_per_batch=LANES, watermark=ev.bounded("10 seconds"), max_ahead=None,
    )  # fmt: skip
    window = ev.sliding(size, slide) if slide else ev.tumbling(size)
    totals = source.window(window, by="key").agg(total=ev.sum("value"), n=ev.count())
    pipeline = ev.Pipeline("bench", totals.to("totals", late=ev.drop()), state=str(work / "state"))
    started = time.perf_counter()
    handle = pipeline.run(spark)
    elapsed = time.perf_counter() - started
    outputs = handle.outputs["totals"]
    rows = handle.rows
    assert rows["in"] == outputs["rows_on_time"] + outputs["rows_admitted"] + outputs["rows_refused"], (rows, outputs)
    return elapsed, pipeline


def check(root: Path, work: Path, size: str, slide: str | None) -> None:
    """Every pane equals the batch answer over the rows that were on time; what is missing is what was refused."""
    panes = pl.read_parquet(str(work / "state" / "panes" / "totals" / "**" / "*.parquet"))
    everything = pl.scan_parquet(str(root / "**" / "*.parquet"))
    span = 60_000_000
    step = int(slide.split()[0]) * 1_000_000 if slide else span
    time_ = pl.col("ts").dt.epoch("us")
    ends = pl.int_ranges((time_ // step + 1) * step, time_ // step * step + span + 1, step)
    whole = (
        everything.with_columns(ends.alias("end"))
        .explode("end")
        .group_by("end", "key")
        .agg(pl.len().alias("most"), pl.col("value").sum().alias("sum"))
        .collect()
    )
    both = panes.with_columns(pl.col("window_end").dt.epoch("us").alias("end")).join(whole, on=["end", "key"], how="left")
    assert both["most"].null_count() == 0 and (both["n"] <= both["most"]).all() and (both["total"] <= both["sum"]).all()
    equal = (both["n"] == both["most"]).mean()
    assert both.unique(["end", "key"]).height == both.height, "a window spoke twice"
    print(f"    checked {both.height:,} results: {equal:.2%} complete, none above the batch answer, none twice")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("artifacts/bench"))
    parser.add_argument("--only", default=",".join(CASES))
    chosen = parser.parse_args()
    spark = local_session()
    report = {}
    for case in chosen.only.split(","):
        keys, size, slide = CASES[case]
        root = chosen.work / f"data-{keys}-{chosen.rows}"
        if not root.exists():
            write_stream(root, chosen.rows, keys, chosen.batches)
        warm = chosen.work / f"warm-{keys}"
        if not warm.exists():
            write_stream(warm, 40_000, keys, 1)
        for run in (native, ours):
            shutil.rmtree(chosen.work / "w", ignore_errors=True)
            run(spark, warm, chosen.work / "w", size, slide)
        for round_ in range(chosen.rounds):
            shutil.rmtree(chosen.work / "n", ignore_errors=True)
            shutil.rmtree(chosen.work / "o", ignore_errors=True)
            theirs = native(spark, root, chosen.work / "n", size, slide)
            mine, _ = ours(spark, root, chosen.work / "o", size, slide)
            print(
                f"{case} round {round_}: native {chosen.rows / theirs:,.0f} rows/s ({theirs:.1f} s), "
                f"eventide {chosen.rows / mine:,.0f} rows/s ({mine:.1f} s), ratio {theirs / mine:.2f}"
            )
            check(root, chosen.work / "o", size, slide)
            report.setdefault(case, []).append(theirs / mine)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
