"""`eventide windows`: what a state holds of each output's windows, against windows that are put together from the rows themselves."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from asked import refused, shown
from stated import SECOND, at, defined, ran

from eventide.model.window import Bounds, Session, Window
from eventide.state.state import State
from eventide.state.windows import open_windows
from eventide.wording import window_in

ALLOWED = 300 * SECOND
WINDOWS = [
    'tumbling("1 minute")',
    'sliding("5 minutes", "1 minute")',
    'sliding("1 minute", "25 seconds")',
    'session("20 seconds")',
]


def facts(place: object, *more: str) -> Any:
    return json.loads(shown("windows", str(place), "--json", *more))


def bounds_of(window: Window, rows: dict[str, list[int]]) -> list[Bounds]:
    """The bounds of all windows that rows of these banks make; of sessions each bank's are its own."""
    if not isinstance(window, Session):
        return list({bounds for times in rows.values() for time in times for bounds in window.assign(time)})
    found: list[Bounds] = []
    for times in rows.values():
        merged: list[tuple[int, int]] = []
        for start, end in map(window.own, sorted(times)):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        found += merged
    return found


@pytest.mark.parametrize("said", WINDOWS)
def test_open_and_retained_windows_are_those_of_the_rows(tmp_path: Path, said: str) -> None:
    chance = random.Random(said)
    lanes = {lane: sorted(chance.sample(range(2_000), 60)) for lane in ("a", "b", "c")}
    file = defined(tmp_path, said)
    ran(
        file,
        [{lane: times[:40] for lane, times in lanes.items()}, {lane: times[40:] for lane, times in lanes.items()}],
        [2000, 2100],
    )
    rows: dict[str, list[int]] = {"a": [], "b": []}
    for times in lanes.values():
        for part in (times[:40], times[40:]):
            for number, second in enumerate(part):
                rows["ab"[number % 2]].append(at(second))
    found = facts(file)
    mark, window = found["watermark"], window_in(said)
    assert window is not None and mark == at(min(times[-1] for times in lanes.values()))
    bounds = bounds_of(window, rows)
    ends = [end for _, end in bounds]
    quick, patient = found["outputs"]
    assert (quick["output"], quick["open"], quick["retained"]) == ("quick", sum(end > mark for end in ends), 0)
    assert patient["open"] == sum(end > mark for end in ends) > 0
    assert patient["retained"] == sum(mark - ALLOWED < end <= mark for end in ends) > 0
    assert facts(tmp_path / "state") == found
    still = sorted({(start, end) for start, end in bounds if end > mark})
    assert open_windows(State(str(tmp_path / "state"), "pipe"), "patient", window) == still


def test_bytes_are_those_of_the_files_and_one_output_can_be_asked_for(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"a": range(0, 400, 10)}], [1000])
    on_disk = sum(path.stat().st_size for path in (tmp_path / "state/data").rglob("*.parquet") if "clock" not in path.name)
    outputs = facts(file)["outputs"]
    assert all(0 < one["bytes"] <= on_disk and one["shared"] for one in outputs)
    partials = sum(path.stat().st_size for path in (tmp_path / "state/data").rglob("partial-*"))
    assert all(one["bytes"] >= partials > 0 for one in outputs), "both read them"
    assert [one["output"] for one in facts(file, "--output", "patient")["outputs"]] == ["patient"]
    assert "has no output 'nobody'. It has quick, patient." in refused("windows", str(file), "--output", "nobody")


def test_the_table_reads_well(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"a": range(0, 400, 10)}], [1000])
    said = shown("windows", str(file))
    assert "share most of it" in said and 'quick, patient: tumbling("1 minute")' in said and "5 minutes" in said
    assert max(map(len, said.splitlines())) < 120
