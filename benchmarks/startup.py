"""Seconds from `eventide run` to the first pane in a table: files, and Kafka.

    .venv/bin/python benchmarks/startup.py [--times 3] [--conf KEY=VALUE …]

A command line as a user types it, in a process of its own; the jars are there already. CPU seconds are of Python, its workers and the JVM together.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BASE = 1_760_000_000
PIPELINE = """
import eventide as ev
{source}
tens = paid.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"))
pipeline = ev.Pipeline("startup", tens.to("totals", ev.sqlite("{root}/out.db"), late=ev.drop()), state="{root}/state")
"""
FILES = """
paid = ev.files("paid", "{root}/in", schema="at timestamp, bank string, paise long", event_time="at", watermark=ev.ascending())
"""
KAFKA = """
paid = ev.kafka("paid", servers="{servers}", topic="paid", value=ev.json("at long, bank string, paise long"), event_time="at",
                time_unit="us", watermark=ev.ascending())
"""


def bodies() -> list[dict[str, object]]:
    return [{"at": (BASE + second) * 1_000_000, "bank": f"bank {second % 7}", "paise": second} for second in range(60)]


def land(root: Path) -> str:
    import polars as pl

    (root / "in").mkdir()
    rows = pl.DataFrame(bodies()).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))
    rows[:30].write_parquet(root / "in" / "1.parquet")
    rows[30:].write_parquet(root / "in" / "2.parquet")
    return FILES.format(root=root)


def produce(servers: str) -> str:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number, body in enumerate(bodies()):
        producer.produce("paid", json.dumps(body).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return KAFKA.format(servers=servers)


def first_pane(root: Path) -> bool:
    if not (root / "out.db").exists():
        return False
    try:
        with sqlite3.connect(f"file:{root}/out.db?mode=ro", uri=True) as base:
            return bool(base.execute("select count(*) from totals").fetchone()[0])
    except sqlite3.OperationalError:
        return False


def measured(root: Path, source: str, more: list[str]) -> tuple[float, float]:
    """Wall seconds to the first pane, CPU seconds up to then."""
    (root / "startup.py").write_text(PIPELINE.format(source=source, root=root))
    code = "from eventide.cli.main import main; main(prog_name='eventide')"
    began = time.monotonic()
    with (root / "said.txt").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "run", str(root / "startup.py"), *more], stdout=said, stderr=said
        )
    try:
        while not first_pane(root):
            if process.poll() is not None or time.monotonic() - began > 120:
                raise SystemExit((root / "said.txt").read_text())
            time.sleep(0.02)
        wall = time.monotonic() - began
        return wall, cpu_seconds(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def cpu_seconds(root: int) -> float:
    """Of a process and all that it started."""
    found, ticks = {root}, 0
    stats = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(place.parent.name)] = parts
    grown = True
    while grown:
        more = {pid for pid, parts in stats.items() if int(parts[1]) in found} - found
        found |= more
        grown = bool(more)
    for pid in found & stats.keys():
        ticks += sum(map(int, stats[pid][11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=["files", "kafka"])
    parser.add_argument("--conf", action="append", default=[])
    given = parser.parse_args()
    more = [part for conf in given.conf for part in ("--conf", conf)]
    if given.only != "kafka":
        report("files", given.times, more, land)
    if given.only != "files":
        from eventide.testing.broker import KafkaBroker

        with KafkaBroker() as broker:
            broker.create_topic("paid", partitions=2)
            source = produce(broker.servers)
            report("kafka", given.times, more, lambda root: source)


def report(name: str, times: int, more: list[str], make: object) -> None:
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="eventide-startup-") as root:
            wall, cpu = measured(Path(root), make(Path(root)), more)  # type: ignore[operator]
            print(f"{name}: first pane after {wall:5.1f} s, {cpu:5.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
