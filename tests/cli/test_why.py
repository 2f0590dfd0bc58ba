"""`eventide why`: rows of every verdict and cause, windows, and what cannot be answered; against the rows that were written and their state."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asked import refused
from click.testing import CliRunner
from stated import at, defined, ran

from eventide.cli import main
from eventide.cli.loading import load
from eventide.engine.answers import of_row
from eventide.engine.why import Asking


def asked(file: Path, what: str, *more: str) -> tuple[int, Any]:
    result = CliRunner().invoke(main.main, ["why", str(file), what, "--json", *more])
    assert result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """W is at 200 s, then 3,000 s. The file begins no minute: its windows are told by what holds a time."""
    made = defined(tmp_path_factory.mktemp("why"), idle="20 minutes")
    text = made.read_text().replace("buckets=2", f"buckets=2, archive={str(made.parent / 'archive')!r}")
    made.write_text(text)
    batches = [
        {"a": [0, 200], "b": [0, 200]},
        {"a": [100, 3000], "b": [150]},
        {"a": [3050]},
        {"b": [210]},
        {"a": [3100, 3100, 30]},
    ]
    ran(made, batches, [400, 500, 1500, 1900, 2500])
    return made


def test_a_row_on_time_an_admitted_and_a_refused_one(file: Path) -> None:
    code, [row] = asked(file, "rows/a/0")
    assert code == 0 and row["fate"] == "judged" and row["watermark"] is None
    assert {one["output"]: one["verdict"] for one in row["outputs"]} == {"quick": "on_time", "patient": "on_time"}
    code, [row] = asked(file, "rows/a/2")
    assert (
        code == 1
        and row["watermark"] == at(200)
        and row["moved_by"]["lane"] == "b"
        and row["moved_by"]["event_time"] == at(200)
    )
    quick, patient = row["outputs"]
    assert (quick["verdict"], patient["verdict"], quick["cause"]) == ("refused", "admitted", "behind its own lane")
    late = at(200) - quick["windows"][0]["end"]
    assert (
        quick["late_by"] == late and quick["would_have_kept_it"]["allowed"] == late + 1 == quick["would_have_kept_it"]["bound"]
    )
    assert quick["kept"] is False and patient["panes"], "the correction that it made was said"


def test_a_lane_that_had_been_idle_is_the_cause(file: Path) -> None:
    code, [row] = asked(file, "rows/b/3", "--output", "patient")
    assert code == 1 and row["lane"]["idle"] and "rows/b" in row["moved_by"]["lanes"]
    [patient] = row["outputs"]
    assert (patient["verdict"], patient["cause"], patient["kept"]) == ("refused", "its lane had been idle", True)
    assert patient["would_have_kept_it"]["idle_after"] is not None


def test_it_agrees_with_the_late_rows_that_were_kept(file: Path) -> None:
    kept = pl.read_parquet(file.parent / "state" / "late" / "patient" / "**" / "*.parquet")
    assert len(kept)
    for late in kept.iter_rows(named=True):
        _, [row] = asked(file, f"rows/{late['_lane']}/{late['_offset']}", "--output", "patient")
        [patient] = row["outputs"]
        assert row["watermark"] == int(late["_watermark"].timestamp() * 1_000_000)
        assert patient["verdict"] == "refused" and patient["late_by"] == late["_lateness_us"]


def test_a_window_says_what_it_said_and_which_rows_it_refused(file: Path) -> None:
    _, [row] = asked(file, "rows/a/2")
    window = row["outputs"][1]["panes"][-1]["window_id"]
    code, [said] = asked(file, window, "--output", "patient")
    assert said["state"] == "final" and said["panes"][-1]["window_id"] == window
    assert said["rows"]["admitted"] >= 1
    _, [early] = asked(file, "rows/a/0")
    code, [quick] = asked(file, early["outputs"][0]["panes"][-1]["window_id"], "--output", "quick")
    assert code == 1 and quick["rows"]["refused"] == len(quick["refused"]) >= 1


def test_a_row_is_found_by_a_value(file: Path) -> None:
    _, rows = asked(file, "paise=2")
    assert [(row["row"]["lane"], row["row"]["offset"]) for row in rows] == [("a", 7)]
    shown = CliRunner().invoke(main.main, ["why", str(file), "rows/a/2"], env={"COLUMNS": "80"})
    assert (
        shown.exit_code == 1 and "would have let it in: an allowed lateness of" in shown.stdout and "\x1b" not in shown.stdout
    )


def test_what_cannot_be_answered_is_said(file: Path, tmp_path: Path) -> None:
    assert "holds no row at rows/a/99" in refused("why", str(file), "rows/a/99")
    assert "no place of a row" in refused("why", str(file), "nobody/a/1")
    assert "has said nothing under" in refused("why", str(file), "0:1:{}", "--output", "quick")
    assert "say --output" in refused("why", str(file), "0:1:{}")
    bare = defined(tmp_path)
    ran(bare, [{"a": [0]}], [100])
    said = refused("why", str(bare), "rows/a/0")
    assert "keeps no archive" in said and 'archive="archive/p"' in said


def test_what_was_cleaned_away_is_not_told_as_never_said(tmp_path: Path) -> None:
    made = defined(tmp_path, idle="20 minutes")
    made.write_text(made.read_text().replace("buckets=2", f"buckets=2, archive={str(tmp_path / 'archive')!r}"))
    ran(made, [{"a": [0, 200], "b": [0, 200]}, {"a": [3000], "b": [3000]}], [400, 500])
    assert CliRunner().invoke(main.main, ["state", str(made), "--clean", "1 second"]).exit_code == 0
    said = refused("why", str(made), "0:60000000:{}", "--output", "quick")
    assert "batches up to 1 is not here any more" in said and "eventide state --clean" in said


def test_an_archive_that_lacks_rows_is_told(file: Path, tmp_path: Path) -> None:
    part = defined(tmp_path)
    ran(part, [{"a": [0, 1]}], [100])
    part.write_text(part.read_text().replace("buckets=2", f"buckets=2, archive={str(tmp_path / 'archive')!r}"))
    assert "holds nothing yet" in refused("why", str(part), "rows/a/0")


EVERY_KIND = """
import eventide as ev

