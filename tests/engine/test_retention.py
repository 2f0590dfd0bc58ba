"""A state that keeps what it wrote for people only for a time: what is older goes with the run itself, nothing that is still needed does."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stated import defined, ran

import eventide as ev
from eventide.cli import main
from eventide.cli.loading import load
from eventide.engine.run import Run
from eventide.state.retention import Retention, refuse_removed, retire
from eventide.state.state import State
from eventide.state.store import Store

BATCHES = [{"a": [n * 600, 0]} for n in range(1, 8)]
CLOCKS = [1000 + 100 * n for n in range(7)]


def kept(root: Path, directory: str) -> list[int]:
    return sorted(int(path.name.removeprefix("batch=")) for path in (root / "state" / directory).glob("batch=*"))


def written(root: Path, more: str, sink: str = "") -> Path:
    file = defined(root)
    text = file.read_text().replace("buckets=2", f"buckets=2{more}")
    file.write_text(text.replace('minutes.to("quick", late', f'minutes.to("quick", {sink}late'))
    return file


def test_without_a_span_everything_is_kept_for_ever(tmp_path: Path) -> None:
    ran(written(tmp_path, ""), BATCHES, CLOCKS)
    assert kept(tmp_path, "panes/patient") and min(kept(tmp_path, "late/patient")) < 4
    assert State(str(tmp_path / "state"), "p").last["kept"] == {"marks": [], "removed": -1}


def test_files_of_batches_that_are_older_go_and_the_younger_stay(tmp_path: Path) -> None:
    base = str(tmp_path / "out.db")
    ran(written(tmp_path, ', keep="250 seconds"', f"ev.sqlite({base!r}), "), BATCHES, CLOCKS)
    state = State(str(tmp_path / "state"), "p")
    assert state.last["kept"]["removed"] == 3, "committed at 1300, of 1600 less 250"
    for directory in ("panes/quick", "panes/patient", "late/patient"):
        assert kept(tmp_path, directory) and min(kept(tmp_path, directory)) > 3
    with sqlite3.connect(base) as told:
        assert told.execute("select count(*) from quick").fetchone()[0] > 3, "what sinks hold is theirs"
    told.close()
    with pytest.raises(ev.DefinitionError, match="batches up to 3 were removed"):
        refuse_removed(state, "a reconciliation")
    listed = CliRunner().invoke(main.main, ["late", str(tmp_path / "pipe.py")])
    assert listed.exit_code == 0, listed.output


def test_panes_of_a_sink_that_cannot_be_asked_stay_for_a_later_generation(tmp_path: Path) -> None:
    ran(written(tmp_path, ', keep="250 seconds"', "ev.function(print), "), BATCHES, CLOCKS)
    assert min(kept(tmp_path, "panes/quick")) <= 3 < min(kept(tmp_path, "panes/patient"))


def test_what_a_run_that_died_had_not_removed_goes_with_the_next_that_are_due(tmp_path: Path) -> None:
    file = written(tmp_path, ', keep="250 seconds"')
    real = Run._retire
    Run._retire = lambda run, kept: setattr(run, "retention", kept)  # type: ignore[method-assign]
    try:
        ran(file, BATCHES[:5], CLOCKS[:5])
    finally:
        Run._retire = real  # type: ignore[method-assign]
    assert min(kept(tmp_path, "late/patient")) <= 1
    removed = Retention.from_json(State(str(tmp_path / "state"), "p").last["kept"]).removed
    retire(Store(str(tmp_path / "state")), removed, ("dead",), ())
    assert removed == 1 and min(kept(tmp_path, "late/patient")) == min(kept(tmp_path, "panes/quick")) == 2


def test_a_span_of_nothing_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, ', keep="0 seconds"')
    with pytest.raises(Exception, match="keep"):
        load(str(file))
