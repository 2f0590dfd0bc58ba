"""Eventide and Spark's own windows over the same streams, in the same batches, by turns; answers are checked.

    python benchmarks/bench.py [--rows 2000000] [--rounds 3] [--cases parquet-1k,sessions-1m] [--results DIR]

Each engine has a process of its own. Its first run is cold: from the start of the process to the last answer. Then warm runs by turns, the order
changing from round to round. The ratio of a round is the first engine's time by the other's, both without the first batch of a run; what is
told is the median, beside the same of the CPU seconds of driver, JVM and workers, which a busy machine does not stretch so much.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import truth
from cases import CASES, Case
from results import shown, write_results
from streams import LANES, placed_files, placed_records, produce, write_files
from worker import Worker

BATCHES = 10


class Streams:
    """The streams of the cases, each made when it is first asked for."""

    def __init__(self, root: Path, rows: int) -> None:
        self.root, self.rows, self.broker = root, rows, None
        self._made: dict[str, tuple[str, pl.DataFrame]] = {}

    def of(self, case: Case) -> tuple[str, pl.DataFrame]:
        """Where a case's stream is, and its rows as they arrived."""
        if case.stream not in self._made:
            self._made[case.stream] = self._records(case) if case.kafka else self._files(case)
        return self._made[case.stream]

    def _files(self, case: Case) -> tuple[str, pl.DataFrame]:
        path = self.root / case.stream
        write_files(path, self.rows, case.keys, BATCHES)
        return str(path), placed_files(path)

    def _records(self, case: Case) -> tuple[str, pl.DataFrame]:
        from eventide.testing.broker import KafkaBroker

        if self.broker is None:
            self.broker = KafkaBroker().start()
        self.broker.create_topic(case.stream, partitions=LANES)
        produce(self.broker.servers, case.stream, self.rows, case.keys, BATCHES)
        return f"{self.broker.servers}/{case.stream}", placed_records(self.rows, case.keys, BATCHES)

    def close(self) -> None:
        """End the broker."""
        if self.broker is not None:
            self.broker.remove()


def steady(told: dict[str, Any]) -> float:
    """The seconds of a run without its first batch."""
    return sum(told["batches"][1:]) / 1_000


def measured(case: Case, streams: Streams, rounds: int, work: Path) -> dict[str, Any]:
    """All runs of a case, checked."""
    data, rows = streams.of(case)
    hour = 3_600_000_000 if "eventide-late" in case.engines else 0
    right = {allowed: truth.answers(case, rows, LANES, allowed) for allowed in {0, hour}}
    per_batch = streams.rows // BATCHES
    workers: list[Worker] = []
    report: dict[str, Any] = {"engines": {engine: {"warm": []} for engine in case.engines}, "bars": list(case.bars)}
    try:
        for engine in case.engines:
            worker = Worker(engine, engine, case.kafka)
            workers.append(worker)
            worker.run(case, data, work / engine, per_batch)
            report["engines"][engine]["cold"] = time.perf_counter() - worker.begun
        for nth in range(rounds):
            for worker in workers if nth % 2 == 0 else reversed(workers):
                told = worker.run(case, data, work / worker.name, per_batch)
                facts = report["engines"][worker.name]
                facts["warm"].append({**told, "steady": steady(told)})
                if worker.name == "native":
                    facts["answers"] = truth.check_native(work / worker.name, right[0])
                else:
                    allowed = hour if worker.name == "eventide-late" else 0
                    facts["answers"] = truth.check_ours(case, work / worker.name, right[allowed])
    finally:
        for worker in workers:
            worker.close()
    report["ratios"] = {engine: ratios(report, case.engines[0], engine) for engine in case.engines[1:]}
    return report


def ratios(report: dict[str, Any], base: str, engine: str) -> dict[str, float]:
    """How many times as fast as the first: without the first batch, all of it, by CPU seconds, and cold."""
    one, other = report["engines"][base], report["engines"][engine]
    found = {
        what: statistics.median(a[what] / b[what] for a, b in zip(one["warm"], other["warm"], strict=True))
        for what in ("steady", "seconds", "cpu")
    }
    return {**found, "cold": one["cold"] / other["cold"]}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=int, default=1_000_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--cases", default=",".join(CASES))
    asked.add_argument("--results", type=Path)
    told = asked.parse_args()
    report = {}
    with tempfile.TemporaryDirectory(prefix="eventide-bench-") as made:
        streams = Streams(Path(made), told.rows)
        try:
            for name in told.cases.split(","):
                report[name] = measured(CASES[name], streams, told.rounds, Path(made) / "at-work")
                print("\n".join(shown(name, report[name])), flush=True)
        finally:
            streams.close()
    if told.results:
        write_results(told.results, report, told.rows, told.rounds)


if __name__ == "__main__":
    main()
