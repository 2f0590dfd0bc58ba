"""`eventide run`: what it refuses before the first row, and where it says that rows went. How it ends is in test_signals.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from asked import refused, written
from click.testing import CliRunner
from rich.console import Console

from eventide.cli import main
from eventide.cli.closing import committed, where_rows_went
from eventide.cli.loading import load, relative_to
from eventide.cli.run import Watched
from eventide.cli.signals import Signals
from eventide.state.journal import Journal
from eventide.state.ledger import Ledger
from eventide.state.records import record_files


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


@pytest.mark.parametrize("place", ["disk", "object store"])
def test_a_run_that_ends_before_it_opens_says_what_is_committed(tmp_path: Path, lake: str, place: str) -> None:
    state = lake if place == "object store" else str(tmp_path / "state")
    Journal(record_files(state)).commit(Ledger(batch=0, rows=Counter({"in": 10, "ahead": 10})), {"clock": 5})
    assert committed(load(written(tmp_path, state=state))).rows["in"] == 10


def test_a_run_that_ends_before_it_can_read_its_state_says_so_rather_than_zero(tmp_path: Path) -> None:
    (tmp_path / "damaged/journal").mkdir(parents=True)
    (tmp_path / "damaged/journal/commit-000000000000.json").write_text("{")
    for state, why in (("hdfs://names:8020/state", "through Spark only"), (str(tmp_path / "damaged"), "damaged")):
        said = Console(record=True, width=200)
        watched = Watched(said, Signals(), until_caught_up=True, drain=False, interval="1 second", session={})
        watched.pipeline = load(written(tmp_path, state=state))
        assert watched.close()
        text = said.export_text()
        assert "this run read no row" in text and why in text and " in\n" not in text


def test_a_setting_that_is_none_of_sparks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("")
    done = CliRunner().invoke(main.main, ["run", str(tmp_path / "p.py"), "--conf", "ui=true"])
    assert done.exit_code == 2 and "'ui=true' is no setting of Spark's" in done.output
