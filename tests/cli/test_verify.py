"""`eventide verify`: right results pass, in stages, sessions and joins too; a wrong one is found where it stands, and nothing is written."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from asked import refused
from click.testing import CliRunner
from stated import defined, ran

from eventide.cli import main

PIPELINE = """
import eventide as ev

rows = ev.files("rows", {landing!r}, event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("5 s"), idle_after="10 minutes")
base = ev.sqlite({base!r})
minutes = rows.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count(), mean=ev.mean("paise"))
added = rows.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
visits = rows.window(ev.session("20 s"), by="bank").agg(n=ev.count())
hours = minutes.results(late=ev.accumulate("5 minutes")).window(ev.tumbling("10 minutes")).agg(most=ev.max("total"))
pipeline = ev.Pipeline("p",
    minutes.to("quick", base, late=ev.drop()),
    minutes.to("patient", base, late=ev.retract("10 minutes", refused=ev.divert())),
    added.to("deltas", late=ev.accumulate("10 minutes"), accumulation="discarding"),
    visits.to("visits", base, late=ev.retract("5 minutes")),
    hours.to("hours", base, late=ev.retract("10 minutes")),
    state={state!r}, archive={archive!r}, buckets=2)
"""
JOIN = """
import eventide as ev

def read(name):
    return ev.files(name, {landing!r} + "/" + name, event_time="ts", arrival="at", watermark=ev.bounded("5 s"))

pairs = read("a").join(read("b"), on="bank", within=("-30 s", "30 s"), how="full", late=ev.accumulate("2 minutes"), prefix=("a_", "b_"))
pipeline = ev.Pipeline("p", pairs.to("pairs", ev.sqlite({base!r})), state={state!r}, archive={archive!r}, buckets=2)
"""


def made(root: Path, text: str) -> Path:
    file = defined(root)
    places = {"landing": "landing", "base": "out.db", "state": "state", "archive": "archive"}
    file.write_text(text.format(**{name: str(root / place) for name, place in places.items()}))
    return file


def verified(file: Path, *more: str) -> tuple[int, Any]:
    result = CliRunner().invoke(main.main, ["verify", str(file), "--json", "--cuts", "1", *more])
    assert result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows on time, admitted, refused and after a silence, in two lanes; W ends at about 3,000 s."""
    made_file = made(tmp_path_factory.mktemp("verify"), PIPELINE)
    batches = [
        {"a": [0, 30, 70, 200], "b": [10, 45, 190]}, {"a": [100, 60, 650], "b": [150, 620]}, {"a": [500, 640, 30]},
        {"b": [615, 1500], "a": [1500]}, {"a": [3000, 2999], "b": [3000]},
    ]  # fmt: skip
    ran(made_file, batches, [400, 700, 800, 1600, 3100])
    return made_file


def changed(file: Path, statement: str) -> None:
    with sqlite3.connect(file.parent / "out.db") as base:
        assert base.execute(statement).rowcount == 1
    base.close()


def test_right_results_pass_and_the_certificate_says_what_was_compared(file: Path, tmp_path: Path) -> None:
    code, said = verified(file, "--cuts", "2", "--report", str(tmp_path / "certificate.json"))
    assert code == 0 and said["ok"] and said["difference"] is None
    asked = {(one["output"], one["with"]): one["results"] for one in said["compared"]}
    for output in ("quick", "patient", "visits", "hours"):
        assert asked[output, "its sink"] == asked[output, "what the state said"] > 0
    assert len(said["cuts"]) == 3 and said["cuts"][0]["batches"] == 1 < said["cuts"][1]["batches"]
    written = json.loads((tmp_path / "certificate.json").read_text())
    assert written["digest"] == said["digest"]
    shown = CliRunner().invoke(main.main, ["verify", str(file), "--cuts", "1", "--seed", "9"])
    assert shown.exit_code == 0 and f"the same everywhere; digest of the results {said['digest'][:16]}" in shown.stdout
    assert "is not replaced" in refused("verify", str(file), "--report", str(tmp_path / "certificate.json"))


@pytest.mark.parametrize("output", ["quick", "hours"])
def test_a_result_that_was_changed_in_the_sink_is_found(file: Path, output: str) -> None:
    value = "most" if output == "hours" else "n"
    table = f"{output}_panes"
    first = f"(select min(window_id) from {table} where op = 'insert')"
    changed(file, f"update {table} set {value} = {value} + 1 where window_id = {first}")
    code, said = verified(file)
    changed(file, f"update {table} set {value} = {value} - 1 where window_id = {first}")
    found = said["difference"]
    assert code == 1 and (found["output"], found["column"], found["sides"]) == (output, value, ["the archive", "its sink"])
    assert found["values"][1] == found["values"][0] + 1


def test_a_result_that_the_sink_lacks_or_has_too_much_is_found(file: Path) -> None:
    chosen = "window_id = (select max(window_id) from quick_panes)"
    changed(file, f"update quick_panes set op = 'retract' where {chosen}")
    code, said = verified(file)
    changed(file, f"update quick_panes set op = 'insert' where {chosen}")
    assert code == 1 and said["difference"]["column"] == "" and said["difference"]["values"][1] is None


def test_joins_with_their_null_rows_are_verified(tmp_path: Path) -> None:
    file = made(tmp_path, JOIN)
    ran(
        file,
        [{"a": [0, 50, 90], "b": [10, 500]}, {"a": [505, 60], "b": [80, 900]}, {"a": [2000], "b": [2000]}],
        [600, 1000, 2100],
    )
    code, said = verified(file)
    assert code == 0, said["difference"]
    assert {one["with"]: one["results"] for one in said["compared"]}["its sink"] > 0


def test_without_an_archive_it_says_how_to_keep_one(tmp_path: Path) -> None:
    bare = defined(tmp_path)
    ran(bare, [{"a": [0]}], [100])
    assert 'archive="archive/p"' in refused("verify", str(bare))
