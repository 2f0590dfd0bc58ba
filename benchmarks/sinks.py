"""Rows per second into PostgreSQL (through one process, and staged from two) and SQLite: a million panes, half of them corrections.

Run: python benchmarks/sinks.py [--panes 1000000] [--rounds 3]. PostgreSQL is started by the benchmark itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.postgres import PostgresServer

from eventide.engine.batch.staging import deliver_staged
from eventide.sinks import Delivery, PaneShape, postgres, sqlite
from eventide.state.store import Store

SHAPE = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()), ("n", pa.int64())))
MINUTE = 60_000_000
BATCH = 100_000


def panes(first: int, count: int, sequence: int) -> pl.DataFrame:
    """Windows numbered from `first`: 1,000 minutes, then the next bank."""
    number = np.arange(first, first + count)
    start = 1_750_000_000_000_000 + (number % 1000) * MINUTE
    instant = pl.Datetime("us", "UTC")
    frame = pl.DataFrame({"start": start, "bank": number // 1000}).with_columns(bank=pl.format("bank-{}", "bank"))
    return frame.select(
        window_id=pl.format("{}/{}/{}", "start", pl.col("start") + MINUTE, "bank"),
        window_start=pl.col("start").cast(instant),
        window_end=(pl.col("start") + MINUTE).cast(instant),
        bank="bank",
        total=pl.col("start") % 1_000_003 + sequence,
        n=pl.col("start") % 977,
        sequence=pl.lit(sequence, dtype=pl.Int64),
        op=pl.lit("insert"),
        timing=pl.lit("late" if sequence else "on_time"),
        generation=pl.lit(0, dtype=pl.Int64),
        emitted_at=pl.lit(1_760_000_000_000_000).cast(instant),
    )


def batches(frame: pl.DataFrame, seed: int) -> list[pa.RecordBatch]:
    """In random order, as a shuffle leaves them."""
    shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
    return shuffled.to_arrow().cast(SHAPE.schema).combine_chunks().to_batches(max_chunksize=BATCH)


def measure(sink: Any, name: str, count: int) -> float:
    """Store half, then time the delivery of corrections of all that is stored and as many new windows."""
    half = count // 2
    writer = sink.open(name, SHAPE)
    writer.deliver(batches(panes(0, half, 0), seed=1), Delivery("bench", name, 0, 0))
    load = batches(pl.concat([panes(0, half, 1), panes(half, half, 0)]), seed=2)
    started = time.perf_counter()
    writer.deliver(load, Delivery("bench", name, 1, 1))
    seconds = time.perf_counter() - started
    writer.close()
    return count / seconds


class Processes:
    """Two processes that run tasks, as two executors would."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
        list(self.pool.map(abs, range(8)))

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """All tasks, side by side."""
        return [future.result() for future in [self.pool.submit(task) for task in tasks]]


def measure_staged(sink: Any, name: str, count: int, folder: str, runner: Processes) -> float:
    """The same delivery from eight files of panes, each staged by the process that reads it."""
    half, store = count // 2, Store(f"{folder}/{name}")
    writer = sink.open(name, SHAPE)
    writer.deliver(batches(panes(0, half, 0), seed=1), Delivery("bench", name, 0, 0))
    load = pl.concat([panes(0, half, 1), panes(half, half, 0)]).sample(fraction=1, shuffle=True, seed=2)
    files = [store.write_table("panes", 1, f"{nth}", part) for nth, part in enumerate(load.iter_slices(count // 8))]
    started = time.perf_counter()
    deliver_staged(writer, runner, store, files, SHAPE.schema, Delivery("bench", name, 1, 1))
    seconds = time.perf_counter() - started
    writer.close()
    return count / seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--panes", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.platform()}"
    print(f"{given.panes:,} panes, half corrections; {machine}")
    with tempfile.TemporaryDirectory() as folder:
        server = PostgresServer().start()
        try:
            two = Processes()
            kinds = {
                "postgres": lambda n: measure(postgres(server.dsn), f"totals{n}", given.panes),
                "postgres, staged": lambda n: measure_staged(postgres(server.dsn), f"staged{n}", given.panes, folder, two),
                "sqlite": lambda n: measure(sqlite(f"{folder}/{n}.db"), f"totals{n}", given.panes),
            }
            for kind, rate_of in kinds.items():
                rates = [rate_of(n) for n in range(given.rounds)]
                said = ", ".join(f"{rate:,.0f}" for rate in rates)
                print(f"{kind:16} {statistics.median(rates):>10,.0f} rows/s (median of {said})", flush=True)
        finally:
            server.remove()


if __name__ == "__main__":
    main()
