"""What a run says of itself: each source's own watermark, holder, rows and late rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
from crash_driver import Here, Listed

import eventide as ev
from eventide.engine.board import Board
from eventide.engine.run import Run

START = 1_700_000_000_000_000
SECOND = 1_000_000


def land(root: Path, seconds: list[int]) -> tuple[str, int]:
    """Rows that arrive one second apart."""
    root.mkdir()
    at = pl.Series([START + n * SECOND for n in range(len(seconds))]).cast(pl.Datetime("us", "UTC"))
    ts = pl.Series([START + s * SECOND for s in seconds]).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"ts": ts, "at": at}).write_parquet(root / "a.parquet")
    os.utime(root / "a.parquet", (1_700_000_000, 1_700_000_000))
    return str(root / "a.parquet"), 1_700_000_000 * SECOND


def test_each_source_has_a_line_of_its_own(tmp_path: Path) -> None:
    landed = {"sensors": land(tmp_path / "sensors", [0, 25, 50, 1, 51]), "gates": land(tmp_path / "gates", [40, 41, 42])}
    sources = [ev.files(name, str(tmp_path / name), event_time="ts", arrival="at", watermark=ev.ascending()) for name in landed]
    counts = ev.merge(*sources).window(ev.tumbling("10 s")).agg(n=ev.count())
    pipeline = ev.Pipeline("two", counts.to("out", late=ev.drop()), state=str(tmp_path / "state"), buckets=1)
    said: list[Any] = []
    run = Run(pipeline, Here(), str(tmp_path / "state"), clock=lambda: START + 100 * SECOND, on_progress=said.append)
    run.open()
    run.batch(Listed(list(landed.values()), [0, 1]), 0)
    run.close()
    board = Board()
    board.take(said[-1])
    sensors, gates = said[-1].sources
    assert (sensors.rows, sensors.late, gates.rows, gates.late) == (5, 1, 3, 0)
    first, second, together = board.lines()
    assert "sensors" in first and "lag 49 s" in first and "late 20.0%" in first
    assert "gates" in second and "lag 58 s" in second and "late 0.0%" in second
    assert "holder lane 0" in first and "holder lane 0" in second
    assert (sensors.holder, gates.holder) == ("sensors/0", "gates/0")
    assert together.startswith("all together") and together.endswith("holder gates/0")
