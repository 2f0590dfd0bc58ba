"""A state that keeps what it wrote for people only for a time: what is older goes with the run itself, nothing that is still needed does."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from tests.cli.stated import at, defined, ran
from tests.engine.crash_driver import Here

import eventide as ev
from eventide.cli import main
from eventide.cli.loading import load
from eventide.engine.cleaning import copy
from eventide.engine.run import Run
from eventide.state.retention import Retention, refuse_removed, removed_upto, retire
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


CLEAN = ["--clean", "250 s"]


def asked(*words: str) -> Result:
    return CliRunner().invoke(main.main, ["state", *words])


def at_clock(monkeypatch: pytest.MonkeyPatch, second: int) -> None:
    monkeypatch.setattr(
        "eventide.cli.state.time", SimpleNamespace(time_ns=lambda: at(second) * 1000, time=lambda: at(second) / 1e6)
    )


def test_a_state_is_cleaned_by_hand_and_says_so_to_who_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run with keep="250 s" would have done it: the same batches go, and what stands goes on."""
    file = written(tmp_path, "")
    ran(file, BATCHES, CLOCKS)
    at_clock(monkeypatch, CLOCKS[-1])
    before = kept(tmp_path, "panes/patient")
    looked = asked(str(file), *CLEAN, "--dry-run")
    assert looked.exit_code == 0 and "of batches up to 3: these would go" in looked.output
    assert kept(tmp_path, "panes/patient") == before
    told = json.loads(asked(str(file), *CLEAN, "--json").stdout)
    assert (told["upto"], told["removed"]) == (3, True) and told["files"] > 0
    assert kept(tmp_path, "panes/patient") == [number for number in before if number > 3]
    assert min(kept(tmp_path, "late/patient"), default=9) > 3
    state = State(str(tmp_path / "state"), "p")
    assert removed_upto(state) == 3
    with pytest.raises(ev.DefinitionError, match=r"batches up to 3 were removed .*eventide state --clean"):
        refuse_removed(state, "a comparison")
    assert "nothing is so old" in asked(str(file), *CLEAN).output


def test_a_run_that_goes_on_remembers_what_was_removed_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "")
    ran(file, BATCHES, CLOCKS)
    at_clock(monkeypatch, CLOCKS[-1])
    assert asked(str(file), *CLEAN).exit_code == 0
    run = Run(load(str(file)), Here(), str(tmp_path / "state"), clock=lambda: at(CLOCKS[-1] + 100))  # type: ignore[arg-type]
    run.open()
    assert run.retention.removed == 3
    run.drain()
    run.close()
    assert State(str(tmp_path / "state"), "p").last["kept"]["removed"] == 3


def test_panes_by_which_results_are_taken_back_are_not_cleaned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "", sink="ev.function(print), ")
    ran(file, BATCHES, CLOCKS)
    before = kept(tmp_path, "panes/quick")
    at_clock(monkeypatch, CLOCKS[-1] + 10_000)
    assert asked(str(file), *CLEAN).exit_code == 0
    assert kept(tmp_path, "panes/quick") == before and kept(tmp_path, "panes/patient") == []


def test_a_state_at_work_is_neither_cleaned_nor_copied(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    ran(file, BATCHES[:1], CLOCKS[:1])
    run = Run(load(str(file)), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    run.open()
    for words in (CLEAN, ["--copy", str(tmp_path / "fork")]):
        refused = asked(str(file), *words)
        assert refused.exit_code != 0 and "state" in refused.output, refused.output
    run.close()
    assert not (tmp_path / "fork").exists()


def test_a_copy_goes_on_as_the_first_would_and_leaves_it_alone(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    ran(file, BATCHES[:3], CLOCKS[:3])
    copied = asked(str(file), "--copy", str(tmp_path / "fork"), "--json")
    assert json.loads(copied.stdout)["copy"] == str(tmp_path / "fork") and not (tmp_path / "fork/lease").exists()
    before = State(str(tmp_path / "state"), "p").last
    ends = []
    for place in ("fork", "state"):
        pipeline = replace(load(str(file)), state=str(tmp_path / place))
        run = Run(pipeline, Here(), str(tmp_path / place), clock=lambda: at(CLOCKS[3]))  # type: ignore[arg-type]
        run.open()
        run.drain()
        run.close()
        ends.append((run.ledger.rows, run.ledger.outputs, run.ledger.frontier.watermark, run.generation))
        assert place == "state" or State(str(tmp_path / "state"), "p").last == before
    assert ends[0] == ends[1]
    for words in (
        ["--copy", str(tmp_path / "fork")],
        ["--copy", str(tmp_path / "state/inner")],
        [*CLEAN, "--copy", "x"],
        ["--dry-run"],
    ):
        assert asked(str(file), *words).exit_code == 2


def test_a_copy_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    ran(file, BATCHES[:1], CLOCKS[:1])

    def breaks() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(str(tmp_path / "state"), str(tmp_path / "fork"), breaks)
    assert {path.name for path in tmp_path.iterdir() if "fork" in path.name} == set()
    assert asked(str(tmp_path / "state"), "--clean", "1 day").exit_code == 2
