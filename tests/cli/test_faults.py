"""What goes wrong before a run begins: one paragraph that says what to do, no traceback, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from asked import PIPELINE, refused, written
from click.testing import CliRunner

from eventide.cli import faults, main
from eventide.cli.loading import load


@pytest.mark.parametrize("command", ["run", "tune", "lateness", "reconcile"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import eventide as ev\nimport no_such_thing\n", "line 2: ModuleNotFoundError: No module named 'no_such_thing'. Install it"),
        ("import eventide as ev\n\npipeline = ev.Pipeline(\n", "line 3: '(' was never closed"),
        ("import eventide as ev\nev.tumbling('1 fortnight')\n", "line 2: "),
        ("import eventide as ev\nev.no_such_window('1 s')\n", "line 2: AttributeError: module 'eventide' has no attribute 'no_such_window'"),
        ("x = 1\n", "defines no Pipeline"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file_is_said_with_its_line(tmp_path: Path, command: str, text: str, says: str) -> None:
    file = written(tmp_path, text)
    said = refused(command, file)
    assert file in said and says in said


def test_a_module_beside_the_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "beside_the_pipeline.py").write_text("BOUND = '7 seconds'\n")
    text = PIPELINE.format(path="landing", state="state", total="ev.count()", more="").replace('"5 s"', "BOUND")
    pipeline = load(written(tmp_path, "from beside_the_pipeline import BOUND\n" + text))
    assert "7 seconds" in pipeline.explain()


def test_a_warning_is_said_once_though_the_pipeline_is_defined_again(tmp_path: Path) -> None:
    file = written(tmp_path, more=', idle_after="1 minute"')

    def twice() -> None:
        load(file).with_generation(1)
        load(file).with_generation(2)

    with CliRunner().isolation() as (_, err, _), faults.warning_once():
        twice()
        said = err.getvalue().decode()
    assert said.count("warning: ") == 1 and "may fall idle" in said


def test_ctrl_c_ends_any_command_without_a_word(tmp_path: Path) -> None:
    result = CliRunner().invoke(main.main, ["tune", written(tmp_path, "raise KeyboardInterrupt\n")])
    assert result.exit_code == 130 and result.output == ""
