"""Generations on Spark, from the user's side: a backfill that tells nobody, one that is delivered, and other windows in a table's place."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.engine.restart import start_over

BASE = 1_760_000_000


def land(root: Path, *seconds: int) -> None:
    (root / "in").mkdir(exist_ok=True)
    times = pl.Series([(BASE + s) * 1_000_000 for s in seconds]).cast(pl.Datetime("us", "UTC"))
    frame = pl.DataFrame({"at": times, "bank": ["a"] * len(seconds), "paise": [1] * len(seconds)})
    frame.write_parquet(root / "in" / f"{seconds[0]}.parquet")


def pipeline(root: Path, window: str = "10 seconds", archive: bool = True) -> ev.Pipeline:
    paid = ev.files("paid", str(root / "in"), event_time="at", arrival="at", watermark=ev.ascending())
    sums = paid.window(ev.tumbling(window), by="bank").agg(total=ev.sum("paise"))
    output = sums.to("totals", ev.sqlite(str(root / "out.db")), late=ev.accumulate("20 seconds"))
    return ev.Pipeline("paid", output, state=str(root / "state"), archive=str(root / "archive") if archive else None)


def table(root: Path) -> list[tuple[int, int]]:
    """(total, generation) by the start of the window."""
    with sqlite3.connect(root / "out.db") as base:
        return base.execute("select total, generation from totals order by window_start").fetchall()


def test_a_backfill_tells_nobody_unless_asked_and_then_speaks_of_what_is_final(spark: Any, tmp_path: Path) -> None:
    land(tmp_path, 1, 2, 12, 23, 35)
    made = pipeline(tmp_path)
    made.run(spark)
    assert table(tmp_path) == [(2, 0), (1, 0), (1, 0)]
    done = made.backfill(spark=spark)
    assert done.rows["in"] == 5 and table(tmp_path) == [(2, 0), (1, 0), (1, 0)]
    made.backfill(spark=spark, deliver=True)
    assert table(tmp_path) == [(2, 1), (1, 0), (1, 0)], "W is 35 s and 20 s of lateness are allowed: the first window is final"
    land(tmp_path, 41)
    assert made.run(spark).rows["in"] == 6
    assert table(tmp_path) == [(2, 1), (1, 0), (1, 0), (1, 0)]
    bare = pipeline(tmp_path, archive=False)
    with pytest.raises(ev.DefinitionError, match="keeps no archive"):
        bare.backfill(spark=spark, deliver=True)
    (archived, *_) = sorted((tmp_path / "archive").rglob("*.parquet"))
    archived.unlink()
    with pytest.raises(ev.DefinitionError, match=r"holds 1 of the 6 rows.*Nothing was delivered"):
        made.backfill(spark=spark, deliver=True)
    assert table(tmp_path) == [(2, 1), (1, 0), (1, 0), (1, 0)]


def test_other_windows_stand_in_the_place_of_the_old_ones_when_they_have_caught_up(spark: Any, tmp_path: Path) -> None:
    land(tmp_path, 1, 2, 12, 23, 45)
    pipeline(tmp_path).run(spark)
    fresh, aside = start_over(pipeline(tmp_path, "20 seconds"))
    assert aside is not None and fresh.run(spark).rows["in"] == 5
    assert table(tmp_path) == [(3, 1), (1, 1)]
    land(tmp_path, 61)
    pipeline(tmp_path, "20 seconds").run(spark)
    assert table(tmp_path) == [(3, 1), (1, 1), (1, 1)]
