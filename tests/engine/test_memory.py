"""What a run costs does not grow: not with the number of batches, not with the windows that it retains."""

from __future__ import annotations

import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from crash_driver import Listed

import eventide as ev
from eventide.engine.run import Run

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
ROWS = int(os.environ.get("EVENTIDE_ROWS_PER_BATCH", "1000000"))


def resident() -> dict[str, float]:
    """Resident memory of this process, its JVM and its Python workers, in MB, by command."""
    children: dict[int, list[int]] = {}
    names: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                pages = int((entry / "statm").read_text().split()[1])
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            names[int(entry.name)] = (name, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
            children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    total: dict[str, float] = {}
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        name, size = names.get(pid, ("?", 0.0))
        total[name] = total.get(name, 0.0) + size
        todo += children.get(pid, [])
    return total


def write(path: Path, arrival: np.ndarray[Any, Any], delay: np.ndarray[Any, Any], keys: int, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = {"ts": pl.Series(arrival - delay), "at": pl.Series(arrival)}
    rng = np.random.default_rng(number)
    frame = pl.DataFrame({**times, "k": rng.integers(0, keys, len(arrival)), "v": rng.integers(0, 100, len(arrival))})
    frame.with_columns(pl.col("ts", "at").cast(pl.Datetime("us", "UTC"))).write_parquet(path)
    os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_memory_at_batch_500_is_that_at_batch_100(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(505):
        arrival = START + number * 10 * SECOND + np.sort(rng.integers(0, 10 * SECOND, 500))
        delay = np.where(rng.random(500) < 0.02, rng.integers(0, 90 * SECOND, 500), rng.integers(0, SECOND, 500))
        write(tmp_path / f"in/{number:05d}.parquet", arrival, delay, 50, number)
    source = ev.files("s", str(tmp_path / "in"), event_time="ts", arrival="at", watermark=ev.bounded("2 s"), files_per_batch=1)
    minutes = source.window(ev.tumbling("1 minute"), by="k").agg(n=ev.count(), v=ev.sum("v"))
    sink = ev.sqlite(str(tmp_path / "out.db"))
    pipe = ev.Pipeline("steady", minutes.to("m", sink, late=ev.accumulate("1 minute")), state=str(tmp_path / "state"))
    sizes: dict[int, dict[str, float]] = {}

    def look(progress: Any) -> None:
        if progress.batch in (100, 200, 300, 400, 500):
            spark._jvm.System.gc()
            sizes[progress.batch] = resident()

    pipe.run(spark, on_progress=look)
    totals = {batch: round(sum(size.values())) for batch, size in sizes.items()}
    print(
        f"\nresident MB by batch: {totals}; by command: { {b: {n: round(m) for n, m in s.items()} for b, s in sizes.items()} }"
    )
    assert totals[500] <= 1.1 * totals[100]
    parts = len(list((tmp_path / "state/data").rglob("*.parquet")))
    print(f"files in the store after 505 batches: {parts}")
    assert parts < 100


class Retaining:
    """Windows of 10 s; each batch has so many rows of 1,000 keys and 10 s of stream."""

    def __init__(self, spark: Any, root: Path, allowed: int, late: float) -> None:
        self.root, self.late, self.rng = root, late, np.random.default_rng(2)
        source = ev.files("s", str(root / "in"), event_time="ts", arrival="at", watermark=ev.bounded("1 s"), lane="directory")
        tens = source.window(ev.tumbling("10 s"), by="k").agg(n=ev.count(), v=ev.sum("v"))
        policy = ev.accumulate(f"{allowed} s") if allowed else ev.drop()
        pipe = ev.Pipeline("retained", tens.to("m", late=policy), state=str(root / "state"), buckets=2)
        write(root / "in/0/00000.parquet", np.array([START]), np.array([0]), 1_000, 0)
        self.run = Run(pipe, spark, str(root / "state"))
        self.run.open()
        self.spent: list[float] = []
        self.now = START + 10 * SECOND

    def batch(self, number: int, seconds: int = 10, rows: int = ROWS) -> None:
        """The next seconds of the stream."""
        arrival = self.now + np.sort(self.rng.integers(0, seconds * SECOND, rows))
        self.now += seconds * SECOND
        behind = self.rng.random(rows) < self.late
        delay = np.where(behind, self.rng.integers(0, 600 * SECOND, rows), self.rng.integers(0, SECOND, rows))
        path = self.root / f"in/0/{number:05d}.parquet"
        write(path, arrival, delay, 1_000, number)
        started = time.perf_counter()
        self.run.batch(Listed([(str(path), path.stat().st_mtime_ns // 1000)]), number - 1)
        self.spent.append(time.perf_counter() - started)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::eventide.LossWarning")
def test_a_batch_costs_no_more_with_sixty_windows_retained(spark: Any, tmp_path: Path) -> None:
    """All three for each batch, so that other work on the machine weighs on them alike; in an order drawn anew each time, because
    what a batch costs depends on which one ran before it (up to 50 ms)."""
    kinds = {"none": (0, 0.0), "60 retained": (600, 0.0), "60 retained, 1% late": (600, 0.01)}
    runs = {name: Retaining(spark, tmp_path / str(i), *how) for i, (name, how) in enumerate(kinds.items())}
    for number in range(1, 44):
        for run in random.Random(number).sample(list(runs.values()), len(runs)):
            run.batch(number, seconds=100 if number < 8 else 10)
    spent = {name: statistics.median(run.spent[9:]) for name, run in runs.items()}
    print(f"\nseconds per batch of {ROWS:,} rows, against none retained:")
    for name in runs:
        print(f"  {name:22s} {spent[name]:.3f}  {spent[name] / spent['none']:.2f}x")
    assert spent["60 retained"] <= 1.2 * spent["none"]
    assert spent["60 retained, 1% late"] <= 1.5 * spent["none"]
