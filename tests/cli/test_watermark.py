"""`eventide watermark`: who holds W and since when, by the state alone, as the run itself said it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from asked import refused, shown, written
from at_work import AtWork, prepared
from click.testing import CliRunner
from stated import SECOND, at, defined, ran

from eventide.cli import main
from eventide.model.frontier import FrontierState, Standing
from eventide.state.holds import Holds
from eventide.state.journal import Journal, LocalFiles
from eventide.state.ledger import Ledger

RECORDED = Path(__file__).parents[1] / "engine/recorded/format-2"


def facts(place: object, *more: str) -> Any:
    result = CliRunner().invoke(main.main, ["watermark", str(place), "--json", *more])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_holder_is_named_with_since_when_as_the_run_said(tmp_path: Path) -> None:
    """
    seconds of the rows   lane a      lane b      W     holder
    batch 0, clock 1000   0 … 400     0 … 100     100   b, since 1000
    batch 1, clock 1060   500         160         160   b, still
    batch 2, clock 1120               700         500   a, since 1120
    """
    batches = [{"a": range(0, 401, 50), "b": range(0, 101, 50)}, {"a": [500], "b": [160]}, {"b": [700]}]
    file = defined(tmp_path)
    expected = [("b", 1000, 1000, 100), ("b", 1000, 1060, 160), ("a", 1120, 1120, 500)]
    for upto in range(1, 4):
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        shutil.rmtree(tmp_path / "landing")
        said = ran(defined(tmp_path), batches[:upto], [1000, 1060, 1120][:upto])[-1]
        lane, since, moved, mark = expected[upto - 1]
        found = facts(file)
        assert found["holder"] == {"source": "rows", "lane": lane, "since": at(since), "why": None}
        assert found["sources"][0]["holder"] == found["holder"]
        assert (found["moved"], found["watermark"]) == (at(moved), at(mark))
        assert (found["batch"], found["clock"], found["lag"]) == (said.batch, said.clock, said.lag)
        assert f"{found['holder']['source']}/{found['holder']['lane']}" == said.held_by == said.sources[0].holder
        assert facts(tmp_path / "state") == found, "the state alone says the same"


def test_windows_wait_for_the_holder_if_they_would_close_without_it(tmp_path: Path) -> None:
    file = defined(tmp_path, 'sliding("2 minutes", "1 minute")')
    ran(file, [{"a": range(0, 1000, 10), "b": [0, 130]}], [1000])
    grid = range(at(-200) // (60 * SECOND) * 60 * SECOND, at(1200), 60 * SECOND)
    ends = {end for s in range(0, 1000, 10) for end in grid if end - 120 * SECOND <= at(s) < end}
    waiting = sum(at(130) < end <= at(990) for end in ends)
    assert facts(file)["waiting"] == {"quick": waiting, "patient": waiting} and waiting > 10
    assert f"{waiting} of quick, {waiting} of patient" in shown("watermark", str(file))


def test_idle_lanes_hold_nothing_and_are_listed_last(tmp_path: Path) -> None:
    file = defined(tmp_path, idle="30 seconds")
    ran(file, [{"a": [0, 60], "b": [10]}, {"a": [100]}], [100, 200])
    found = facts(file)
    assert [(one["lane"], one["idle"]) for one in found["lanes"]] == [("a", False), ("b", True)]
    assert (found["holder"]["lane"], found["sources"][0]["idle"]) == ("a", 1)
    assert shown("watermark", str(file)).rstrip().endswith("idle")


def test_a_hostile_lane_is_harmless_and_whole_in_the_json(tmp_path: Path) -> None:
    hostile = ["\x1b[2Jlane", "\u202egnp", "[red]x", "ok", "x" * 200]
    file = defined(tmp_path)
    ran(file, [{lane: [0, 60] for lane in hostile}], [100])
    said = shown("watermark", str(file))
    assert "\x1b" not in said and "\u202e" not in said and "rows/[red]x" in said
    assert all(line.isprintable() for line in said.splitlines())
    assert {lane["lane"] for lane in facts(file)["lanes"]} == set(hostile)


def test_a_state_of_an_earlier_eventide_says_all_but_since_when() -> None:
    found = facts(RECORDED / "state")
    assert found["holder"]["since"] is None and found["moved"] is None and found["watermark"] is not None
    assert "held by" in shown("watermark", str(RECORDED / "state"))


def test_a_running_pipeline_is_asked_without_disturbing_it(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    run = AtWork("run", str(file), spark=False)
    run.until(lambda: any((tmp_path / "state/journal").glob("commit-*")))
    assert f"running as process {run.pid}" in shown("watermark", str(file))
    run.until(lambda: any((tmp_path / "state/journal").glob("commit-*11.json")))
    run.interrupt()
    assert run.ended() == 130
    assert "stopped" in shown("watermark", str(file)) and not facts(file)["running"]


def test_a_finished_state_says_so(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    assert AtWork("run", str(file), "--until-caught-up", "--drain", spark=False).ended() == 0
    said = shown("watermark", str(file))
    assert "finished" in said and "W +∞" in said and facts(file)["lag"] is None


def test_what_is_no_state_is_said(tmp_path: Path) -> None:
    assert "no such state directory" in refused("watermark", str(tmp_path / "nowhere"))
    assert "is no state directory" in refused("watermark", str(tmp_path))
    (tmp_path / "landing").mkdir()
    assert "has committed nothing" in refused("watermark", written(tmp_path))


def test_ten_thousand_lanes_are_told_at_once(tmp_path: Path) -> None:
    lanes = {(0, f"device-{n:05d}"): Standing(at(n), at(n)) for n in range(10_000)}
    journal = Journal(LocalFiles(str(tmp_path)))
    journal.define({"pipeline": "many", "sources": ["devices"], "outputs": {}}, 0)
    frontier = FrontierState(at(0), lanes)
    holds = Holds.of(frontier, at(1), {}, None)
    journal.commit(Ledger(batch=7, frontier=frontier), {"clock": at(20_000), "drained": False, "holds": holds.to_json()})
    before = time.process_time()
    said = shown("watermark", str(tmp_path))
    assert time.process_time() - before < 2
    assert "held by devices/device-00000" in said and "and 9,990 more" in said and len(facts(tmp_path)["lanes"]) == 10_000
