"""What goes wrong before a run begins: one paragraph that says what to do, no traceback, exit code 2."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eventide.cli import faults, main
from eventide.cli.closing import committed, where_rows_went
from eventide.cli.loading import load, relative_to

PIPELINE = """
import eventide as ev

rows = ev.files("rows", {path!r}, schema="ts timestamp, bank string, paise bigint", event_time="ts", watermark=ev.bounded("5 s"){more})
minutes = rows.window(ev.tumbling("1 minute"), by="bank").agg(total={total})
pipeline = ev.Pipeline("p", minutes.to("out", late=ev.drop()), state={state!r})
"""


def written(root: Path, text: str | None = None, **given: str) -> str:
    facts = {"path": str(root / "landing"), "state": str(root / "state"), "total": 'ev.sum("paise")', "more": "", **given}
    (root / "pipe.py").write_text(text if text is not None else PIPELINE.format(**facts))
    return str(root / "pipe.py")


def refused(*arguments: str) -> str:
    """What a command says that ends with exit code 2: one paragraph."""
    result = CliRunner().invoke(main.main, list(arguments))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output and isinstance(result.exception, SystemExit)
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1 and result.output.rstrip().endswith(errors[0])
    return errors[0]


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


def test_a_missing_directory_is_named_with_where_it_was_looked_for(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"reads {tmp_path / 'landing'}, and there is no such directory" in refused("run", written(tmp_path))
    monkeypatch.chdir(tmp_path)
    said = refused("run", written(tmp_path, path="arrivals"))
    assert f"{tmp_path / 'arrivals'} (arrivals from {tmp_path}, where the process was started)" in said


@pytest.mark.parametrize(
    ("total", "says"),
    [
        ('ev.sum("bank")', "total=sum(\"bank\"): the column 'bank' is String, which has no sum. Columns with numbers: paise."),
        ('ev.quantile("ts", 0.5)', "which has no quantile"),
        ('ev.sum("rupees")', "source 'rows' has no column 'rupees'. Its columns are ts, bank, paise."),
    ],
)
def test_a_column_that_cannot_be_added_is_found_before_the_first_row(spark: Any, tmp_path: Path, total: str, says: str) -> None:
    (tmp_path / "landing").mkdir()
    assert says in refused("run", written(tmp_path, total=total))
    assert not list((tmp_path / "state" / "journal").glob("*"))


def test_an_end_needs_an_input_that_ends(tmp_path: Path) -> None:
    result = CliRunner().invoke(main.main, ["run", written(tmp_path), "--drain"])
    assert result.exit_code == 2 and "--drain goes with --until-caught-up" in result.output


def test_a_module_beside_the_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "beside_the_pipeline.py").write_text("BOUND = '7 seconds'\n")
    text = PIPELINE.format(path="landing", state="state", total="ev.count()", more="").replace('"5 s"', "BOUND")
    pipeline = load(written(tmp_path, "from beside_the_pipeline import BOUND\n" + text))
    assert "7 seconds" in pipeline.explain()


def test_where_relative_paths_lead_is_said_unless_it_is_where_the_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, path="landing", state="state")
    monkeypatch.chdir(tmp_path)
    assert relative_to(load(file), file) is None
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert relative_to(load(file), file) == f"relative paths lead from {tmp_path / 'elsewhere'}, where the command was given"
    absolute = written(tmp_path)
    assert relative_to(load(absolute), absolute) is None


def test_a_warning_is_said_once_though_the_pipeline_is_defined_again(tmp_path: Path) -> None:
    file = written(tmp_path, more=', idle_after="1 minute"')

    def twice() -> None:
        load(file).with_generation(1)
        load(file).with_generation(2)

    with CliRunner().isolation() as (_, err, _), faults.warning_once():
        twice()
        said = err.getvalue().decode()
    assert said.count("warning: ") == 1 and "may fall idle" in said


def test_every_command_is_listed_with_what_it_is_for_and_costs_nothing_until_it_is_called() -> None:
    for name in main.COMMANDS:
        assert name in vars(import_module(f"eventide.cli.{name}"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for asked in ("--help", "--version"):
        ran = subprocess.run([sys.executable, "-c", ASK, asked], capture_output=True, text=True, timeout=60, check=True)
        assert ran.stderr.splitlines()[-1] == "[]", "heavy modules were imported"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6  # seconds of the processor, both together


ASK = """
import sys
from eventide.cli.main import main
try:
    main(prog_name="eventide")
finally:
    print([name for name in ("polars", "pyarrow", "pyspark", "numpy", "httpx") if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("httpx", ["registry", "list"], "registry"), ("uvicorn", ["registry", "serve"], "registry"), ("httpx", ["migrate", "list"], "registry")],
)  # fmt: skip
def test_a_command_whose_packages_are_missing_says_what_brings_them(module: str, arguments: list[str], extra: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from eventide.cli.main import main; main(prog_name='eventide')"
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2, ran.stderr
    assert f"pip install 'eventide[{extra}]'" in ran.stderr and "Traceback" not in ran.stderr


def test_an_output_that_joined_later_is_judged_by_the_rows_since_then(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path))
    ledger = committed(pipeline)
    assert where_rows_went(pipeline, ledger) == (
        "\n[bold]Where every row went[/bold]   0 in\n  out        nothing yet  [green]✓[/green]",
        True,
    )
    ledger.rows.update({"in": 10, "ahead": 8, "kept": 2, "judged": 1})
    ledger.joined["out"].update(ahead=4)
    ledger.outputs["out"].update(rows_on_time=5)
    text, sound = where_rows_went(pipeline, ledger)
    assert sound and "4 before it joined + 5 on time + 1 waiting" in text
    ledger.outputs["out"].update(rows_on_time=1)
    text, sound = where_rows_went(pipeline, ledger)
    assert not sound and "✗" in text


def test_ctrl_c_ends_any_command_without_a_word(tmp_path: Path) -> None:
    result = CliRunner().invoke(main.main, ["tune", written(tmp_path, "raise KeyboardInterrupt\n")])
    assert result.exit_code == 130 and result.output == ""


def test_a_setting_that_is_none_of_sparks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("")
    done = CliRunner().invoke(main.main, ["run", str(tmp_path / "p.py"), "--conf", "ui=true"])
    assert done.exit_code == 2 and "'ui=true' is no setting of Spark's" in done.output
