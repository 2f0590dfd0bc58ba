"""Several aggregations over one stream: an output's answers are those of a pipeline that has only its aggregation."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from agreement import assert_agreement, oracle
from hypothesis import given
from hypothesis import strategies as st
from inline import Table, run_in_batches
from test_engine_equals_oracle import ADDITIVE, Case, accumulations, cases, grids, outputs, sessions, tables, tried

from eventide.kernel import scan, share
from eventide.model import aggregate
from eventide.model.plan import Plan
from eventide.model.window import Sliding

EXAMPLES = int(os.environ.get("EVENTIDE_EXAMPLES", "40"))
ANY = st.one_of(grids, sessions)
Several = tuple[Case, list[tuple[Plan, Table]]]


@st.composite
def several(draw: st.DrawFn, dedupe: bool = False, first: Any = ANY, others: Any = ANY) -> Several:
    """A stream, an aggregation over it, and one or two more with windows, keys, aggregates and outputs of their own."""
    case = draw(cases(first, dedupe=dedupe))
    plan, beside = case[0], []
    for nth in range(draw(st.integers(1, 2))):
        named = [draw(outputs(f"beside{nth}{index}", accumulations)) for index in range(draw(st.integers(1, 2)))]
        aggregates = draw(st.sampled_from([ADDITIVE, (("n", aggregate.count()),)]))
        other = replace(plan, window=draw(others), aggregates=aggregates, outputs=tuple(named))
        beside.append((other, draw(tables)))
    return case, beside


def each_says_what_its_oracle_says(found: Several) -> None:
    (plan, events, table, seed), beside = found
    rng = random.Random(seed)
    wide = Table(table.keys, {name: kind for one in (table, *(t for _, t in beside)) for name, kind in one.kinds.items()})
    clocks = sorted(rng.randint(0, max((e.arrival for e in events), default=0)) for _ in range(rng.randint(0, 10)))
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, events, clocks, rng, root, wide, beside)
    for nth, (one, of) in enumerate([(plan, wide), *beside]):
        assert_agreement(one, got, oracle(one, of.as_the_oracle_sees(events)), of, aggregation=str(nth or ""))


@tried(EXAMPLES)
@given(several())
def test_each_aggregation_answers_as_if_it_were_alone(found: Several) -> None:
    each_says_what_its_oracle_says(found)


@tried(EXAMPLES // 2)
@given(several(dedupe=True))
def test_the_first_of_equal_rows_goes_on_to_every_aggregation(found: Several) -> None:
    each_says_what_its_oracle_says(found)


def _only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    crosses = scan._crosses
    monkeypatch.setattr(
        scan, "_crosses", lambda one, every: crosses(one, every) if not one.name else crosses(one, False) & False
    )


def _one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = share.Share.take
    monkeypatch.setattr(share.Share, "take", lambda self, data, w, known: taken(self, data, w, True))


@pytest.mark.parametrize("fault", [_only_the_first, _one_for_all])
def test_broken_on_purpose_they_differ(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """W's steps told for the first aggregation alone; rows taken for ahead before anybody knows when their lane joined."""
    fault(monkeypatch)

    @tried(300)
    @given(several(first=st.just(Sliding(30, 30)), others=st.just(Sliding(10, 5))))
    def tries(found: Several) -> None:
        each_says_what_its_oracle_says(found)

    with pytest.raises(AssertionError):
        tries()
