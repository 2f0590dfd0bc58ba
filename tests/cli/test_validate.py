"""`eventide validate`: what a file defines, what has changed against its state, and what would be refused; without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from asked import refused, shown, written
from at_work import AtWork, prepared
from click.testing import CliRunner
from tests.engine.crash_driver import Here

from eventide.cli import main
from eventide.cli.loading import load
from eventide.engine.run import Run
from eventide.errors import StoreUnavailable


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline file whose run has caught up."""
    file = prepared(tmp_path_factory.mktemp("validate"))
    assert AtWork("run", str(file), "--until-caught-up", spark=False).ended() == 0
    return file


def changed(file: Path, was: str, now: str) -> str:
    """The same file with another word in it, beside it."""
    text = file.read_text()
    assert was in text
    (file.parent / "changed.py").write_text(text.replace(was, now))
    return str(file.parent / "changed.py")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_file_without_state_is_described(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    said = shown("validate", written(tmp_path))
    for words in (
        "pipeline p",
        "rows",
        "at most 5 seconds out of order",
        "1 minute",
        "out",
        "drop",
        str(tmp_path / "state"),
        "no state yet",
    ):
        assert words in said
    assert "types of columns are compared when it starts" in said
    assert not (tmp_path / "state").exists()


def test_a_state_that_fits_is_left_as_it_is(ran: Path) -> None:
    before = contents(ran.parent / "state")
    said = shown("validate", str(ran))
    assert "stands after batch 11, and nothing has changed" in said and "compared when it starts" not in said
    assert contents(ran.parent / "state") == before


def test_a_state_whose_first_batch_was_never_committed_is_told_as_one(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    run = Run(load(str(file)), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    run.open()
    run.close()
    told = CliRunner().invoke(main.main, ["validate", str(file)])
    assert told.exit_code == 0 and "has committed nothing yet, and nothing has changed" in told.output, told.output


def test_a_free_change_is_told_once_and_is_no_finding(ran: Path) -> None:
    told = CliRunner().invoke(main.main, ["validate", changed(ran, 'bounded("5 s")', 'bounded("9 s")')])
    assert told.exit_code == 0, told.output
    assert told.output.count("watermark of source 'rows' is now") == 1 and 'was bounded("5 seconds")' in told.output


def test_a_change_that_the_state_cannot_follow_is_a_finding(ran: Path) -> None:
    before = contents(ran.parent / "state")
    file = changed(ran, "1 minute", "2 minutes")
    told = CliRunner().invoke(main.main, ["validate", file])
    assert told.exit_code == 1 and "--start-over" in told.output
    assert 'window of the pipeline changed from tumbling("1 minute") to tumbling("2 minutes")' in told.output
    facts = json.loads(CliRunner().invoke(main.main, ["validate", file, "--json"]).stdout)
    assert facts["ok"] is False and "--start-over" in facts["refused"]
    assert contents(ran.parent / "state") == before


def test_what_would_be_told_is_what_a_run_refuses(ran: Path) -> None:
    file = changed(ran, "1 minute", "2 minutes")
    run = AtWork("run", file, "--until-caught-up", spark=False)
    assert run.ended() == 2
    refusal = json.loads(CliRunner().invoke(main.main, ["validate", file, "--json"]).stdout)["refused"]
    assert refusal in run.said


def test_a_column_that_the_files_lack_is_found_without_spark(ran: Path) -> None:
    said = refused("validate", changed(ran, 'ev.sum("paise")', 'ev.sum("rupees")'))
    assert "source 'rows' has no column 'rupees'. Its columns are ts, at, bank, paise." in said
    said = refused("validate", changed(ran, 'ev.sum("paise")', 'ev.sum("bank")'))
    assert "the column 'bank' is String, which has no sum" in said


def test_a_missing_directory_and_a_mistake_in_the_file_are_one_paragraph(tmp_path: Path) -> None:
    assert "there is no such directory" in refused("validate", written(tmp_path))
    assert "pipe.py, line 5" in refused("validate", written(tmp_path, total="ev.nothing()"))
    (tmp_path / "landing").mkdir()
    assert "no column 'rupees'" in refused("validate", written(tmp_path, total='ev.sum("rupees")'))


def test_a_damaged_state_and_a_finished_one_are_findings(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    assert AtWork("run", str(file), "--until-caught-up", "--drain", spark=False).ended() == 0
    told = CliRunner().invoke(main.main, ["validate", str(file)])
    assert told.exit_code == 1 and "is finished" in told.output
    newest = max((tmp_path / "state/journal").glob("commit-*"))
    newest.write_bytes(newest.read_bytes()[:-9])
    told = CliRunner().invoke(main.main, ["validate", str(file)])
    assert told.exit_code == 1 and "is damaged" in told.output


def test_a_place_that_does_not_answer_is_worth_another_try(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: object) -> None:
        raise StoreUnavailable("the object store of s3://lake/state did not do what was asked.")

    monkeypatch.setattr("eventide.state.state.record_files", unanswered)
    assert CliRunner().invoke(main.main, ["validate", str(ran)]).exit_code == 3


def test_it_starts_no_spark(ran: Path) -> None:
    code = "import sys; from eventide.cli.main import main\ntry:\n    main(prog_name='eventide')\nfinally:\n    assert 'pyspark' not in sys.modules"
    asked = subprocess.run([sys.executable, "-c", code, "validate", str(ran)], capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0, asked.stderr
