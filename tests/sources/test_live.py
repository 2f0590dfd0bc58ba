"""A pipeline left running: a quiet stream still closes its windows, and stops when it is told to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import eventide as ev


def wait_until(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def test_a_stream_that_falls_silent_still_closes_its_windows(spark: Any, tmp_path: Path) -> None:
    import polars as pl

    now = int(time.time()) * 1_000_000
    (tmp_path / "in").mkdir()
    times = pl.Series([now - 3_000_000, now - 2_000_000, now - 1_000_000]).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"at": times, "n": [1, 2, 3]}).write_parquet(tmp_path / "in" / "a.parquet")
    source = ev.files("quiet", str(tmp_path / "in"), event_time="at", watermark=ev.bounded("1 second"), idle_after="2 seconds")
    counts = source.window(ev.tumbling("1 second")).agg(total=ev.sum("n"))
    pipeline = ev.Pipeline(
        "quiet", counts.to("totals", late=ev.divert()), state=str(tmp_path / "state"), when_all_idle="advance"
    )
    handle = pipeline.start(spark, interval="500 milliseconds")
    try:
        wait_until(lambda: handle.watermark is not None and handle.watermark > now)
    finally:
        handle.stop()
    assert sum(row["total"] for row in pipeline.panes(spark).collect()) == 6
    assert handle.rows["in"] == 3


def test_a_generated_stream_accounts_for_every_row(spark: Any, tmp_path: Path) -> None:
    source = ev.generated("load", watermark=ev.bounded("1 second"), rows_per_second=500, late=0.05, longest_delay="10 seconds")
    sums = source.window(ev.tumbling("2 seconds"), by="key").agg(total=ev.sum("amount"), n=ev.count())
    pipeline = ev.Pipeline(
        "load", sums.to("totals", late=ev.accumulate("2 seconds", refused=ev.divert())), state=str(tmp_path / "s")
    )
    handle = pipeline.start(spark, interval="500 milliseconds")
    try:
        wait_until(lambda: handle.rows.get("in", 0) >= 2_000)
    finally:
        handle.stop()
    rows, counts = handle.rows, handle.outputs["totals"]
    waiting = rows.get("kept", 0) - rows.get("judged", 0)
    assert rows["in"] == counts["rows_on_time"] + counts["rows_admitted"] + counts["rows_refused"] + waiting
    assert pipeline.late(spark).count() == counts["rows_refused"]
