"""A directory that was made so that a result can be read from it goes with the process that reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PIPELINE = """
import os
import eventide as ev

rows = ev.files("rows", "landing", schema="ts timestamp, bank string", event_time="ts", watermark=ev.bounded("5 s"))
pipeline = ev.Pipeline("p", rows.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count()).to("out", late=ev.drop()))

def opened(*given, **_):
    open(os.path.join(given[-1], "part"), "w").close()
    print(given[-1])
    raise SystemExit(0)
"""
BACKFILL = """
from eventide.engine import backfill

backfill.backfill = opened
pipeline.backfill(None)
"""
RECONCILE = """
from eventide.reconcile import replay

replay.Run = opened
replay.replay_rows(pipeline, None, None)
"""


@pytest.mark.parametrize("asked", [BACKFILL, RECONCILE], ids=["backfill", "reconcile"])
def test_what_was_computed_for_one_process_is_there_until_it_ends(asked: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PIPELINE + asked], env=environment, capture_output=True, text=True, check=True)
    made = Path(done.stdout.strip())
    assert made.parent == tmp_path and not made.exists()
