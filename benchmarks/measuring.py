"""What measuring lateness costs a whole pipeline on Spark: CPU seconds of driver, JVM and workers.

    python benchmarks/measuring.py [--pairs 15] [--rows 8000000] [--case lane] [--case column]

Twice: in alternating pairs of runs with and without it, on a warm session with a fresh state each time, with an interval; and timed inside
the workers, as a share of the CPU seconds of the same run. The first counts everything, a column that must be read for it too, but two runs
of the same work differ by a tenth on a shared machine; in the second that cancels out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from processes import cpu, in_pairs, shown

import eventide as ev
from eventide.engine import run as engine_run
from eventide.engine.spark_session import local_session
from eventide.engine.witnesses import witnesses_of

SECOND = 1_000_000
LANES = 2
WARM = 12
"""So many pairs go by until the JVM has compiled what it will compile; before that its CPU seconds differ by a third."""
DDL = "ts timestamp, at timestamp, bank bigint, paise bigint, region string"
CASES: dict[str, tuple[str, Any]] = {
    "lane": ("by source and lane", True),
    "column": ("by a column of 20 values too", ["region"]),
}


def land(rows: int, root: str) -> None:
    """Lanes of one file each, a row every millisecond, 0.9% of them long delayed."""
    for lane in range(LANES):
        rng = np.random.default_rng(lane)
        number = rows // LANES
        arrival = np.arange(number, dtype=np.int64) * 1_000
        late = np.where(
            rng.random(number) < 0.009, rng.exponential(120 * SECOND, number), rng.exponential(2 * SECOND, number)
        ).astype(np.int64)
        os.makedirs(f"{root}/{lane}")
        pl.DataFrame(
            {
                "ts": pl.Series(arrival - late, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
                "at": pl.Series(arrival, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
                "bank": rng.integers(0, 1_000, number),
                "paise": rng.integers(100, 50_000, number),
                "region": rng.integers(0, 20, number).astype(str),
            }
        ).write_parquet(f"{root}/{lane}/payments.parquet", row_group_size=1_000_000)


def defined(root: str, state: str, measure: Any) -> ev.Pipeline:
    source = ev.files(
        "payments", root, event_time="ts", arrival="at", watermark=ev.bounded("30 s"), lane="directory", schema=DDL
    )
    sums = source.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    return ev.Pipeline("upi", sums.to("out", late=ev.accumulate("5 minutes")), state=state, measure=measure)


def run(root: str, spark: Any, rows: int, measure: Any) -> float:
    """One run of the whole pipeline."""
    state = tempfile.mkdtemp(prefix="measuring-")
    start = cpu()
    read = defined(root, state, measure).run(spark).rows["in"]
    spent = cpu() - start
    assert read == rows, read
    shutil.rmtree(state)
    return spent


@dataclass
class TimedWitness:
    """Notes the CPU seconds that the measuring of one lane took."""

    inner: Any
    notes: str
    spent: float = field(default=0.0, init=False)

    def see(self, rows: pl.DataFrame) -> None:
        self._timed(partial(self.inner.see, rows))

    def close(self) -> list[str]:
        told: list[str] = self._timed(self.inner.close)
        handle, _ = tempfile.mkstemp(dir=self.notes)
        os.write(handle, str(self.spent).encode())
        os.close(handle)
        return told

    def _timed(self, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        self.spent += time.process_time() - start
        return result


@dataclass(frozen=True)
class TimedWitnesses:
    """Travels to the workers in the place of the pipeline's own witnesses."""

    inner: Any
    notes: str

    def __call__(self, batch: int, lane: Any) -> TimedWitness:
        return TimedWitness(self.inner(batch, lane), self.notes)


def inside(measured: Callable[[Any], float], measure: Any, notes: str) -> float:
    """The share of a run that was spent within the measuring, of what was spent elsewhere."""
    with patch.object(engine_run, "witnesses_of", lambda *given: TimedWitnesses(witnesses_of(*given), notes)):
        whole = measured(measure)
    files = list(Path(notes).iterdir())
    assert len(files) == LANES, files
    spent = sum(float(file.read_text()) for file in files)
    for file in files:
        file.unlink()
    return spent / (whole - spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--case", choices=list(CASES), action="append", help="one of the two; both by default")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as notes:
        land(asked.rows, f"{directory}/landing")
        spark = local_session(name="measuring")
        measured = partial(run, f"{directory}/landing", spark, asked.rows)
        print(f"the whole pipeline on Spark, {asked.rows:,} rows, 1,000 keys", flush=True)
        for name, measure in [CASES[case] for case in asked.case or CASES]:
            for _ in range(WARM):
                measured(False), measured(measure)
            shares = [inside(measured, measure, notes) for _ in range(15)]
            print(f"  {name:<29} {shown(shares)} timed within the measuring, 15 runs", flush=True)
            found = in_pairs(partial(measured, False), partial(measured, measure), asked.pairs)
            without = statistics.median(spent for spent, _ in found)
            print(f"  {'':<29} {shown([b / a - 1 for a, b in found])} of {without:.2f} CPU s, {asked.pairs} pairs", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
