"""Any streaming DataFrame of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND


@pytest.mark.parametrize("ordered", [True, False])
def test_a_users_own_stream_is_read_once_over_two_runs(spark: Any, tmp_path: Path, ordered: bool) -> None:
    """With columns that say its lanes and order, or as its rows come; late is late either way."""
    landing = tmp_path / "in"
    landing.mkdir()

    def land(first: int, seconds: list[int]) -> None:
        times = pl.Series([BASE + s * SECOND for s in seconds]).cast(pl.Datetime("us", "UTC"))
        numbers = list(range(first, first + len(seconds)))
        pl.DataFrame({"at": times, "shop": ["s"] * len(seconds), "number": numbers}).write_parquet(landing / f"{first}.parquet")

    land(0, [0, 1, 30, 2])
    frame = spark.readStream.schema("at timestamp, shop string, number bigint").parquet(str(landing)).where("number >= 0")
    place = {"lane": "shop", "offset": "number", "arrival": "at"} if ordered else {}
    orders = ev.stream("orders", frame, event_time="at", watermark=ev.ascending(), **place)
    counts = orders.window(ev.tumbling("10 seconds")).agg(n=ev.count())
    pipeline = ev.Pipeline("orders", counts.to("counts", late=ev.divert()), state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["in"] == 4
    land(4, [3, 60])
    handle = pipeline.run(spark)
    assert handle.rows["in"] == 6
    assert handle.outputs["counts"]["rows_refused"] == 2
    assert pipeline.panes(spark).orderBy("window_start").first()["n"] == 2
