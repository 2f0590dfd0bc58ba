"""What a micro-batch leaves behind: what is remembered, what goes, and what is kept although nobody asked for it yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inline import KINDS, Table, read_back

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, BatchResult, Engine
from eventide.kernel.columns import RAW
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model import aggregate
from eventide.model.event import Event, LaneId, end_of
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import EveryRows, PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding
from eventide.state.ledger import Ledger
from eventide.testing.spark import event_chunk

A, B = (0, "a"), (0, "b")
PLAN = Plan(
    (SourcePlan(Bounded(0), ("a", "b")),),
    Session(2),
    (("n", aggregate.count()), ("s", aggregate.sum("value"))),
    (OutputPlan("one", 3), OutputPlan("two", 3)),
)


def rows(lane: LaneId, *facts: tuple[int, int], first: int = 0) -> list[Event]:
    return [Event(at, time, "k", {"value": 1}, 0, lane[1], first + i) for i, (at, time) in enumerate(facts)]


def batch(
    engine: Engine, ledger: Ledger, number: int, clock: int, events: Sequence[list[Event]], at_end: set[LaneId], **more: Any
) -> BatchResult:
    accounts = []
    for lane in events:
        at = lane[0].lane_id
        carry, arrivals = ledger.carries.get(at, LaneCarry()), Arrivals.of(at, ledger.swept, clock)
        account = scan_lane(engine.shape, engine.store, number, at, carry, arrivals, [event_chunk(lane, dict(KINDS))])
        accounts.append(LaneAccount.from_json(account.to_json()))
    result = engine.process(ledger, BatchInput(number, clock, accounts, frozenset(at_end), frozenset({A, B}), **more))
    engine.store.delete(result.garbage)
    return result


def test_a_sweep_that_stops_inside_an_instant_keeps_what_can_still_come_of_it(tmp_path: Path) -> None:
    """Lane a was read to (5, a, 1) and has more; b's rows of the same instant stand after that, and wait; what lies before is gone."""
    engine = Table().engine(PLAN, str(tmp_path), buckets=1)
    first = batch(engine, engine.first_ledger(), 0, 3, [rows(A, (2, 1)), rows(B, (3, 6))], {A, B}).ledger
    assert first.swept == end_of(3) and [p.kind for p in first.parts] == ["sessions", "sessions"]
    second = batch(engine, first, 1, 9, [rows(A, (4, 1), (5, 4), first=1), rows(B, (5, 1), first=1)], {B})
    assert second.ledger.swept == (5, 0, "a", 2) and second.waiting == {"": 1}
    assert second.ledger.frontier.watermark == 4, "the row at which the sweep stops has moved W"
    assert sorted(p.low for p in second.ledger.parts if p.kind == "rows") == [4, 5]
    third = batch(engine, second.ledger, 2, 12, [rows(A, (8, 1), first=3)], {B})
    assert third.ledger.swept == (8, 0, "a", 3) and third.waiting == {"": 0}
    assert [p.low for p in third.ledger.parts if p.kind == "rows"] == [8]
    assert third.ledger.rows["judged"] == 6
    fourth = batch(engine, third.ledger, 3, 12, [], {A, B}).ledger
    assert fourth.swept == end_of(12) and "rows" not in {p.kind for p in fourth.parts}


def test_what_was_kept_for_an_output_goes_with_it(tmp_path: Path) -> None:
    engine = Table().engine(PLAN, str(tmp_path), buckets=1)
    ledger = batch(engine, engine.first_ledger(), 0, 3, [rows(A, (2, 1)), rows(B, (3, 1))], {A, B}).ledger
    assert {p.output for p in ledger.parts} == {"one", "two"}
    alone = Table().engine(replace(PLAN, outputs=PLAN.outputs[:1]), str(tmp_path), buckets=1)
    ledger.seat(["one"])
    after = batch(alone, ledger, 1, 4, [], {A, B})
    assert {p.output for p in after.ledger.parts} == {"one"} and set(engine.store.files("data")) == {
        p.path for p in after.ledger.parts
    }


