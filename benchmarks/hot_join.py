"""What a worker needs to join one hot key: a million rows a side, ten matches each, through one bucket task; then W passes all of it.

python benchmarks/hot_join.py [rows a side]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict

import numpy as np
import polars as pl

from eventide.engine.batch.bucket_task import Batch, BucketAccount
from eventide.engine.batch.join_task import settle_join
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, BEHIND, LANE, OFFSET, SOURCE, TIME
from eventide.kernel.fire import Moment
from eventide.kernel.join import BoundJoin
from eventide.kernel.sides import JoinPlan, Side
from eventide.model.event import end_of
from eventide.model.graph import FULL, Between, Join
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.sweep import BEFORE_ALL, Step
from eventide.model.watermark import Bounded
from eventide.model.window import INSTANT
from eventide.state.store import Part, PartKind, Store

KINDS: dict[str, pl.DataType] = {"user": pl.String(), "value": pl.Int64(), "note": pl.String()}
PIECES = 20


def hot() -> BoundPlan:
    """A full join of rows that are 0 to 9 microseconds apart."""
    join = Join("pairs", "l", "r", (("user", "user"),), Between(0, 9), FULL, 5, ("l_", "r_"))
    columns = [("user", (0, "user")), *((f"{side}_{c}", (n, c)) for n, side in enumerate("lr") for c in ("value", "note"))]
    sides = [Side(name, frozenset({place}), tuple(KINDS), ("user",)) for place, name in enumerate(("left", "right"))]
    plan = Plan((SourcePlan(Bounded(0)),) * 2, INSTANT, (), (OutputPlan("out", 5),))
    return BoundPlan(plan, join=JoinPlan(BoundJoin(join, tuple(columns), ("orders", "payments")), (sides[0], sides[1])))


def stored(store: Store, side: str, source: int, rows: int) -> list[Part]:
    """A side's rows, as scans have left them."""
    found: list[Part] = []
    for places in np.array_split(np.arange(rows, dtype=np.int64), PIECES):
        own = {"user": ["hot"] * len(places), "value": places, "note": [f"note {place}" for place in places]}
        frame = pl.DataFrame({**own, ARRIVAL: places, OFFSET: places, TIME: places}).with_columns(
            pl.lit(source, dtype=pl.Int64).alias(SOURCE), pl.lit("0").alias(LANE), pl.lit(False).alias(BEHIND)
        )
        found += store.write(PartKind.ROWS, 0, [(0, frame)], about=ARRIVAL, aggregation=side)
    return found


def settled(store: Store, rows: int, parts: list[Part]) -> BucketAccount:
    """All rows in one batch while W stands still."""
    batch = Batch(1, Moment(None, 0, rows), (Step(BEFORE_ALL, None),), None, end_of(rows), frozenset(), KINDS)
    return settle_join(hot(), store, batch, 0, parts)


def passed(store: Store, rows: int, kept: list[Part]) -> BucketAccount:
    """Then W passes all of them."""
    after = Moment(0, 2**61, rows + 1)
    batch = Batch(2, after, (Step(BEFORE_ALL, 2**61),), end_of(rows), end_of(rows + 1), frozenset(), KINDS)
    return settle_join(hot(), store, batch, 0, kept)


def worker(root: str, rows: int, lines: list[str]) -> None:
    """What a worker does, in a process of its own."""
    store, began = Store(root), time.perf_counter()
    account = settled(store, rows, [Part.from_json(json.loads(line)) for line in lines])
    took = time.perf_counter() - began
    gone = passed(store, rows, account.added)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{rows:,} rows a side, {account.rows['pairs_joined']:,} pairs in {took:.1f} s; let go {gone.rows['left_evicted']:,}; peak {peak} MB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        worker(sys.argv[2], int(sys.argv[1]), sys.stdin.read().splitlines())
    else:
        number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
        with tempfile.TemporaryDirectory() as directory:
            there = Store(directory)
            parts = [part for place, side in enumerate(("left", "right")) for part in stored(there, side, place, number)]
            given = "\n".join(json.dumps(asdict(part)) for part in parts)
            subprocess.run([sys.executable, __file__, str(number), directory], input=given, text=True, check=True)