rows = ev.files("rows", {landing!r}, event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("5 s"), idle_after="10 minutes"){dedupe}
minutes = rows.window(ev.sliding("1 minute", "20 seconds"), by="bank").agg(total=ev.sum("paise"))
visits = rows.window(ev.session("20 s"), by="bank").agg(n=ev.count())
pipeline = ev.Pipeline("p", minutes.to("quick", late=ev.drop()), minutes.to("patient", late=ev.retract("2 minutes", refused=ev.divert())),
                       visits.to("visits", late=ev.retract("1 minute")), state={state!r}, archive={archive!r}, buckets=2)
"""


@pytest.mark.parametrize("dedupe", ["", '.dedupe("paise", "bank", within="5 minutes")'])
def test_the_fates_of_all_rows_are_what_the_run_has_counted(tmp_path: Path, dedupe: str) -> None:
    made, chance = defined(tmp_path), random.Random(5)
    places = {name: str(tmp_path / name) for name in ("landing", "state", "archive")}
    made.write_text(EVERY_KIND.format(**places, dedupe=dedupe))
    batches = [
        {lane: [max(0, 150 * n - chance.choice([0, 3, 30, 90, 300])) for _ in range(chance.randint(0, 3))] for lane in "ab"}
        for n in range(1, 4)
    ]
    ran(
        made,
        [{"a": [0], "b": [0]}, *({k: v for k, v in b.items() if v} for b in batches), {"a": [9000], "b": [9000, 5]}],
        [300, *(400 + 150 * n for n in range(3)), 4000],
    )
    asking = Asking.open(load(str(made)))
    positions = [
        (a, *lane, o)
        for lane in asking.archive.files
        for rows in asking.archive.rows(lane)
        for a, o in rows.select("__arrival", "__offset").iter_rows()
    ]
    counted: Counter[str] = Counter()
    for answer in (of_row(asking, position) for position in positions if not asking.waits(position)):
        counted[answer["fate"]] += 1
        counted.update(f"{one['output']} rows_{one['verdict']}" for one in answer["outputs"])
    ledger = asking.state.ledger
    assert counted["duplicate"] == ledger.rows["duplicates"] and (counted["duplicate"] > 0) == bool(dedupe)
    for output, counts in ledger.outputs.items():
        assert {v: counted[f"{output} {v}"] for v in KINDS} == {v: counts[v] for v in KINDS}, output
    assert counted["quick rows_refused"]


KINDS = ("rows_on_time", "rows_admitted", "rows_refused")


def test_a_definition_that_the_state_was_not_made_by_is_not_answered_for(file: Path) -> None:
    other = file.parent / "other.py"
    other.write_text(file.read_text().replace('tumbling("1 minute")', 'tumbling("2 minutes")'))
    assert "was made by" in refused("why", str(other), "rows/a/0") and "eventide plan" in refused("verify", str(other))
    other.write_text(file.read_text().replace('bounded("0 s")', 'bounded("1 s")'))
    _, [row] = asked(other, "rows/a/0")
    assert ["watermark of source 'rows' was" in note for note in row["notes"]] == [True]