def test_a_trigger_that_is_new_sees_rows_that_came_before_it(tmp_path: Path) -> None:
    """Triggers may change across a restart: a window or session whose rows wait says them in the next batch, though none came."""
    for window in (Session(2), Sliding(4, 4)):
        plan = replace(PLAN, window=window, outputs=(OutputPlan("one", 3, late=PerRow()),))
        root = str(tmp_path / type(window).__name__)
        engine = Table().engine(plan, root, buckets=1)
        ledger = batch(engine, engine.first_ledger(), 0, 3, [rows(A, (2, 1)), rows(B, (3, 20))], {A, B}).ledger
        eager = replace(plan, outputs=(OutputPlan("one", 3, late=PerRow(), early=EveryRows(1)),))
        again = Table().engine(eager, root, buckets=1)
        said = batch(again, ledger, 1, 4, [], {A, B}).panes["one"]
        assert sorted((r["window_start"], r["timing"], r["n"]) for r in read_back(again, said)) == [
            (1 if window == Session(2) else 0, "early", 1),
            (20, "early", 1),
        ]


def test_what_sources_remember_for_themselves_is_kept(tmp_path: Path) -> None:
    engine = Table().engine(PLAN, str(tmp_path), buckets=1)
    first = batch(engine, engine.first_ledger(), 0, 3, [rows(A, (2, 1))], {A, B}, sources={"files": [1], "topic": 5}).ledger
    second = batch(engine, first, 1, 4, [], {A, B}, sources={"topic": 6}).ledger
    assert second.sources == {"files": [1], "topic": 6} and second.batch == 1
    assert first.sources == {"files": [1], "topic": 5}, "a batch does not change the ledger that it starts from"


def test_rows_ahead_of_their_lane_need_no_judging_once_its_joining_was_swept(tmp_path: Path) -> None:
    plan = replace(PLAN, window=Sliding(4, 4), sources=(SourcePlan(Bounded(0), ("a",), idle_after=50),))
    engine = Table().engine(plan, str(tmp_path), buckets=1)
    first = batch(engine, engine.first_ledger(), 0, 3, [rows(A, (2, 1))], {A, B}).ledger
    assert (first.rows["ahead"], first.rows["judged"]) == (0, 1)
    second = batch(engine, first, 1, 9, [rows(A, (4, 2), (5, 9), (6, 3), first=1)], {A, B}).ledger
    assert (second.rows["ahead"], second.rows["judged"]) == (2, 2)


def test_a_source_that_cannot_tell_is_swept_to_the_clock_and_never_back(tmp_path: Path) -> None:
    engine = Table().engine(PLAN, str(tmp_path), buckets=1)
    given = BatchInput(0, 7, [], None)
    ledger = engine.process(engine.first_ledger(), given).ledger
    assert ledger.swept == end_of(7)
    assert engine.process(ledger, BatchInput(1, 5, [], None)).ledger.swept == end_of(7)
    assert engine.process(ledger, BatchInput(1, 8, [], frozenset({A, B}))).ledger.swept == end_of(8)
    assert engine.process(engine.first_ledger(), BatchInput(0, 8, [], frozenset({A}))).ledger.swept < end_of(0), (
        "b was never heard"
    )


def test_a_dead_letter_carries_its_bytes_or_else_its_row(tmp_path: Path) -> None:
    engine = Table().engine(PLAN, str(tmp_path), buckets=1)
    broken = [replace(e, event_time=None) for e in rows(A, (2, 1), (3, 1))]
    chunk = event_chunk(broken, dict(KINDS))
    for frame, want in (
        (chunk, ['{"key":"k","value":1,"id":null}'] * 2),
        (chunk.with_columns(_raw(chunk)), ["{oops", '{"key":"k","value":1,"id":null}']),
    ):
        account = scan_lane(engine.shape, engine.store, 0, A, LaneCarry(), Arrivals(), [frame])
        letters = read_back(engine, account.dead)
        assert [json.loads(raw["raw"]) if raw["raw"] != b"{oops" else raw["raw"] for raw in letters] == [
            json.loads(text) if text != "{oops" else b"{oops" for text in want
        ]
        assert [(r["source"], r["lane"], r["offset"], r["arrival"], r["event_time"], r["generation"]) for r in letters] == [
            (0, "a", 0, 2, None, 0),
            (0, "a", 1, 3, None, 0),
        ]


def _raw(chunk: Any) -> Any:
    import polars as pl

    return pl.Series(RAW, [b"{oops", None], dtype=pl.Binary)
