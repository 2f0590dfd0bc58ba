"""Transcripts of other engines, and our own: each passes through the oracle, or is listed here with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.testing import OutsideTheModel, differences, replay

HERE = Path(__file__).resolve().parent
OTHERS = HERE.parents[1] / "../shared/conformance"

NO_ON_TIME = "outside the model: no on-time firing"
GLOBAL = "outside the model: global window"
CONTINUOUS = "outside the model: continuous event-time trigger"
ONE_GAP = "section 6: rows exactly one gap apart are one session"
ENCLOSING = "section 6: a late row whose enclosing session is open is kept"
AT_THE_END = "section 6: a row at W = end + A is refused"

LISTED = {
    "unit_test_sessions_repeatedly_after_count_bundle3": NO_ON_TIME,
    "unit_test_sessions_repeatedly_after_count.2_bundle1": NO_ON_TIME,
    "unit_test_sessions_repeatedly_after_count.2_bundle3": NO_ON_TIME,
    "java_processingTimeTimerDoesNotGc": NO_ON_TIME,
    "java_drainGlobalProcTime": GLOBAL,
    "testSessionWindowsWithContinuousEventTimeTrigger": CONTINUOUS,
    "testContinuousWatermarkTrigger": GLOBAL,
    "testCountTrigger": GLOBAL,
    "own: a global window": GLOBAL,
    "own: early firing by event time": CONTINUOUS,
    "own: nothing when the window closes": NO_ON_TIME,
    "own: as Beam has it, rows one gap apart are two sessions": ONE_GAP,
    "own: as Spark has it, a late row is judged by its own gap": ENCLOSING,
    "own: as Beam Python has it, W = end + A still admits": AT_THE_END,
}


def cases() -> list[Any]:
    found = json.loads((HERE / "cases.json").read_text())["cases"]
    for name, groups in (("beam", ("cases",)), ("flink", ("window_cases", "retract_cases"))):
        path = OTHERS / f"{name}.json"
        if path.exists():
            data = json.loads(path.read_text())
            found += [case for group in groups for case in data[group]]
    return [pytest.param(case, id=case["name"]) for case in found]


@pytest.mark.parametrize("case", cases())
def test_a_transcript_passes_or_is_listed_with_its_reason(case: dict[str, Any]) -> None:
    reason = LISTED.get(case["name"])
    try:
        said = replay(case)
    except OutsideTheModel as outside:
        assert reason is not None and reason.startswith("outside"), f"not listed: {outside}"
        return
    found = differences(case, said)
    if reason is None:
        assert found == []
    else:
        assert reason.startswith("section 6") and found, f"it is listed ({reason}), but it passes"


@pytest.mark.parametrize("case", cases())
def test_a_pane_too_many_a_pane_missing_or_a_wrong_value_fails_the_case(case: dict[str, Any]) -> None:
    if case["name"] in LISTED:
        return
    said = replay(case)
    assert said["panes"]
    first = next(pane for pane in said["panes"] if pane["op"] == "insert")
    assert differences(case, {**said, "panes": [*said["panes"], {**first, "sequence": 99}]})
    assert differences(case, {**said, "panes": [pane for pane in said["panes"] if pane is not first]})
    wrong = {**first, "values": [*first["values"], "?"], "sum": -77, "count": -1}
    assert differences(case, {**said, "panes": [wrong if pane is first else pane for pane in said["panes"]]})
