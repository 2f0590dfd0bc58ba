"""`eventide state`: what a state keeps, against what lies on the disk; and nothing is changed by looking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asked import shown
from at_work import AtWork, prepared
from stated import at, defined, ran

RECORDED = Path(__file__).parents[1] / "engine/recorded/format-2"


def facts(place: object) -> Any:
    return json.loads(shown("state", str(place), "--json"))


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_file_is_counted_once_and_none_is_touched(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"a": range(0, 400, 10), "b": [0, 300, 10]}, {"a": [600], "b": [20, 700]}], [1000, 1100])
    before = contents(tmp_path / "state")
    found = facts(file)
    assert sum(kept["files"] for kept in found["kept"]) == len(before)
    assert sum(kept["bytes"] for kept in found["kept"]) == sum(map(len, before.values()))
    panes = next(kept for kept in found["kept"] if kept["kind"] == "panes")
    assert panes["bytes"] == sum(len(body) for path, body in before.items() if path.startswith("panes/"))
    assert (found["batch"], found["clock"], found["generation"], found["aside"]) == (1, at(1100), 0, [])
    assert found["sources"] == [{"source": "rows", "lanes": 2, "idle": 0}]
    assert facts(tmp_path / "state") == found
    assert "2 lanes" in shown("state", str(file)) and contents(tmp_path / "state") == before


def test_who_holds_it_is_said_while_it_runs_and_after(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    run = AtWork("run", str(file), spark=False)
    run.until(lambda: any((tmp_path / "state/journal").glob("commit-*11.json")))
    found = facts(file)["holder"]
    assert found["alive"] and found["pid"] == run.pid
    assert f"held by process {run.pid}" in shown("state", str(file))
    run.interrupt()
    assert run.ended() == 130
    assert f"not held; last by process {run.pid}" in shown("state", str(file))


def test_states_set_aside_are_listed_with_their_generations(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    for more in ([], ["--start-over"]):
        assert AtWork("run", str(file), "--until-caught-up", *more, spark=False).ended() == 0
    found = facts(file)
    assert found["generation"] == 1 and found["aside"] == [{"generation": 0, "state": f"{tmp_path / 'state'}.generation-0"}]
    assert "set aside: generation 0" in shown("state", str(file))


def test_a_state_of_an_earlier_eventide_is_told_too() -> None:
    assert facts(RECORDED / "state")["kept"]
