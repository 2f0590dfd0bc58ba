"""States to ask: made by the engine's own run, without Spark, from lanes that are written batch by batch under chosen clocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from tests.engine.crash_driver import Here, batch_of

from eventide.cli.loading import load
from eventide.engine.following import Follower
from eventide.engine.run import Run, no_hook

START = 1_790_000_000
"""Seconds since 1970: when everything begins; it is no whole minute."""
SECOND = 1_000_000

PIPELINE = """
import eventide as ev

rows = ev.files("rows", {landing!r}, event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s"), idle_after={idle!r})
minutes = rows.window(ev.{window}, by="bank").agg(total=ev.sum("paise"), n=ev.count())
pipeline = ev.Pipeline("p", minutes.to("quick", late=ev.drop()), minutes.to("patient", late=ev.retract("5 minutes", refused=ev.divert())),
                       state={state!r}, buckets=2)
"""

Batch = Mapping[str, Sequence[int]]
"""For each lane, the seconds at which its next rows happened; they arrive in order, within the second before the clock."""
BATCHES: Sequence[Batch] = ({"north": [1, 2, 70], "south": [65]}, {"north": [130], "south": [5]})


def defined(root: Path, window: str = 'tumbling("1 minute")', idle: str | None = None) -> Path:
    (root / "landing").mkdir(exist_ok=True)
    facts = {"landing": str(root / "landing"), "state": str(root / "state"), "window": window, "idle": idle}
    (root / "pipe.py").write_text(PIPELINE.format(**facts))
    return root / "pipe.py"


def at(second: float) -> int:
    return int((START + second) * SECOND)


def land(root: Path, lane: str, number: int, seconds: Sequence[int], arrived: int) -> tuple[str, int]:
    directory = root / "landing" / lane
    directory.mkdir(exist_ok=True)
    frame = {
        "ts": [at(second) for second in seconds], "at": [at(arrived + n / 1000) for n in range(len(seconds))],
        "bank": ["ab"[n % 2] for n in range(len(seconds))], "paise": list(range(len(seconds))),
    }  # fmt: skip
    path = directory / f"{number}.parquet"
    times = pl.col("ts", "at").cast(pl.Datetime("us", "UTC"))
    pl.DataFrame(frame).with_columns(times).write_parquet(path)
    os.utime(path, (START + arrived,) * 2)
    return str(path), (START + arrived) * SECOND


def ran(
    file: Path,
    batches: Sequence[Batch],
    clocks: Sequence[int],
    follow: Sequence[Follower] = (),
    hook: Callable[[str], None] = no_hook,
    heard: Callable[[Any], None] = lambda report: None,
) -> list[Any]:
    """Run one batch after the other, each at its clock (in seconds); gives what the run said of each."""
    root, said = file.parent, list[Any]()
    turned = iter(clocks)
    first = [land(root, lane, 0, seconds, clocks[0] - 1) for lane, seconds in batches[0].items()]
    clock = next(turned)
    pipeline = load(str(file))
    run = Run(pipeline, Here(), str(root / "state"), hook, clock=lambda: at(clock), followers=tuple(follow))  # type: ignore[arg-type]
    run.on_progress = lambda report: (said.append(report), heard(report))[1]
    run.open()
    try:
        run.batch(batch_of(pipeline, first), 0)  # type: ignore[arg-type]
        for number, (batch, clock) in enumerate(zip(batches[1:], turned, strict=True), 1):
            files = [land(root, lane, number, seconds, clock - 1) for lane, seconds in batch.items()]
            run.batch(batch_of(pipeline, files), number)  # type: ignore[arg-type]
    except BaseException as error:
        run.close(error)
        raise
    run.close()
    return said
