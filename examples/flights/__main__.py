"""Make the data, tune, run the pipeline, and say what each policy loses: python examples/flights [DIRECTORY] [DAYS]."""

import os
import shutil
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import data
import plane
import polars as pl

import eventide as ev

BOUNDS = (0, 10, 30, 60, 120, 240)
"""How long the watermark could wait, in minutes."""


def main(directory: str = "demo/flights", days: str = "366") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    data.write(Path("landing"), int(days))
    from pipeline import pipeline

    handle = pipeline.run(drain=True)
    tuned = ev.tune(pipeline, bounds=[f"{bound} minutes" for bound in BOUNDS if bound])
    print("what waiting buys      on time  too late")
    for bound in BOUNDS:
        point = tuned.point(bound * 60_000_000)
        print(f"  behind by {bound:>3} min  {point.completeness:>9.2%}{point.refused:>10,}")
    print(f"{handle.rows['in']:,} departures in, all accounted for")
    aside = len(pl.read_parquet("late/**/*.parquet"))
    for name, policy in (("board", "drop()"), ("corrected", "accumulate(3 h)"), ("aside", "divert(late)")):
        counts = handle.outputs[name]
        with sqlite3.connect("flights.db") as base:
            total = base.execute(f"select sum(n) from {name}").fetchone()[0]
        lost = f"{counts['rows_refused']:>7,} {'kept in late' if name == 'aside' else 'lost'}"
        print(f"  {name:<10} {policy:<16}{total:>9,} counted, {counts['rows_admitted']:>7,} of them late, {lost}")
    assert aside == handle.outputs["aside"]["rows_refused"]
    rows = plane.archived()
    start = rows["_arrival"].min() + timedelta(days=int(days) // 2)
    title = "Two days of departures from New York: scheduled, and departed"
    span = (start, start + timedelta(days=2))
    plane.draw(rows, {"flights": timedelta(minutes=30)}, timedelta(hours=1), timedelta(hours=3), title, span)


if __name__ == "__main__":
    main(*sys.argv[1:])
