"""What single batches cost in the engine itself, tasks one after the other in this process, without Spark: where the time of Spark's jobs is no part of it.

    python benchmarks/batch_costs.py [open-sessions,session-rows,late-rows,lanes,sliding,empty]

`open-sessions`: 200,000 sessions are open, then batches of no rows, and of 1,000. `session-rows`: 200,000 rows of sessions in one batch: what of it reaches the
driver. `late-rows`: 4,000 late rows under per-row firing, spread over 1,000 keys, and all for one. `lanes`: 10,000 lanes of 100 rows in one batch.
`sliding`: 50 keys, windows of an hour every 10 seconds. `empty`: a batch of nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.microbatch import BatchInput, BatchResult, Engine
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, TIME
from eventide.kernel.scan import Arrivals
from eventide.model import aggregate
from eventide.model.event import LaneId
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding, Window
from eventide.state.journal import Journal, LocalFiles
from eventide.state.ledger import Ledger
from eventide.state.store import Store

SECOND = 1_000_000
KINDS: dict[str, pl.DataType] = {"key": pl.Int64(), "value": pl.Int64()}


class Here:
    """Runs tasks in this process."""

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        return [task() for task in tasks]


def engine(window: Window, output: OutputPlan, root: str, lanes: Sequence[str] = ("0",), bound: int = 10 * SECOND) -> Engine:
    named = (("total", aggregate.sum("value")), ("n", aggregate.count()))
    plan = Plan((SourcePlan(Bounded(bound), tuple(lanes)),), window, named, (output,))
    return Engine(BoundPlan(plan, ("key",), buckets=2), KINDS, (False,), Store(root), Here())


def chunk(times: np.ndarray, keys: np.ndarray, first: int = 0, arrival: int = 0) -> pl.DataFrame:
    """Rows as a source hands them on."""
    count = len(times)
    return pl.DataFrame({"key": keys, "value": np.ones(count, np.int64), TIME: times}).with_columns(
        pl.lit(arrival, dtype=pl.Int64).alias(ARRIVAL), pl.int_range(first, first + count, dtype=pl.Int64).alias(OFFSET),
        pl.lit(None, dtype=pl.Int64).alias(CANDIDATE), pl.lit(False).alias(MARKER), pl.lit(None, dtype=pl.String).alias(DEAD),
    )  # fmt: skip


def batch(at: Engine, ledger: Ledger, number: int, given: dict[LaneId, pl.DataFrame], told: str) -> BatchResult:
    """One batch with its account: seconds, what the lanes told the driver, the ledger's size."""
    from eventide.engine.batch import lane_task

    begun, spent, clock = time.perf_counter(), time.process_time(), (number + 1) * SECOND
    lines = [
        lane_task.scan_lane(
            at.shape, at.store, number, lane, ledger.carry(lane), Arrivals.of(lane, ledger.swept, clock), [rows]
        ).to_json()
        for lane, rows in given.items()
    ]
    scanned = time.perf_counter()
    accounts = [LaneAccount.from_json(line) for line in lines]
    result = at.process(ledger, BatchInput(number, clock, accounts, None))
    at.store.delete(result.garbage)
    journal = Journal(LocalFiles(at.store.root))
    journal.commit(result.ledger, {"clock": clock})
    done, spent = time.perf_counter(), time.process_time() - spent
    size = max(size for path, size in at.store.sizes("journal").items() if "commit" in path)
    written = sum(size for path, size in at.store.sizes("data").items() if f"/{number:012d}/" in path)
    print(
        f"  {told:34} scan {scanned - begun:6.2f} s, rest {done - scanned:6.2f} s, CPU {spent:6.2f} s; told {sum(map(len, lines)) / 1e3:8,.0f} kB, "
        f"commit {size / 1e3:7,.0f} kB, written {written / 1e3:8,.0f} kB",
        flush=True,
    )
    return result


LANE = (0, "0")


