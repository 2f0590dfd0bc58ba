"""`eventide plan`: what is free, what needs a new generation, and which results would change: those in which two backfills differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asked import refused, shown
from click.testing import CliRunner
from stated import defined, land, ran

from eventide.cli import main
from eventide.cli.loading import load
from eventide.engine.archived_lanes import ArchivedLanes
from eventide.engine.recut import recut
from eventide.engine.verify import differences, standing


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that are refused where no lateness is allowed, in windows that are final by the end."""
    made = defined(tmp_path_factory.mktemp("plan"))
    made.write_text(made.read_text().replace("buckets=2", f"buckets=2, archive={str(made.parent / 'archive')!r}"))
    ran(made, [{"a": [0, 200], "b": [0, 200]}, {"a": [100, 30, 3000], "b": [150, 3000]}], [400, 3100])
    return made


def changed(file: Path, was: str, now: str) -> Path:
    text = file.read_text()
    assert was in text
    (file.parent / "changed.py").write_text(text.replace(was, now))
    return file.parent / "changed.py"


def planned(file: Path, *more: str) -> tuple[int, Any]:
    result = CliRunner().invoke(main.main, ["plan", str(file), "--json", *more])
    assert result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)), result.output
    return result.exit_code, json.loads(result.stdout)


def test_nothing_changed_and_a_free_change_go_on(file: Path) -> None:
    code, said = planned(file)
    assert (code, said["free"], said["new_generation"]) == (0, [], [])
    code, said = planned(changed(file, 'bounded("0 s")', 'bounded("5 s")'))
    assert code == 0 and [(c["from"], c["to"]) for c in said["free"]] == [('bounded("0 seconds")', 'bounded("5 seconds")')]
    assert "free            watermark of source 'rows'" in shown("plan", str(file.parent / "changed.py"))


def test_every_obstacle_is_named_beside_what_is_free(file: Path) -> None:
    text = changed(file, "late=ev.drop()", 'late=ev.accumulate("1 minute")')
    text.write_text(text.read_text().replace('bounded("0 s")', 'bounded("5 s")'))
    code, said = planned(text)
    assert code == 1 and len(said["free"]) == 1 and len(said["new_generation"]) == 1 and said["refused"]
    assert said["windows"]["open"] > 0 and said["results_given"] > 0
    result = CliRunner().invoke(main.main, ["plan", str(text)])
    assert (
        "new generation  Late of output 'quick' changed from drop() to accumulate" in result.stdout
        and "--start-over" in result.stdout
    )


def test_results_that_would_change_are_those_in_which_two_backfills_differ(file: Path, tmp_path: Path) -> None:
    new = changed(file, "late=ev.drop()", 'late=ev.accumulate("5 minutes")')
    said = planned(new, "--results", "--limit", "1000")[1]
    runs = [recut(ArchivedLanes.open(load(str(one))), str(tmp_path / name), 0) for name, one in (("old", file), ("new", new))]
    output = load(str(new)).output("quick")
    both = [standing(run.results["quick"]) for run in runs]
    mark = 1_790_000_000_000_000 + 3_000_000_000 - 300_000_000
    final = [{w: v for w, v in one.items() if v[0] <= mark} for one in both]
    expected = list(differences(output, ("", ""), *final, runs[0].shapes["quick"]))
    told = [(one["output"], one["window_id"], one["values"]) for one in said["results"]["differences"]]
    assert expected and told == [("quick", one.window_id, json.loads(json.dumps(one.values))) for one in expected]
    assert said["results"]["refused"]["quick"][0] > said["results"]["refused"]["quick"][1]
    assert "would be other ones" in CliRunner().invoke(main.main, ["plan", str(new), "--results"]).stdout


def test_other_columns_are_told_as_such(file: Path) -> None:
    code, said = planned(changed(file, "n=ev.count()", "m=ev.count()"), "--results")
    assert code == 1 and said["results"]["reshaped"] == ["quick", "patient"]


def test_where_there_is_nothing_to_plan_against_it_is_said(tmp_path: Path) -> None:
    bare = defined(tmp_path)
    land(tmp_path, "a", 0, [0], 1)
    assert "there is no state yet" in shown("plan", str(bare))
    bare.write_text(bare.read_text().replace(f"state={str(tmp_path / 'state')!r}, ", ""))
    assert "keeps no state" in refused("plan", str(bare))
