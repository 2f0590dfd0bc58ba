"""Make the data, run the pipeline, and say what stands: python examples/orders_and_payments [DIRECTORY]."""

import os
import shutil
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import data
import polars as pl

import eventide as ev


def main(directory: str = "demo/orders_and_payments") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    data.write(Path("landing"))
    from pipeline import pipeline

    handle = pipeline.run(drain=True)
    tell(pipeline, handle.rows)


def tell(pipeline: ev.Pipeline, rows: dict[str, int]) -> None:
    """What stands, what was said before, and what came too late."""
    said = pl.read_parquet(f"{pipeline.state}/panes/paid/**/*.parquet")
    unpaid = said.filter(pl.col("payment_bank").is_null())
    with sqlite3.connect("shop.db") as base:
        paid, without, rupees = base.execute(
            "select count(payment_bank), sum(payment_bank is null), sum(iif(payment_bank is null, order_rupees, 0)) from paid"
        ).fetchone()
        late = base.execute("select count(*) from paid_late").fetchone()[0]
    print(f"{rows['in']:,} orders and payments in, all accounted for")
    print(f"  said to be unpaid, at some time   {(unpaid['op'] == 'insert').sum():>6,}")
    print(f"  taken back when the gateway came  {(unpaid['op'] == 'retract').sum():>6,}")
    print(f"  unpaid in the end                 {without:>6,}   ₹{rupees:,}")
    print(f"  paid                              {paid:>6,}")
    print(f"  too late for twenty minutes       {late:>6,}   kept in paid_late")


if __name__ == "__main__":
    main(*sys.argv[1:])
