"""What it means that the engine and the oracle agree: the same late rows, tables, verdicts and, row by row, the same panes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from inline import InlineRun, Table

from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan
from eventide.model.policy import DISCARDING
from eventide.model.reference import Reference
from eventide.model.trigger import PerRow
from eventide.model.window import Session

Same = Callable[[Any, Any], bool]
Said = tuple[tuple[int, int], Any, int, str, str, tuple[Any, ...]]
"""(window, key, sequence, op, timing, values)."""


def oracle(plan: Plan, events: Iterable[Event]) -> Reference:
    """One event at a time, in arrival order, to the end of the input."""
    engine = Reference(plan)
    for event in events:
        engine.event(event)
    engine.drain()
    return engine


def alike(mine: Any, theirs: Any) -> bool:
    """Equal; floats within 1e-9 relative, as the law has it."""
    if isinstance(mine, float) and isinstance(theirs, float):
        return mine == theirs or math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9) or (mine != mine and theirs != theirs)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(alike, mine, theirs))
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(alike(mine[name], theirs[name]) for name in mine)
    return bool(mine == theirs)


def assert_agreement(
    plan: Plan, got: InlineRun, ref: Reference, table: Table, same: Same = alike, aggregation: str = ""
) -> None:
    for index, output in enumerate(plan.outputs):
        mine = [_mine(row, plan, table) for row in got.panes[output.name]]
        theirs = [_theirs(pane, plan) for pane in ref.panes if pane.output == output.name]
        _same_late_rows(plan, output, got, ref, table)
        _same_verdicts(index, output, got, ref)
        _same_table(plan, output, mine, theirs, same)
        if isinstance(output.late, PerRow) and output.early is None:
            if output.accumulation == DISCARDING:
                mine, theirs = _null_is_nothing(mine, plan), _null_is_nothing(theirs, plan)
            _same_panes(mine, theirs, same)
    _same_rows(got, ref, aggregation)


def _mine(row: dict[str, Any], plan: Plan, table: Table) -> Said:
    values = tuple(row[name] for name, _ in plan.aggregates)
    bounds = (row["window_start"], row["window_end"])
    return (bounds, table.key_of(row), row["sequence"], row["op"], row["timing"], values)


def _theirs(pane: Any, plan: Plan) -> Said:
    values = tuple(pane.values[name] for name, _ in plan.aggregates)
    return (pane.window, pane.key, pane.sequence, pane.op, pane.timing, values)


def _same_late_rows(plan: Plan, output: OutputPlan, got: InlineRun, ref: Reference, table: Table) -> None:
    mine = sorted(
        (
            r["_source"],
            r["_lane"],
            r["_offset"],
            r["_event_time"],
            r["_watermark"],
            r["_missed_first_end"],
            r["_missed_last_end"],
        )
        for r in got.late[output.name]
    )
    theirs = sorted(
        (r.event.source, r.event.lane, r.event.offset, r.event.event_time, r.watermark, r.missed[0][1], r.missed[-1][1])
        for r in ref.late
        if r.output == output.name
    )
    assert mine == theirs, f"late rows of {output}"


def _same_verdicts(index: int, output: OutputPlan, got: InlineRun, ref: Reference) -> None:
    counts = got.ledger.outputs[output.name]
    for verdict in ("on_time", "admitted", "refused"):
        assert counts[verdict] == ref.state.pairs[index][verdict], f"{verdict} of {output}: {counts}, {ref.state.pairs[index]}"
        assert counts[f"rows_{verdict}"] == ref.state.worst[index][verdict], f"rows {verdict} of {output}"


def _same_rows(got: InlineRun, ref: Reference, aggregation: str) -> None:
    for what in ("in", "dead", "duplicates", "markers"):
        assert got.ledger.rows[what] == ref.state.rows[what], what
    assert sum(got.ledger.counted(aggregation, what) for what in ("ahead", "judged")) == ref.state.rows["judged"]


def _same_table(plan: Plan, output: OutputPlan, mine: list[Said], theirs: list[Said], same: Same) -> None:
    if output.accumulation == DISCARDING:
        if isinstance(plan.window, Session) and not (output.early is None and isinstance(output.late, PerRow)):
            # A delta stands under the bounds that its session had when it was said, and stays there when the session merges on: when
            # deltas are said by the batch, which bounds those were depends on the cut, and what they add up to does not.
            mine, theirs = _by_meeting_sessions(mine, theirs)
        ours, oracles = _added(mine, plan), _added(theirs, plan)
    else:
        ours, oracles = standing(mine), standing(theirs)
    assert ours.keys() == oracles.keys(), f"windows of {output}: {ours.keys() ^ oracles.keys()}"
    wrong = {
        (at, name): (mine, theirs)
        for at in ours
        for (name, _), mine, theirs in zip(plan.aggregates, ours[at], oracles[at], strict=True)
        if not same(mine, theirs)
    }
    assert not wrong, f"values of {output}: {wrong}"


def standing(panes: list[Said]) -> dict[Any, Any]:
    """The table that a sink keeps: the values of the highest rank, unless they were withdrawn."""
    best: dict[Any, tuple[tuple[int, bool], Any]] = {}
    for window, key, sequence, op, _, values in panes:
        rank = (sequence, op == "retract")
        if (window, key) not in best or rank >= best[window, key][0]:
            best[window, key] = (rank, values)
    return {at: values for at, (rank, values) in best.items() if not rank[1]}


def _by_meeting_sessions(mine: list[Said], theirs: list[Said]) -> tuple[list[Said], list[Said]]:
    """Both with the sessions of a key that meet, whoever said them, under the bounds that hold all of them."""
    spans: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for (start, end), key in sorted({(said[0], said[1]) for said in (*mine, *theirs)}, key=lambda one: (repr(one[1]), one[0])):
        held = spans[key]
        if held and start <= held[-1][1]:
            held[-1] = (held[-1][0], max(end, held[-1][1]))
        else:
            held.append((start, end))

    def placed(said: Said) -> Said:
        whole = next(span for span in spans[said[1]] if span[0] <= said[0][0] and said[0][1] <= span[1])
        return (whole, *said[1:])

    return [placed(said) for said in mine], [placed(said) for said in theirs]


def _added(panes: list[Said], plan: Plan) -> dict[Any, tuple[Any, ...]]:
    """Deltas put together again."""
    totals: dict[Any, list[Any]] = {}
    for window, key, _, _, _, values in panes:
        total = totals.setdefault((window, key), [None] * len(values))
        for index, ((_, what), value) in enumerate(zip(plan.aggregates, values, strict=True)):
            if value is not None:
                total[index] = value if total[index] is None else total[index] + value
            if what.kind == "collect" and total[index] is not None:
                total[index] = sorted(total[index])
    return {at: tuple(total) for at, total in totals.items()}


def _same_panes(mine: list[Said], theirs: list[Said], same: Same) -> None:
    ours, oracles = _by_window(mine), _by_window(theirs)
    assert ours.keys() == oracles.keys()
    for at in ours:
        assert [p[:3] for p in ours[at]] == [p[:3] for p in oracles[at]], at
        assert all(same(a[3], b[3]) for a, b in zip(ours[at], oracles[at], strict=True)), (at, ours[at], oracles[at])


def _null_is_nothing(panes: list[Said], plan: Plan) -> list[Said]:
    """A delta of rows without a value: the oracle says null, the engine, which subtracts totals, 0. Both add nothing."""
    sums = [what.kind == "sum" for _, what in plan.aggregates]
    return [(*p[:5], tuple(0 if v is None and s else v for v, s in zip(p[5], sums, strict=True))) for p in panes]


def _by_window(panes: list[Said]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for window, key, sequence, op, timing, values in panes:
        found[window, key].append((sequence, op, timing, values))
    return found
