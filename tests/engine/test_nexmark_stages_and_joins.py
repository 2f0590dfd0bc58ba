"""Nexmark's hot items (a stage) and new users' auctions (a join by windows): the batch answer where nothing is late, the oracle's where things are."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nexmark import COLUMNS, SECOND, arrived, happenings
from of_files import Columns, Landing, Table, assert_as_the_oracle_says, cut, graph_of, table_of
from test_nexmark import late, punctual

import eventide as ev
from eventide.model.event import Event
from eventide.state.state import State

HAPPENED = happenings(2_000)
OF = {
    "bids": ("bid", ("auction", "bidder", "price")),
    "people": ("person", ("number", "name", "city", "state")),
    "auctions": ("auction", ("number", "seller", "category", "reserve", "expires")),
}
"""By source, the kind of what happens there, and its columns."""
KINDS: Columns = {source: {name: COLUMNS[name] for name in columns} for source, (_, columns) in OF.items()}


def read(root: Path, source: str) -> Any:
    return ev.files(
        source, str(root / source), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("2 seconds"),
        files_per_batch=2,
    )  # fmt: skip


def hot_items(root: Path, late: Any) -> Any:
    """Question 5: every two seconds, which auctions had the most bids in the last ten."""
    counted = read(root, "bids").window(ev.sliding("10 seconds", "2 seconds"), by="auction").agg(bids=ev.count())
    hottest = (
        counted.results(late=ev.accumulate("10 seconds"))
        .window(ev.tumbling("2 seconds"))
        .agg(most=ev.max("bids"), first=ev.max_by("auction", "bids"), three=ev.top(3, by="bids", of="auction"))
    )
    return hottest.to("q", late=late)


def all_hot_items(root: Path, late: Any) -> Any:
    """The same with all auctions that have the most, as Nexmark asks: those of each count first, and of these the largest count."""
    counted = read(root, "bids").window(ev.sliding("10 seconds", "2 seconds"), by="auction").agg(bids=ev.count())
    equals = (
        counted.results(late=ev.accumulate("10 seconds"))
        .window(ev.tumbling("2 seconds"), by="bids")
        .agg(auctions=ev.collect("auction"))
    )
    hottest = (
        equals.results(late=ev.accumulate("10 seconds"))
        .window(ev.tumbling("2 seconds"))
        .agg(most=ev.max("bids"), auctions=ev.max_by("auctions", "bids"))
    )
    return hottest.to("q", late=late)


def new_users(root: Path, late: Any) -> Any:
    """Question 8: who came in a span of ten seconds and opened auctions in it."""
    people, auctions = read(root, "people"), read(root, "auctions")
    sold = people.join(
        auctions, on={"number": "seller"}, within=ev.tumbling("10 seconds"), late=ev.accumulate("10 seconds"),
        prefix=("person_", "auction_"),
    )  # fmt: skip
    by = ("person_number", "person_name")
    return sold.window(ev.tumbling("10 seconds"), by=by).agg(auctions=ev.count()).to("q", late=late)


def counts_of_bids() -> dict[int, Counter[int]]:
    """By the end of a window, the bids of each auction, over all bids at once."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for time, row in HAPPENED:
        if row["kind"] == "bid":
            first = (time // (2 * SECOND) + 1) * 2 * SECOND
            for end in range(first, first + 10 * SECOND, 2 * SECOND):
                found[end][row["auction"]] += 1
    return found


def hottest_of_the_batch() -> Table:
    table: Table = {}
    for end, counts in counts_of_bids().items():
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        three = [{"auction": auction, "bids": n} for auction, n in ranked[:3]]
        table[(end - 2 * SECOND, end), ()] = (ranked[0][1], ranked[0][0], three)
    return table


def all_hottest_of_the_batch() -> Table:
    table: Table = {}
    for end, counts in counts_of_bids().items():
        most = max(counts.values())
        table[(end - 2 * SECOND, end), ()] = (most, sorted(auction for auction, n in counts.items() if n == most))
    return table


def new_users_of_the_batch() -> Table:
    came = {(row["number"], time // (10 * SECOND)): row["name"] for time, row in HAPPENED if row["kind"] == "person"}
    sold = Counter((row["seller"], time // (10 * SECOND)) for time, row in HAPPENED if row["kind"] == "auction")
    return {
        ((at * 10 * SECOND, (at + 1) * 10 * SECOND), (number, name)): (sold[number, at],)
        for (number, at), name in came.items()
        if (number, at) in sold
    }


QUESTIONS: dict[str, tuple[Any, tuple[str, ...], Callable[[], Table]]] = {
    "q5": (hot_items, ("bids",), hottest_of_the_batch),
    "q5 with equals": (all_hot_items, ("bids",), all_hottest_of_the_batch),
    "q8": (new_users, ("people", "auctions"), new_users_of_the_batch),
}


def answered(root: Path, question: str, policy: Any, delay: Any) -> ev.Pipeline:
    """The question over an auction house whose news come with this delay, in files of three lanes for each source."""
    asked, names, _ = QUESTIONS[question]
    pipe = ev.Pipeline(
        "nexmark", asked(root / "in", policy), state=str(root / "state"), archive=str(root / "archive"), buckets=2
    )
    events: list[Event] = []
    for place, name in enumerate(names):
        happened = [(time, row) for time, row in HAPPENED if row["kind"] == OF[name][0]]
        events += [replace(event, source=place) for event in arrived(happened, delay)]
    landing = Landing(root / "in", pipe, KINDS)
    landing.land(*cut(events, names, random.Random(5), uneven=True))
    landing.read_here(drain=True)
    return pipe


@pytest.mark.parametrize("question", QUESTIONS)
def test_where_nothing_is_late_the_answer_is_that_of_a_batch(question: str, tmp_path: Path) -> None:
    pipe = answered(tmp_path, question, ev.drop(), punctual)
    assert State.of(pipe).ledger.outputs["q"]["refused"] == 0
    want = QUESTIONS[question][2]()
    assert len(want) > 10
    assert table_of(pipe, "q", graph_of(pipe, KINDS)) == want


@pytest.mark.parametrize("policy", [ev.drop(), ev.retract("10 seconds")], ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_where_news_are_late_the_answer_is_that_of_the_oracle(question: str, policy: Any, tmp_path: Path) -> None:
    pipe = answered(tmp_path, question, policy, late)
    counts = State.of(pipe).ledger.outputs["q"]
    assert counts["admitted"] + counts["refused"] > 0
    assert_as_the_oracle_says(pipe, KINDS)
