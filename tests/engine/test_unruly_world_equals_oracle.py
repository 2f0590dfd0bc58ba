"""Whatever the world does between two looks at it, the engine says what the oracle says over the arrivals as they were raised or lowered."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter

import pytest
from agreement import assert_agreement, oracle
from hypothesis import given
from hypothesis import strategies as st
from test_engine_equals_oracle import Case, cases, grids, sessions, tried
from unruly import Unruly, World

SOAK = int(os.environ.get("EVENTIDE_EXAMPLES", "400"))
SEEN: Counter[str] = Counter()


def the_engine_says_what_the_oracle_says(case: Case) -> None:
    plan, events, table, seed = case
    rng = random.Random(seed)
    world = World.of(plan, events, rng)
    clocks = [rng.randint(0, world.end + 1) for _ in range(rng.randint(0, 12))]
    clocks = sorted(clocks) if rng.random() < 0.8 else clocks
    with tempfile.TemporaryDirectory() as root:
        run = Unruly(plan, world, rng, root, table)
        got, placed = run.run(clocks)
    assert_agreement(plan, got, oracle(plan, table.as_the_oracle_sees(placed)), table)
    rows = got.ledger.rows
    SEEN.update(streams=1, rows=rows["in"], raised=rows["raised"], lowered=rows["lowered"], tries=run.tries)


@tried(60)
@given(cases(grids))
def test_windows_in_an_unruly_world(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@tried(50)
@given(cases(sessions))
def test_sessions_in_an_unruly_world(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@tried(40)
@given(cases(st.one_of(grids, sessions), dedupe=True))
def test_duplicates_in_an_unruly_world(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


def test_the_world_was_unruly() -> None:
    """The three above saw rows raised and lowered and batches tried again; alone it says nothing."""
    if SEEN["streams"]:
        assert SEEN["raised"] and SEEN["lowered"] and SEEN["tries"], SEEN


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK)
@given(st.one_of(cases(grids), cases(sessions), cases(st.one_of(grids, sessions), dedupe=True)))
def test_many_streams_in_an_unruly_world(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@pytest.mark.soak
def test_how_unruly_it_was() -> None:
    print(f"\n{dict(SEEN)}")
