"""Nexmark's questions over an auction house of our own: the batch answer where nothing is late, and the oracle's where things are."""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from agreement import assert_agreement, oracle, standing
from inline import InlineRun, Table, run_in_batches
from nexmark import AUCTIONS, BIDS, COLUMNS, CYCLE, PERSONS, SECOND, arrived, happenings

import eventide as ev
from eventide.model.event import Event
from eventide.model.plan import Plan

HAPPENED = happenings(1_500)
BIDDEN = [(time, row) for time, row in HAPPENED if row["kind"] == "bid"]
SCHEMA = "ts timestamp, kind string, auction bigint, bidder bigint, price bigint"


def punctual(rng: random.Random) -> int:
    """Within the bound of the watermark."""
    return rng.randrange(2 * SECOND)


def late(rng: random.Random) -> int:
    """One in ten comes later than anybody waits."""
    return rng.randrange(2 * SECOND) if rng.random() < 0.9 else rng.randrange(30 * SECOND)


def bids(name: str) -> Any:
    return ev.files(name, "bids/", schema=SCHEMA, event_time="ts", watermark=ev.bounded("2 seconds"))


def plan_of(output: Any) -> Plan:
    """What a pipeline with this output means, over the lanes of the auction house."""
    plan = ev.Pipeline("nexmark", output).plan()
    return replace(plan, sources=tuple(replace(source, lanes=("0", "1", "2")) for source in plan.sources))


HIGHEST = bids("bids").window(ev.tumbling("10 seconds")).agg(
    price=ev.max("price"), auction=ev.max_by("auction", "price"), bidder=ev.max_by("bidder", "price")
)  # fmt: skip
AMONG_ALL = bids("all").window(ev.tumbling("10 seconds")).agg(
    price=ev.max("price", where="kind = 'bid'"),
    auction=ev.max_by("auction", "price", where="kind = 'bid'"),
    bidder=ev.max_by("bidder", "price", where=ev.col("kind") == "bid"),
)  # fmt: skip
SESSIONS = bids("bids").window(ev.session("10 seconds"), by="bidder").agg(bids=ev.count())


def ran(plan: Plan, events: list[Event], table: Table, seed: int) -> InlineRun:
    rng = random.Random(seed)
    clocks = sorted(rng.randrange(events[-1].arrival) for _ in range(6))
    with tempfile.TemporaryDirectory() as root:
        return run_in_batches(plan, events, clocks, rng, root, table)


def table_of(run: InlineRun, plan: Plan, table: Table) -> dict[Any, tuple[Any, ...]]:
    """What a sink holds in the end: values by window and key."""
    names = [name for name, _ in plan.aggregates]
    return standing(
        [
            (
                (p["window_start"], p["window_end"]),
                table.key_of(p),
                p["sequence"],
                p["op"],
                p["timing"],
                tuple(p[n] for n in names),
            )
            for p in run.panes["q"]
        ]
    )


def highest_bids() -> dict[Any, tuple[int, int, int]]:
    """Question 7 over all bids at once: of equal prices the earliest bid."""
    windows: dict[int, list[Any]] = defaultdict(list)
    for time, row in BIDDEN:
        windows[time // (10 * SECOND) * 10 * SECOND].append(row)
    best = {start: max(rows, key=lambda row: row["price"]) for start, rows in windows.items()}
    return {((s, s + 10 * SECOND), None): (row["price"], row["auction"], row["bidder"]) for s, row in best.items()}


def bidding_sessions() -> dict[Any, tuple[int]]:
    """Question 11 over all bids at once: bids of one bidder no more than ten seconds apart."""
    found: dict[Any, tuple[int]] = {}
    for bidder in {row["bidder"] for _, row in BIDDEN}:
        times = sorted(time for time, row in BIDDEN if row["bidder"] == bidder)
        starts = [i for i, time in enumerate(times) if not i or time - times[i - 1] > 10 * SECOND]
        for low, high in zip(starts, [*starts[1:], len(times)], strict=True):
            found[(times[low], times[high - 1] + 10 * SECOND), bidder] = (high - low,)
    return found


NO_KEY, BY_BIDDER = Table((), COLUMNS), Table(("bidder",), COLUMNS)
QUESTIONS = {
    "q7": (HIGHEST, NO_KEY, BIDDEN, highest_bids),
    "q7 among all": (AMONG_ALL, NO_KEY, HAPPENED, highest_bids),
    "q11": (SESSIONS, BY_BIDDER, BIDDEN, bidding_sessions),
}


def test_the_house_is_one_person_three_auctions_and_46_bids() -> None:
    kinds = Counter(row["kind"] for _, row in HAPPENED)
    assert kinds == {"person": 30 * PERSONS, "auction": 30 * AUCTIONS, "bid": 30 * BIDS} and CYCLE == 50
    known = {row["number"] for _, row in HAPPENED if row["kind"] == "auction"}
    assert {row["auction"] for _, row in BIDDEN} <= known
    hot, times = Counter(row["auction"] for _, row in BIDDEN).most_common(1)[0]
    assert hot == 1_000 and times > len(BIDDEN) // 2


@pytest.mark.parametrize("question", QUESTIONS)
def test_where_nothing_is_late_the_answer_is_that_of_a_batch(question: str) -> None:
    aggregation, table, happened, batch = QUESTIONS[question]
    plan = plan_of(aggregation.to("q", late=ev.drop()))
    run = ran(plan, arrived(happened, punctual), table, seed=3)
    assert run.ledger.outputs["q"]["refused"] == 0
    assert table_of(run, plan, table) == batch()


@pytest.mark.parametrize("policy", [ev.drop(), ev.retract("10 seconds")], ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_where_bids_are_late_the_answer_is_that_of_the_oracle(question: str, policy: Any) -> None:
    aggregation, table, happened, _ = QUESTIONS[question]
    plan, events = plan_of(aggregation.to("q", late=policy)), arrived(happened, late)
    run = ran(plan, events, table, seed=5)
    assert run.ledger.outputs["q"]["admitted"] + run.ledger.outputs["q"]["refused"] > 0
    assert_agreement(plan, run, oracle(plan, table.as_the_oracle_sees(events)), table)
