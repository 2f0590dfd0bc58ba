"""What the oracle says of the rows that a run has archived: over arrivals as they were raised or lowered, as far as the run has swept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import polars.selectors as cs

from eventide.model.event import Event, Position
from eventide.model.plan import Plan
from eventide.model.policy import DISCARDING
from eventide.model.reference import Reference
from eventide.model.window import Sliding
from eventide.state.archive import archived_files
from eventide.state.ledger import Ledger

Table = dict[tuple[int, int, str | None], tuple[int, int]]
"""(start, end, key) → (n, total)."""


def archived_events(pipeline: Any) -> list[Event]:
    """Every row of the committed batches as the archive has it, in order; instants are microseconds."""
    found = []
    for file in archived_files(pipeline):
        for row in pl.read_parquet(file.url).with_columns(cs.datetime().dt.epoch("us")).to_dicts():
            event = Event(row["_arrival"], row["_event_time"], row.get("bank"), row, file.lane[0], row["_lane"], row["_offset"])
            found.append(replace(event, dedupe_key=row.get("id"), dead=row["_dead"]))
    return sorted(found, key=lambda event: event.position)


Look = tuple[Position, int]
"""Where a batch's sweep ended, and its clock."""


def told(plan: Plan, events: list[Event], ledger: Ledger, looks: list[Look]) -> Reference:
    """One event at a time, up to where each batch has swept, and its look at the end of it."""
    reference, left = Reference(plan), list(reversed(events))
    for swept, clock in looks:
        while left and left[-1].position <= swept:
            reference.event(left.pop())
        if swept[0] > 0:
            reference.pass_time(swept[0])
        reference.look(clock)
    assert _cell(plan, reference.watermark) == _cell(plan, ledger.frontier.watermark)
    return reference


def _cell(plan: Plan, mark: int | None) -> Any:
    """W as far as windows can tell: where a sweep ends inside of what a lane has read, the engine knows it only so far."""
    if mark is None or not isinstance(plan.window, Sliding):
        return mark
    return [plan.window.floor_end(mark - allowed) for allowed in plan.allowances]


def standing(reference: Reference, output: str) -> Table:
    """The table that an output's panes, in their order, describe."""
    found: Table = {}
    deltas = next(o.accumulation for o in reference.plan.outputs if o.name == output) == DISCARDING
    for pane in reference.panes:
        if pane.output != output:
            continue
        place: Any = (*pane.window, pane.key)
        values = (pane.values["n"], pane.values["total"])
        before = found.pop(place, (0, 0))
        if pane.op != "retract":
            found[place] = (before[0] + values[0], before[1] + values[1]) if deltas else values
    return found


def late_places(reference: Reference, output: str) -> list[tuple[str, int]]:
    """Lane and offset of every row that an output refused."""
    return sorted((r.event.lane, r.event.offset) for r in reference.late if r.output == output)
