"""The one door to what a run remembers: the same answers as the run itself gives, without Spark, and one error where nothing is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eventide as ev
from eventide.state.state import NothingYet, State
from eventide.state.store import attempt_in

RECORDED = Path(__file__).parent / "recorded" / "format-2" / "state"


def pipeline(state: str | None) -> ev.Pipeline:
    clicks = ev.files(
        "clicks", "landing/", schema="ts timestamp, page string", event_time="ts", watermark=ev.bounded("30 seconds")
    )
    pages = clicks.window(ev.tumbling("1 minute"), by="page").agg(n=ev.count())
    return ev.Pipeline("clicks", pages.to("totals", late=ev.drop()), state=state)


def test_a_recorded_state_says_where_it_stands(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "state")
    state = State.of(pipeline(str(tmp_path / "state")))
    assert state.ledger.batch == state.committed.batch >= 0
    assert state.generation == state.definition["generation"]
    assert state.lanes == state.definition["lanes"]
    assert all(
        attempt_in(path) == state.ledger.attempt_of(int(path.split("batch=")[1].split("/")[0]))
        for path in state.panes("totals")
    )
    assert state.panes("totals")


def test_what_was_never_run_is_told_with_the_next_step(tmp_path: Path) -> None:
    fresh = State.of(pipeline(str(tmp_path / "state")))
    assert (fresh.committed, fresh.definition, fresh.generation, fresh.lanes) == (None, None, 0, {})
    with pytest.raises(NothingYet, match=r"has committed nothing in .*state yet; run it first"):
        _ = fresh.ledger
    with pytest.raises(NothingYet, match="Give it one"):
        State.of(pipeline(None))


def test_a_local_state_is_read_without_spark(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "state")
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from eventide.state.state import State\n"
        f"state = State({str(tmp_path / 'state')!r}, 'clicks')\n"
        "print(state.ledger.batch, len(state.panes('totals')))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(said[0]) >= 0 and int(said[1]) > 0
