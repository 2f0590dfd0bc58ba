"""`eventide run` in a process of its own, in a terminal or not: what it shows, signals at chosen moments, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

COMMAND = [sys.executable, "-c", "from eventide.cli.main import main; main(prog_name='eventide')"]
WITHOUT_SPARK = [sys.executable, str(Path(__file__).parent / "without_spark.py")]
START = datetime(2026, 11, 1, tzinfo=UTC)
FILES, ROWS = 12, 100

PIPELINE = '''
import os, time
from pathlib import Path
import eventide as ev

root = Path({root!r})
(root / "loading").touch()
time.sleep(float(os.environ.get("SLOW_LOAD", "0")))


def deliver(panes, facts):
    """Slow, so that a signal can come while it is at work."""
    (root / "delivering").touch()
    if "FAIL_DELIVERY" in os.environ:
        raise ValueError(os.environ["FAIL_DELIVERY"])
    time.sleep(float(os.environ.get("SLOW_DELIVERY", "0")))


rows = ev.files("rows", str(root / "landing"), event_time="ts", arrival="at", files_per_batch=1, watermark=ev.bounded("5 s"))
minutes = rows.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
pipeline = ev.Pipeline("p", minutes.to("slow", ev.function(deliver), late=ev.drop()),
                       minutes.to("out", ev.sqlite(str(root / "out.db")), late=ev.drop()), state=str(root / "state"))
'''


def prepared(root: Path) -> Path:
    """Twelve files of twenty seconds each, and a pipeline over them."""
    (root / "landing").mkdir()
    for number in range(FILES):
        times = [START + timedelta(seconds=20 * number + n / 5) for n in range(ROWS)]
        frame = pl.DataFrame({"ts": times, "at": times, "bank": ["ab"[n % 2] for n in range(ROWS)], "paise": range(ROWS)})
        path = root / "landing" / f"{number:02d}.parquet"
        frame.with_columns(pl.col("ts", "at").dt.cast_time_unit("us")).write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    (root / "pipe.py").write_text(PIPELINE.format(root=str(root)))
    return root / "pipe.py"


class AtWork:
    """A process whose output is read as it comes; Ctrl-C is typed where there is a terminal, and sent where there is none."""

    def __init__(self, *arguments: str, terminal: bool = False, spark: bool = True, **environment: str) -> None:
        self.text = b""
        command = COMMAND if spark else WITHOUT_SPARK
        env = {**os.environ, **environment}
        if terminal:
            self.pid, self.out = pty.fork()
            if self.pid == 0:
                os.execvpe(command[0], [*command, *arguments], {**env, "TERM": "xterm"})
            fcntl.ioctl(self.out, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            self.keys: int | None = self.out
        else:
            self.process = subprocess.Popen(
                [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
                start_new_session=True,
            )  # fmt: skip
            assert self.process.stdout is not None
            self.pid, self.out, self.keys = self.process.pid, self.process.stdout.fileno(), None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self.out, 65536)
            except OSError:  # the terminal is closed
                return
            if not more:
                return
            self.text += more

    @property
    def said(self) -> str:
        return self.text.decode(errors="replace")

    def until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain; so far it said:\n{self.said}"
            time.sleep(0.02)

    def interrupt(self, number: int = signal.SIGINT, *, group: bool = False) -> None:
        if self.keys is not None and number == signal.SIGINT:
            os.write(self.keys, b"\x03")
        elif group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def ended(self, seconds: float = 120) -> int:
        """Its exit code."""
        end = time.monotonic() + seconds
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.reader.join(10)
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"it did not end; it said:\n{self.said}")
            time.sleep(0.02)
