"""A Delta table as a stream: what was appended is read once, in the order that its columns say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from deltalake import write_deltalake

import eventide as ev

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND


def rows(first: int, count: int) -> Any:
    times = pl.Series([BASE + n * SECOND for n in range(first, first + count)])
    return pl.DataFrame(
        {"at": times.cast(pl.Datetime("us", "UTC")), "number": range(first, first + count), "amount": [1] * count}
    ).to_arrow()


def test_appended_rows_are_counted_once_over_two_runs(spark: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    write_deltalake(table, rows(0, 50))
    source = ev.delta_table("orders", table, event_time="at", arrival="at", offset="number", watermark=ev.ascending())
    sums = source.window(ev.tumbling("10 seconds")).agg(total=ev.sum("amount"))
    pipeline = ev.Pipeline("orders", sums.to("totals", late=ev.divert()), state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["in"] == 50
    write_deltalake(table, rows(50, 50), mode="append")
    assert pipeline.run(spark).rows["in"] == 100
    totals = pipeline.panes(spark).collect()
    assert [row["total"] for row in totals] == [10] * 9, "the tenth window is still open"