def open_sessions(root: str) -> None:
    at, rng = engine(Session(3_600 * SECOND), OutputPlan("out", 0), root), np.random.default_rng(1)
    ledger = batch(
        at, at.first_ledger(), 0, {LANE: chunk(np.sort(rng.integers(0, SECOND, 200_000)), np.arange(200_000))}, "200,000 open"
    ).ledger
    for number in (1, 2):
        ledger = batch(at, ledger, number, {}, "no rows").ledger
    for number in (3, 4, 5):
        times = SECOND * number + np.sort(rng.integers(0, SECOND, 1_000))
        rows = chunk(times, rng.integers(0, 200_000, 1_000), 200_000 + 1_000 * number, number)
        ledger = batch(at, ledger, number, {LANE: rows}, "1,000 rows").ledger


def session_rows(root: str) -> None:
    at, rng = engine(Session(10 * SECOND), OutputPlan("out", 0), root), np.random.default_rng(1)
    times = np.arange(200_000) * 3_000 - rng.integers(0, 2 * SECOND, 200_000)
    batch(at, at.first_ledger(), 0, {LANE: chunk(times, rng.integers(0, 1_000, 200_000))}, "200,000 rows, 1,000 keys")


def late_rows(root: str) -> None:
    for keys in (1_000, 1):
        late = OutputPlan("out", 600 * SECOND, late=PerRow())
        at, rng = engine(Sliding(60 * SECOND, 60 * SECOND), late, f"{root}/{keys}"), np.random.default_rng(1)
        first = chunk(np.arange(100_000) * 1_000, rng.integers(0, keys, 100_000))
        ledger = batch(at, at.first_ledger(), 0, {LANE: first}, "100,000 rows").ledger
        rows = chunk(rng.integers(0, 50 * SECOND, 4_000), rng.integers(0, keys, 4_000), 100_000, 1)
        batch(at, ledger, 1, {LANE: rows}, f"4,000 late rows, {keys:,} keys")


def many_lanes(root: str) -> None:
    names, rng = [f"lane-{n:05}" for n in range(10_000)], np.random.default_rng(1)
    at = engine(Sliding(60 * SECOND, 60 * SECOND), OutputPlan("out", 0), root, names)
    ledger = at.first_ledger()
    for number in range(2):
        given = {
            (0, name): chunk(
                np.sort(rng.integers(0, 60 * SECOND, 100)) + 60 * SECOND * number,
                rng.integers(0, 1_000, 100),
                100 * number,
                number,
            )
            for name in names
        }
        ledger = batch(at, ledger, number, given, "10,000 lanes, 1,000,000 rows").ledger


def sliding(root: str) -> None:
    at, rng = engine(Sliding(3_600 * SECOND, 10 * SECOND), OutputPlan("out", 0), root), np.random.default_rng(1)
    ledger = at.first_ledger()
    for number in range(3):
        times = np.sort(rng.integers(0, 3_600 * SECOND, 200_000)) + 3_600 * SECOND * number
        ledger = batch(
            at,
            ledger,
            number,
            {LANE: chunk(times, rng.integers(0, 50, 200_000), 200_000 * number, number)},
            "200,000 rows, 50 keys",
        ).ledger


def empty(root: str) -> None:
    at = engine(Sliding(60 * SECOND, 60 * SECOND), OutputPlan("out", 0), root)
    ledger = batch(at, at.first_ledger(), 0, {LANE: chunk(np.arange(1_000) * 1_000, np.arange(1_000))}, "1,000 rows").ledger
    for number in (1, 2):
        ledger = batch(at, ledger, number, {}, "nothing").ledger


COSTS = {
    "open-sessions": open_sessions, "session-rows": session_rows, "late-rows": late_rows, "lanes": many_lanes, "sliding": sliding, "empty": empty,
}  # fmt: skip


def main() -> None:
    for name in sys.argv[1].split(",") if len(sys.argv) > 1 else COSTS:
        if len(sys.argv) == 2 and "," not in sys.argv[1]:
            with tempfile.TemporaryDirectory() as root:
                print(f"{name}:", flush=True)
                COSTS[name](root)
                print(f"  peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MB")
        else:  # memory by itself
            subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
