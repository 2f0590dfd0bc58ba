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
        ("import sys\nsys.exit(0)\n", "line 2: the file ends the program (0) before it defines a pipeline"),
        ("raise SystemExit('bye')\n", "line 1: the file ends the program ('bye')"),
        ("\0", "null bytes"),
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


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["run", "--interval", "soon"], "--interval is 'soon', which is not a span of time"),
        (["reconcile", "--json", "nowhere/r.json"], "--json nowhere/r.json: there is no directory nowhere"),
        (["reconcile", "--json", "."], "--json .: it is a directory"),
        (["reconcile", "--since", "yesterday"], "'yesterday', which is not ISO 8601"),
        (["reconcile", "--until", "2026-11-08"], "names no time zone"),
        (["reconcile", "--against", "nowhere.parquet"], "--against nowhere.parquet: there is no such file or directory"),
        (["tune", "--json", "nowhere/t.json"], "--json nowhere/t.json: there is no directory nowhere"),
        (["tune", "--plot", "nowhere/t.html"], "--plot nowhere/t.html: there is no directory nowhere"),
        (["tune", "--on-time", "1.5"], "a target is 1.5; it is a share of the rows"),
        (["tune", "--in-the-end", "nan"], "a target is nan; it is a share of the rows"),
        (["tune", "--resolution", "fine"], "--resolution is 'fine', which is not a span of time"),
    ],
)
def test_a_wrong_value_is_told_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], says: str
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.chdir(tmp_path)
    for command in ("run", "reconcile", "tune"):
        monkeypatch.setattr(f"eventide.cli.{command}.session_for", started)
    assert says in refused(asked[0], written(tmp_path), *asked[1:])
