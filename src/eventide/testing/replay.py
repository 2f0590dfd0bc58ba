"""Replaying a conformance transcript through an engine, and telling what came out after which step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eventide.errors import EventideError
from eventide.model.pane import LateRow, Pane
from eventide.model.plan import Plan
from eventide.model.reference import Reference
from eventide.testing.spark import through_spark
from eventide.testing.transcript import Case, Step, translate

Emissions = tuple[list[Pane], list[LateRow]]
"""What one step made an engine say: panes, and rows that were refused."""


class UnknownEngine(EventideError):
    """`replay` was asked for an engine that this installation does not have."""


def replay(case: Case, engine: str = "reference") -> dict[str, list[dict[str, Any]]]:
    """Run a transcript; gives its panes and the rows that were refused, each with the step after which it came.

    >>> steps = [{"elements": [1, 2]}, {"watermark": 10}]
    >>> replay({"window": {"kind": "fixed", "size": 10}, "steps": steps})["panes"][0]["values"]
    [1, 2]
    """
    if engine not in ENGINES:
        raise UnknownEngine(f"replay(engine={engine!r}): the engines here are {', '.join(sorted(ENGINES))}.")
    plan, steps = translate(case)
    panes: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    for step, (said, refused) in zip(steps, ENGINES[engine](plan, steps), strict=True):
        panes += [_pane(step.index, pane) for pane in said]
        late += [_late_row(step.index, row) for row in refused]
    return {"panes": panes, "late": late}


def through_reference(plan: Plan, steps: Sequence[Step]) -> list[Emissions]:
    """Each step through the oracle: its rows one at a time, then one look at the triggers."""
    engine, said = Reference(plan), []
    for step in steps:
        if step.restore:
            engine = Reference.restore(plan, engine.snapshot())
        panes, late = len(engine.panes), len(engine.late)
        if step.clock is not None:
            engine.look(step.clock)
        elif not step.restore:
            for event in step.events:
                engine.event(event)
            engine.look()
        said.append((engine.panes[panes:], engine.late[late:]))
    return said


ENGINES: dict[str, Callable[[Plan, Sequence[Step]], list[Emissions]]] = {
    "reference": through_reference,
    "spark": through_spark,
}
"""How a plan and its steps are run, by the engine's name: one list of emissions for every step."""


def _pane(step: int, pane: Pane) -> dict[str, Any]:
    return {
        "after_step": step,
        "op": pane.op,
        "window": list(pane.window),
        "key": pane.key,
        "values": sorted(pane.values["values"]),
        "sum": pane.values.get("sum"),
        "count": pane.values["count"],
        "timing": pane.timing,
        "sequence": pane.sequence,
    }


def _late_row(step: int, row: LateRow) -> dict[str, Any]:
    return {
        "after_step": step,
        "key": row.event.key,
        "value": row.event.row["value"],
        "ts": row.event.event_time,
        "missed": [list(window) for window in row.missed],
    }
