"""What a replayed case said against what it should have said, with the few stated rules by which our panes differ.

- An expected pane that is `empty`, or that repeats the last result of an accumulating window, is not ours to emit.
- A session that grew or was merged is withdrawn under its old bounds (not in discarding mode): such a retract needs no
  expected pane, but it must stand beside the insert that swallowed it.
- A row that only some of its sliding windows missed is in our side stream too; others put only wholly late rows there.
Everything else must match, and nothing may be left over on either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from eventide.model.policy import DISCARDING
from eventide.model.window import Sliding
from eventide.testing.transcript import Case, translate

Said = Mapping[str, list[dict[str, Any]]]
_OPS = {"+I": "insert", "+U": "insert", "-U": "retract", "-D": "retract"}
_COMPARED = ("after_step", "op", "window", "key", "values", "sum", "count", "timing")


def differences(case: Case, said: Said) -> list[str]:
    """What is missing, what is too much, and what is numbered wrongly; empty when the case passes.

    >>> case = {"window": {"kind": "fixed", "size": 10}, "steps": [{"elements": [1]}, {"watermark": 10}],
    ...         "expect": [{"after_step": 1, "window": [0, 10], "values": [1], "timing": "on_time"}]}
    >>> differences(case, {"panes": [], "late": []})
    ["missing: {'after_step': 1, 'window': [0, 10], 'values': [1], 'timing': 'on_time', 'op': 'insert'}"]
    """
    plan, _ = translate(case)
    accumulation = plan.outputs[0].accumulation
    found, rest = [], list(said["panes"])
    for want in _ours(_expected_panes(case), accumulation):
        match = next((pane for pane in rest if _matches(want, pane)), None)
        if match is None:
            found.append(f"missing: {want}")
        else:
            rest.remove(match)
    found += [f"unexpected: {pane}" for pane in rest if accumulation == DISCARDING or not _absorbed(pane, said["panes"])]
    return found + _numbering(said["panes"]) + _late_differences(case, said["late"], plan.window)


def _expected_panes(case: Case) -> list[dict[str, Any]]:
    panes = []
    for entry in case["expect"]:
        for pane in entry.get("main", [] if "side" in entry else [entry]):
            want = {"after_step": entry["after_step"], **{k: v for k, v in pane.items() if k in (*_COMPARED, "empty")}}
            want["op"] = _OPS.get(pane.get("op"), pane.get("op", "insert"))
            if "values" in want:
                want["values"] = sorted(want["values"])
            panes.append(want)
    return panes


def _ours(expected: list[dict[str, Any]], accumulation: str) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    last: dict[tuple[str, Any], Any] = {}
    for pane in expected:
        window = (str(pane.get("window")), pane.get("key"))
        result = (pane.get("values"), pane.get("sum"), pane.get("count"))
        repeats = accumulation != DISCARDING and pane["op"] == "insert" and last.get(window) == result
        if pane.pop("empty", False) or repeats:
            continue
        last[window] = result if pane["op"] == "insert" else None
        kept.append(pane)
    return kept


def _matches(want: Mapping[str, Any], pane: Mapping[str, Any]) -> bool:
    return all(pane[name] == value for name, value in want.items())


def _absorbed(pane: dict[str, Any], panes: list[dict[str, Any]]) -> bool:
    start, end = pane["window"]
    return pane["op"] == "retract" and any(
        other["op"] == "insert"
        and other["after_step"] == pane["after_step"]
        and other["key"] == pane["key"]
        and other["window"] != pane["window"]
        and other["window"][0] <= start
        and end <= other["window"][1]
        for other in panes
    )


def _numbering(panes: list[dict[str, Any]]) -> list[str]:
    """A window's inserts count 0, 1, 2, …; a retract carries the number of the insert that stands."""
    found, inserts = [], Counter[tuple[Any, ...]]()
    for pane in panes:
        window = (*pane["window"], pane["key"])
        want = inserts[window] if pane["op"] == "insert" else inserts[window] - 1
        if pane["sequence"] != want:
            found.append(f"sequence should be {want}: {pane}")
        inserts[window] += pane["op"] == "insert"
    return found


def _late_differences(case: Case, late: list[dict[str, Any]], window: Any) -> list[str]:
    found = []
    if case.get("side_output"):
        want = Counter((e["after_step"], r["key"], r["value"], r["ts"]) for e in case["expect"] for r in e.get("side", []))
        have = Counter((r["after_step"], r["key"], r["value"], r["ts"]) for r in late if _wholly_late(r, window))
        found += [f"missing late row: {row}" for row in want - have] + [f"unexpected late row: {row}" for row in have - want]
    if "dropped_total" in case and len(late) != case["dropped_total"]:
        found.append(f"{len(late)} rows refused instead of {case['dropped_total']}")
    for step, total in enumerate(case.get("dropped_window_rows_cumulative", [])):
        missed = sum(len(row["missed"]) for row in late if row["after_step"] <= step)
        if missed != total:
            found.append(f"after step {step}, {missed} (row, window) pairs refused instead of {total}")
    return found


def _wholly_late(row: Mapping[str, Any], window: Any) -> bool:
    return not isinstance(window, Sliding) or len(row["missed"]) == len(window.assign(row["ts"]))
