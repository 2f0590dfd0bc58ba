"""Make the data, run the pipeline, reconcile the night, and say what stands: python examples/diwali_night [DIRECTORY]."""

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

from eventide.reconcile import reconcile

MINUTE = "2026-11-08 14:00:00%"
"""19:30 in India."""


def main(directory: str = "demo/diwali_night") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    data.write(Path("landing"))
    from pipeline import pipeline

    handle = pipeline.run(drain=True)
    arrived = sum(row[2] for rows in data.happenings().values() for row in rows)
    print(f"{handle.rows['in']:,} payments in, {rupees(arrived)} arrived")
    print(f"  {'policy':<24}{'in the results':>16}{'beside':>14}{'dropped':>9}{'19:30 says':>15}")
    aside = pl.read_parquet("late/**/*.parquet")["paise"].sum()
    for output in pipeline.outputs:
        held, dropped = (0, handle.outputs[output.name]["rows_refused"]) if output.name != "upi_minute" else (aside, 0)
        total, minute = totals(output.name)
        policy = str(output.late).partition("(")[0]
        print(f"  {output.name:<11}{policy:<13}{rupees(total):>16}{rupees(held):>14}{dropped:>9,}{rupees(minute):>15}")
        if output.name == "upi_minute":
            assert total + held == arrived, "the law: what arrived is in the results or beside them"
    done = reconcile(pipeline, "upi_minute", against="late")
    total, minute = totals("upi_minute_corrected")
    print(f"the night's reconciliation: {done.corrected} minutes corrected, in upi_minute_corrections")
    print(f"  the CFO reads upi_minute_corrected: {rupees(total)}, of which 19:30 is {rupees(minute)}")
    title = "An hour of payments: a tower hands half a minute in, sixteen minutes late"
    bounds = {"payments": timedelta(seconds=30)}
    plane.draw(plane.archived(), bounds, timedelta(minutes=1), timedelta(minutes=18), title)


def totals(table: str) -> tuple[int, int]:
    """What a table says of the hour, and of the minute that the tower held back."""
    with sqlite3.connect("upi.db") as base:
        query = f"select sum(paise), sum(iif(window_start like ?, paise, 0)) from {table}"
        return base.execute(query, (MINUTE,)).fetchone()


def rupees(paise: int) -> str:
    """Money to the paisa."""
    return f"₹{paise / 100:,.2f}" if paise else "–"


if __name__ == "__main__":
    main(*sys.argv[1:])
