"""Views of results: what is shown is at every moment the filter of what would be shown without them, and what no longer holds is withdrawn."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from agreement import alike, oracle, standing
from hypothesis import given
from hypothesis import strategies as st
from inline import InlineRun, run_in_batches
from test_engine_equals_oracle import Case, cases, grids, sessions, tried

from eventide.kernel import fire, session_windows
from eventide.model.pane import RETRACT
from eventide.model.plan import OutputPlan
from eventide.model.policy import ACCUMULATING, RETRACTING
from eventide.model.trigger import PerRow
from eventide.model.view import WHOLE, View

EXAMPLES = int(os.environ.get("EVENTIDE_EXAMPLES", "60"))
VIEWS = (
    View().where("s < 40"),
    View().where("n = 2 OR s IS NULL"),
    View().where("n > 1").select(mean="s / (n - 2)", twice="n * 2"),
    View().select(big="s > 30").where("big"),
    View().where("window_end % 20 = 0 AND n > 1"),
)
totals = st.sampled_from([ACCUMULATING, RETRACTING])


@st.composite
def viewed(draw: st.DrawFn, windows: Any) -> Case:
    """Each output has a view, and beside it one of the same policy that shows everything."""
    plan, events, table, seed = draw(cases(windows, accumulation=totals))
    outputs = []
    for output in plan.outputs:
        view = draw(st.sampled_from(VIEWS))
        outputs += [replace(output, view=view), replace(output, name=f"{output.name} whole")]
    return replace(plan, outputs=tuple(outputs), keys=table.keys), events, table, seed


def said(rows: list[dict[str, Any]], output: OutputPlan, case: Case) -> list[Any]:
    plan, _, table, _ = case
    names = output.view.names(plan.keys, [name for name, _ in plan.aggregates], "a view")
    return [
        ((r["window_start"], r["window_end"]), table.key_of(r), r["sequence"], r["op"], r["timing"], tuple(r[n] for n in names))
        for r in rows
    ]


def it_shows_what_the_oracle_shows(case: Case) -> None:
    plan, events, table, seed = case
    rng = random.Random(seed)
    ref = oracle(plan, table.as_the_oracle_sees(events))
    clocks = sorted(rng.randint(0, max((e.arrival for e in events), default=0)) for _ in range(rng.randint(0, 10)))
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, events, clocks, rng, root, table)
    for output in plan.outputs:
        mine = said(got.panes[output.name], output, case)
        theirs = [
            (p.window, p.key, p.sequence, p.op, p.timing, tuple(p.values.values()))
            for p in ref.panes
            if p.output == output.name
        ]
        ours, oracles = standing(mine), standing(theirs)
        assert ours.keys() == oracles.keys() and all(alike(ours[at], oracles[at]) for at in ours), (output, ours, oracles)
        if isinstance(output.late, PerRow) and output.early is None:
            assert _in_order(mine) == _in_order(theirs), output
    filtered_at_every_moment(got, case)


def _in_order(panes: list[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for window, key, sequence, op, timing, _ in panes:
        found.setdefault((window, key), []).append((sequence, op, timing))
    return found


def filtered_at_every_moment(got: InlineRun, case: Case) -> None:
    """After each batch, told by when panes were emitted: the law itself, between an output and the one that shows everything."""
    plan = case[0]
    names = [name for name, _ in plan.aggregates]
    for output in (o for o in plan.outputs if o.view != WHOLE):
        whole = replace(output, name=f"{output.name} whole", view=WHOLE)
        panes, all_panes = got.panes[output.name], got.panes[whole.name]
        for moment in sorted({row["emitted_at"] for row in [*panes, *all_panes]}):
            shown = standing(said([r for r in panes if r["emitted_at"] <= moment], output, case))
            stands = standing(said([r for r in all_panes if r["emitted_at"] <= moment], whole, case))
            rows = {at: output.view.row(at, plan.keys, dict(zip(names, values, strict=True))) for at, values in stands.items()}
            want = {at: tuple(row.values()) for at, row in rows.items() if row is not None}
            assert shown.keys() == want.keys() and all(alike(shown[at], want[at]) for at in want), (output, shown, want)


@tried(EXAMPLES)
@given(viewed(grids))
def test_over_fixed_windows(case: Case) -> None:
    it_shows_what_the_oracle_shows(case)


@tried(EXAMPLES // 2)
@given(viewed(sessions))
def test_over_sessions(case: Case) -> None:
    it_shows_what_the_oracle_shows(case)


@pytest.mark.parametrize(("windows", "broken"), [(grids, fire.Firing), (sessions, session_windows.SessionFiring)])
def test_broken_on_purpose_it_differs(windows: Any, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that no longer hold are left standing."""
    pane = broken._pane

    def never_withdrawn(self: Any, *told: Any) -> None:
        if not any(isinstance(part, str) and part == RETRACT for part in told):
            pane(self, *told)

    monkeypatch.setattr(broken, "_pane", never_withdrawn)

    @tried(200)
    @given(viewed(windows))
    def tries(case: Case) -> None:
        it_shows_what_the_oracle_shows(case)

    with pytest.raises(AssertionError):
        tries()
