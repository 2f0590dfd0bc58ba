"""Start a broker and a registry, sell, change the schema, and explain the gap: python examples/checkout_revenue [DIRECTORY]."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import duckdb
import plane
import polars as pl

from eventide.reconcile import Report, reconcile
from eventide.testing.broker import KafkaBroker

WORDS = ("the stream says", "came too late for it", "unexplained", "the night's batch says")
"""What each line of the report means to who reads the dashboard."""


def main(directory: str = "demo/checkout_revenue") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    with registry() as url, KafkaBroker() as broker:
        from pipeline import pipeline
        from rollout import Rollout
        from shop import TOPIC, Shop

        broker.create_topic(TOPIC)
        shop = Shop(broker.servers, url)
        rollout = Rollout(shop)
        rollout.plan()
        revenue = pipeline(broker.servers, url)
        running = revenue.start(interval="500 milliseconds")
        try:
            rollout.run(running)
        finally:
            running.stop()
        handle = revenue.run(drain=True)
        print(f"{handle.rows['in']:,} checkouts in, {handle.rows['dead']} of them unreadable, all accounted for")
        counts = handle.outputs["revenue"]
        verdicts = (("on time", "rows_on_time"), ("admitted late", "rows_admitted"), ("kept in late", "rows_refused"))
        print("  revenue   ", " + ".join(f"{counts[key]:,} {word}" for word, key in verdicts))
        tell_gap(reconcile(revenue).report)
    draw()


@contextmanager
def registry() -> Iterator[str]:
    """A schema registry of our own, on a free port."""
    port, program = Path("registry.port"), "from eventide.cli.main import main; main()"
    with Path("registry.log").open("w") as log:
        command = [sys.executable, "-c", program, "registry", "serve", "--port", "0", "--port-file", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not port.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the registry did not start: {Path('registry.log').read_text()}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port.read_text()}"
    finally:
        process.terminate()
        process.wait()


def tell_gap(report: Report) -> None:
    """Line by line, from what the stream says to what the night's batch says, and what the corrected view says then."""
    streamed, whole = (line.values["cents"] for line in (report["emitted"], report["reference"]))
    print(f"the gap: the stream is {1 - streamed / whole:.1%} below the batch")
    for word, line in zip(WORDS, report.lines, strict=True):
        print(f"  {word:<24}{line.rows:>7,} checkouts {dollars(line.values['cents']):>14}")
    with duckdb.connect("warehouse.duckdb", read_only=True) as base:
        minutes = base.sql("select count(*) from revenue_corrections").fetchall()[0][0]
        cents, n = base.sql("select sum(cents), sum(n) from revenue_corrected").fetchall()[0]
    print(f"closed: {minutes} minutes have a correction beside them")
    print(f"  {'revenue_corrected says':<24}{n:>7,} checkouts {dollars(cents):>14}")


def dollars(cents: int) -> str:
    """Money to the cent."""
    return f"${cents / 100:,.2f}"


def draw() -> None:
    """The plane, by the moments at which the shop received each checkout."""
    rows = plane.archived().with_columns(pl.col("received_at").alias("_arrival"))
    title = "Six hours of checkouts: what an hour of allowed lateness lets in, and what it does not"
    plane.draw(rows, {"checkouts": timedelta(seconds=60)}, timedelta(minutes=1), timedelta(minutes=60), title)


if __name__ == "__main__":
    main(*sys.argv[1:])
