"""A pipeline that tests run batch by batch, with an archive, while a page about it is open; and the page itself, served as users are served."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import uvicorn
from tests.cli.stated import at
from tests.engine.crash_driver import Here, Listed

from eventide.cli.loading import load
from eventide.dashboard.app import Board, application
from eventide.dashboard.watched import Place
from eventide.engine.run import Run

PIPELINE = """
import eventide as ev

rows = ev.files("rows", {landing!r}, event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("5 s"))
minutes = rows.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
pipeline = ev.Pipeline("payments", minutes.to("quick", late=ev.divert()), minutes.to("patient", late=ev.retract("5 minutes", refused=ev.divert())),
                       state={state!r}, archive={archive!r}, buckets=2)
"""


class AtWork:
    """The run of a pipeline of which each batch is handed over by hand."""

    def __init__(self, root: Path, keys: list[str] | None = None) -> None:
        self.root, self.keys, self.number, self.clock = root, keys or ["a", "b"], 0, 0
        self.state, self.archive, self.file = str(root / "state"), str(root / "archive"), root / "pipe.py"
        self.file.write_text(PIPELINE.format(landing=str(root / "landing"), state=self.state, archive=self.archive))
        (root / "landing").mkdir()
        self.run = Run(load(str(self.file)), Here(), self.state, clock=lambda: at(self.clock))  # type: ignore[arg-type]
        self.opened = False

    def batch(self, rows: dict[str, list[int]], clock: int) -> None:
        """The next rows of each lane, by the seconds at which they happened, and the clock of the batch."""
        self.clock = clock
        files = [self._land(lane, seconds) for lane, seconds in rows.items()]
        if not self.opened:
            self.run.open()
            self.opened = True
        self.run.batch(Listed(files), self.number)  # type: ignore[arg-type]
        self.number += 1

    def _land(self, lane: str, seconds: list[int]) -> tuple[str, int]:
        directory = self.root / "landing" / lane
        directory.mkdir(exist_ok=True)
        count, arrived = len(seconds), self.clock - 1
        frame = pl.DataFrame(
            {
                "ts": [at(second) for second in seconds],
                "at": [at(arrived + n / 1000) for n in range(count)],
                "bank": [self.keys[n % len(self.keys)] for n in range(count)],
                "paise": list(range(count)),
            }
        )
        path = directory / f"{self.number}.parquet"
        frame.with_columns(pl.col("ts", "at").cast(pl.Datetime("us", "UTC"))).write_parquet(path)
        os.utime(path, (at(arrived) // 1_000_000,) * 2)
        return str(path), at(arrived) // 1_000_000 * 1_000_000


@contextmanager
def page(board: Board, token: str | None = None) -> Iterator[str]:
    """The address of a board's page, served on this machine."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(board, token), log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    board.start()
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        board.stop()
        server.should_exit = True
        thread.join(10)


def place_of(work: AtWork) -> Place:
    return Place(work.state, "payments", work.archive)
