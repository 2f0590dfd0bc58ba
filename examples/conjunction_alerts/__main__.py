"""Make the data, run the pipeline, draw it, and say what stands: python examples/conjunction_alerts [DIRECTORY]."""

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


def main(directory: str = "demo/conjunction_alerts") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    data.write(Path("landing"))
    from pipeline import pipeline

    handle = pipeline.run(drain=True)
    print(f"{handle.rows['in']:,} observations in, all accounted for")
    for name in ("events_per_minute", "risk_summary", "alerts"):
        counts = handle.outputs[name]
        verdicts = (("on time", "rows_on_time"), ("admitted late", "rows_admitted"), ("dropped", "rows_refused"))
        print(f"  {name:<18}", " + ".join(f"{counts[key]:,} {word}" for word, key in verdicts if counts.get(key)))
    tell_alerts(pl.read_parquet("state/panes/alerts/**/*.parquet"))
    bounds = {"radar": timedelta(milliseconds=100), "optical": timedelta(seconds=30), "beacon": timedelta(seconds=10)}
    title = "Three sensors, judged by alerts: the optical archive hands a burst in"
    plane.draw(plane.archived(), bounds, timedelta(seconds=30), timedelta(seconds=60), title)


def tell_alerts(said: pl.DataFrame) -> None:
    """Each alert that was said, and what became of it."""
    first = said.filter(pl.col("sequence") == 0, pl.col("op") == "insert").sort("window_start", "object")
    with sqlite3.connect("sda.db") as base:
        standing = {row[0] for row in base.execute("select window_id from alerts")}
    print(f"alerts  {len(first)} said, {len(first) - len(standing)} withdrawn")
    for row in first.iter_rows(named=True):
        became = "stands" if row["window_id"] in standing else "withdrawn: what came late says otherwise"
        print(f"  {row['window_start']:%H:%M:%S}  {row['object']}  {row['metres']:,.0f} m by {row['n']} observations  {became}")


if __name__ == "__main__":
    main(*sys.argv[1:])
