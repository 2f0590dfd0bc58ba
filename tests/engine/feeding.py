"""A landing directory and the engine's own Run over it, batch by batch, without Spark: files, clock and listing are ours to move."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from crash_driver import Here, Listed, note
from landing import START

import eventide as ev
from eventide.engine.run import Run
from eventide.state.state import committed_files
from eventide.state.store import Store

SECOND = 1_000_000
KINDS = {"ts": pl.Datetime("us", "UTC"), "at": pl.Datetime("us", "UTC"), "bank": pl.String, "paise": pl.Int64}


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START / SECOND + second, UTC)


class Feeding:
    """A landing directory and a run over it, batch by batch, with a clock that we set."""

    def __init__(self, root: Path, *outputs: Any, **source: Any) -> None:
        self.root, self.number, self.files, self.now = root, 0, 0, START + 10_000 * SECOND
        (root / "in").mkdir(parents=True)
        self.source = source
        self.pipe = self.pipeline()

    def pipeline(self, window: Any = None, by: Any = "bank", more: Any = (), allowed: str = "1 minute") -> ev.Pipeline:
        payments = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory",
            **{"watermark": ev.bounded("0 s"), **self.source},
        )  # fmt: skip
        minutes = payments.window(window or ev.tumbling("10 s"), by=by).agg(n=ev.count(), total=ev.sum("paise"))
        outputs = [minutes.to("out", late=ev.accumulate(allowed, refused=ev.divert()))]
        return ev.Pipeline("bad", *outputs, *(f(minutes) for f in more), state=str(self.root / "state"), buckets=1)

    def land(self, lane: str, *rows: tuple[float | None, float, str | None, int | None]) -> None:
        (self.root / "in" / lane).mkdir(exist_ok=True)
        facts = [(None if ts is None else at(ts), at(arrived), bank, paise) for ts, arrived, bank, paise in rows]
        path = self.root / "in" / lane / f"{self.files:03d}.parquet"
        pl.DataFrame(facts, schema=KINDS, orient="row").write_parquet(path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def open(self, pipe: Any = None, hook: Callable[[str], None] = lambda point: None) -> Run:
        self.run = Run(pipe or self.pipe, Here(), str(self.root / "state"), hook=hook, clock=lambda: self.now)
        self.run.open()
        return self.run

    def batch(self, *lanes: str, drain: bool = False) -> Any:
        """A batch of the newest file of each of these lanes."""
        return self.batch_of(*(max((self.root / "in" / lane).iterdir()) for lane in lanes), drain=drain)

    def batch_of(self, *files: Path, drain: bool = False) -> Any:
        """A batch of these files."""
        listed = [(str(p), p.stat().st_mtime_ns // 1000) for p in files]
        self.now += SECOND
        note(self.root / "state", self.run.ledger.batch + 1, listed)
        return self.run.batch(Listed(listed), self.run.ledger.batch + 1, drain=drain)

    def again(self, *lanes: str, **how: Any) -> Any:
        """The batch that died, run again at a later time."""
        return self.batch(*lanes, **how)

    def said(self, what: str = "panes/out") -> list[dict[str, Any]]:
        store = Store(str(self.root / "state"))
        files = [store.url(path) for path in sorted(committed_files(store, what, self.run.ledger))]
        return pl.concat([pl.read_parquet(f) for f in files], how="diagonal").to_dicts() if files else []

    def rows(self) -> dict[str, int]:
        return dict(self.run.ledger.rows)
