"""Makes a state directory as a run leaves it that died while it delivered its second batch: `python tests/engine/record_state.py DIRECTORY`.

`recorded/format-N` was made so by the Eventide whose states have that format. Paths in its records begin with ROOT.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from crash_driver import Here, Listed

import eventide as ev
from eventide.engine.run import Run

ROOT = "/recorded/here"
START = 1_700_000_000
FILES: list[tuple[str, list[tuple[int, int, str, int]]]] = [
    ("a/0", [(1, 1, "x", 1), (12, 12, "x", 2), (13, 13, "y", 4)]),
    ("b/1", [(2, 3, "x", 8), (24, 24, "y", 16)]),
    ("a/2", [(35, 35, "x", 32), (3, 36, "x", 64)]),
    ("b/3", [(41, 41, "x", 128)]),
]
"""Rows (event time, arrival, bank, paise) of files that land one after the other."""


def land(root: Path, count: int = len(FILES)) -> list[tuple[str, int]]:
    """The first so many files, with the times at which they landed."""
    landed = []
    for number, (name, rows) in enumerate(FILES[:count]):
        path = root / "in" / f"{name}.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            values = [(at(happened), at(arrived), bank, paise) for happened, arrived, bank, paise in rows]
            pl.DataFrame(values, schema=["ts", "at", "bank", "paise"], orient="row").write_parquet(path)
        os.utime(path, (START + number,) * 2)
        landed.append((str(path), (START + number) * 1_000_000))
    return landed


def at(second: int) -> datetime:
    return datetime.fromtimestamp(START + second, UTC)


def pipeline(root: Path, sink: Any, window: Any = None) -> ev.Pipeline:
    paid = ev.files(
        "paid",
        str(root / "in"),
        event_time="ts",
        arrival="at",
        lane="directory",
        watermark=ev.bounded("0 s"),
        idle_after="30 s",
    )
    tens = paid.window(window or ev.tumbling("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
    outputs = [tens.to("totals", sink, late=ev.retract("1 minute")), tens.to("first", late=ev.divert())]
    return ev.Pipeline("recorded", *outputs, state=str(root / "state"), buckets=2)


def opened(pipe: ev.Pipeline, second: int) -> Run:
    run = Run(pipe, Here(), str(pipe.state), clock=lambda: (START + second) * 1_000_000)
    run.open()
    return run


def record(root: Path) -> None:
    files = land(root, 2)
    run = opened(pipeline(root, ev.function(lambda table, delivery: None, keyed=True)), 30)
    run.batch(Listed(files), 0)
    files = land(root)

    def dies(point: str) -> None:
        if point == "deliver":
            raise KeyboardInterrupt

    run.hook, run.clock = dies, lambda: (START + 45) * 1_000_000
    try:
        run.batch(Listed(files[2:]), 1)
    except KeyboardInterrupt:
        run.close()


def say(body: bytes, was: str, now: str) -> bytes:
    """A record with other paths in it, and its checksum."""
    version = json.loads(body)["version"]
    facts = json.dumps(json.loads(body)["facts"], separators=(",", ":")).replace(was, now).encode()
    return b'{"version":%d,"crc":%d,"facts":%s}' % (version, zlib.crc32(facts), facts)


def move(state: Path, was: str, now: str) -> None:
    for path in (state / "journal").iterdir():
        path.write_bytes(say(path.read_bytes(), was, now))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        record(Path(made))
        move(Path(made) / "state", made, ROOT)
        for name in ("lease", "lease.json"):
            shutil.rmtree(Path(made) / "state" / name, ignore_errors=True)
        shutil.copytree(made, sys.argv[1])
