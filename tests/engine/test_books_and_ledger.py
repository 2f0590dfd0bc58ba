"""The books of a batch made by hand: every way in which they can be wrong is a breach. And the ledger, which is the same after its journey
through JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from eventide.engine.batch.bucket_task import BucketAccount
from eventide.engine.batch.conservation import ConservationBreach, check_conservation, check_merge
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.microbatch import BatchInput, BatchResult
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ROWS
from eventide.kernel.scan import LaneCarry
from eventide.model import aggregate
from eventide.model.frontier import FrontierState, Standing
from eventide.model.lane import Progress
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.state.ledger import Ledger
from eventide.state.store import Part, Store

PLAN = Plan(
    (SourcePlan(Bounded(0), ("a", "b")),),
    Sliding(4, 2),
    (("n", aggregate.count()), ("s", aggregate.sum("value"))),
    (OutputPlan("keeps"), OutputPlan("counts")),
)


class Books:
    """Lane a: 3 rows ahead, worth 30 (6 pairs), and 2 kept; lane b: 1 kept, 1 dead. Of those kept before and now, 2 are judged (4 pairs):
    one on time, one admitted by the first output and refused by the second; 1 duplicate, 1 waiting."""

    def __init__(self, root: Path) -> None:
        self.store, self.shape = Store(str(root)), BoundPlan(PLAN)
        partial = pl.DataFrame({"__slice": [0, 2], ROWS: [1, 2], "__a0_n": [1, 2], "__a1_s": [10, 20], "__a1_n": [1, 2]})
        kept = pl.DataFrame({"__arrival": [1, 2]})
        parts = self.store.write("partial", 7, [(0, partial)], about="__slice") + self.store.write("rows", 7, [(0, kept)])
        more = self.store.write("rows", 7, [(0, kept.head(1))])
        dead = self.store.write_table("dead", 7, "0-b", pl.DataFrame({"reason": ["x"]}))
        a = LaneAccount((0, "a"), LaneCarry(), [], {"in": 5, "ahead": 3, "ahead_pairs": 6, "kept": 2, "value_1": 30}, parts, [])
        b = LaneAccount((0, "b"), LaneCarry(), [], {"in": 2, "kept": 1, "dead": 1}, more, [dead])
        self.given = BatchInput(7, 100, [a, b], None)
        self.before = Ledger(rows=Counter({"in": 11, "ahead": 10, "kept": 1, "pairs": 20}))
        self.before.outputs = {"keeps": Counter(on_time=20, rows_on_time=10), "counts": Counter(on_time=20, rows_on_time=10)}
        rows = Counter(self.before.rows)
        rows.update({"in": 7, "ahead": 3, "kept": 3, "dead": 1, "judged": 2, "duplicates": 1, "pairs": 10})
        outputs = {
            "keeps": Counter(on_time=28, refused=2, rows_on_time=14, rows_refused=1),
            "counts": Counter(on_time=28, admitted=1, refused=1, rows_on_time=14, rows_refused=1),
        }
        late = self.store.write_table("late/keeps", 7, "bucket", pl.DataFrame({"id": [1]}))
        ledger = Ledger(rows=rows, outputs=outputs)
        self.result = BatchResult(ledger, {}, {"keeps": [late], "counts": []}, [dead], [], Counter(), {"": 1})

    def check(self) -> None:
        check_conservation(self.store, self.shape, (True, False), self.before, self.result, self.given)


def test_sound_books_pass(tmp_path: Path) -> None:
    Books(tmp_path).check()


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("counter", ["in", "ahead", "judged", "dead", "duplicates", "kept", "pairs", "markers"])
def test_a_row_counted_once_too_often_or_too_rarely_is_a_breach(counter: str, by: int, tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.result.ledger.rows[counter] += by
    with pytest.raises(ConservationBreach, match=r"^batch 7: .*not committed"):
        books.check()


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("output", ["keeps", "counts"])
@pytest.mark.parametrize("verdict", ["on_time", "admitted", "refused", "rows_on_time", "rows_admitted", "rows_refused"])
def test_a_verdict_counted_once_too_often_or_too_rarely_is_a_breach(verdict: str, output: str, by: int, tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.result.ledger.outputs[output][verdict] += by
    with pytest.raises(ConservationBreach, match=f"output '{output}'"):
        books.check()


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("lane", [0, 1])
@pytest.mark.parametrize("counter", ["ahead", "kept", "dead", "value_1"])
def test_what_a_lane_says_is_read_back(counter: str, lane: int, by: int, tmp_path: Path) -> None:
    books = Books(tmp_path)
    counts = books.given.accounts[lane].counts
    counts[counter] = counts.get(counter, 0) + by
    with pytest.raises(ConservationBreach):
        books.check()


def test_a_file_that_is_missing_or_one_too_many_is_a_breach(tmp_path: Path) -> None:
    for change in (lambda b: b.result.late.update(keeps=[]), lambda b: b.result.late.update(keeps=b.result.late["keeps"] * 2),
                   lambda b: b.result.dead.clear(), lambda b: b.given.accounts[0].parts.pop(), lambda b: b.given.accounts[0].parts.pop(0)):  # fmt: skip
        books = Books(tmp_path)
        change(books)
        with pytest.raises(ConservationBreach):
            books.check()


def test_nothing_waits_after_the_end_of_the_input(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.given = replace(books.given, drain=True)
    with pytest.raises(ConservationBreach, match="rows that wait after the end of the input: 1"):
        books.check()


def test_rows_that_wait_are_where_a_sweep_will_find_them(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.result.waiting = {"": 0}
    with pytest.raises(ConservationBreach, match="rows stored beyond the sweep: 0"):
        books.check()


def test_a_merge_keeps_every_row() -> None:
    parts = [pl.DataFrame({ROWS: [1, 2]}), pl.DataFrame({ROWS: [4]})]
    check_merge(parts, pl.DataFrame({ROWS: [3, 4]}), 1)
    for wrong in ([7, 1], [6]):
        with pytest.raises(ConservationBreach, match=r"batch 1: .*merged"):
            check_merge(parts, pl.DataFrame({ROWS: wrong}), 1)


PART = Part("data/x", 1, "sessions", 2, 3, -4, 5, 6, "out")
CARRY = LaneCarry(5, 6, 7, 8, (1, 0, "a", 2), 3, True, {"bound": 4, "step": None, "seen": [[1, 2]]})


def full_ledger() -> Ledger:
    return Ledger(
        batch=9,
        frontier=FrontierState(7, {(0, "a"): Standing(7, 3, True), (1, "b"): Standing(None, None, False)}, 1, 2, 3),
        carries={(0, "a"): CARRY, (1, "b"): LaneCarry()},
        progress=[Progress((1, 0, "a", 2), None, 4, True), Progress((2, 1, "b", 0), 5, 6)],
        parts=[PART],
        swept=(3, 0, "a", 1),
        rows=Counter({"in": 1, "kept": 5, "judged": 2, "duplicates": 1}),
        outputs={"out": Counter(on_time=2)},
        joined={"out": Counter(judged=1)},
        by_source={"0": Counter(rows=3, late=1)},
        sources={"files": {"read": ["x"]}},
        joined_at={"out": None, "other": 5},
        attempts=[(0, "a"), (4, "b")],
    )


def through_json(value: dict[str, Any]) -> Any:
    return json.loads(json.dumps(value))


def test_a_ledger_is_the_same_after_its_journey() -> None:
    ledger = full_ledger()
    back = Ledger.from_json(through_json(ledger.to_json()))
    assert back == ledger
    assert type(back.swept) is tuple and type(back.progress[0].position) is tuple and type(back.carries[0, "a"].joined) is tuple
    assert Ledger.from_json(through_json(Ledger().to_json())) == Ledger()
    assert (Ledger().batch, Ledger().swept, back.waiting) == (-1, None, 2)


def test_accounts_are_the_same_after_their_journey() -> None:
    lane = LaneAccount(
        (0, "a"), CARRY, [Progress((1, 0, "a", 2), 3, 4, True)], {"in": 1}, [PART], ["dead/x"], [{"a": 1}], ["w"]
    )
    assert LaneAccount.from_json(lane.to_json()) == lane
    bucket = BucketAccount(
        1, [PART], [replace(PART, group=2)], [(0, "p", 3)], [(1, "l", 2)], [{"on_time": 1}], 4, {"0": 1}, 5, 6, 7
    )
    assert BucketAccount.from_json(bucket.to_json()) == bucket
    empty = BucketAccount(0)
    assert (empty.judged, empty.pairs, empty.duplicates, empty.waiting) == (0, 0, 0, 0)


def test_whose_files_a_batch_consists_of() -> None:
    ledger = Ledger()
    assert ledger.attempt_of(0) == ""
    for batch, attempt in ((0, "a"), (1, "a"), (2, "b"), (3, "b")):
        ledger.committed_by(batch, attempt)
    assert ledger.attempts == [(0, "a"), (2, "b")]
    assert [ledger.attempt_of(batch) for batch in range(4)] == ["a", "a", "b", "b"]


def test_outputs_that_come_and_go() -> None:
    """Before the first batch nobody joins late; after it a new output is answerable from there on, and one that left is forgotten."""
    ledger = Ledger()
    ledger.seat(["one"])
    assert (ledger.joined_at, ledger.joined, ledger.outputs) == ({}, {"one": Counter()}, {"one": Counter()})
    ledger.batch, ledger.frontier.watermark = 0, 50
    ledger.rows.update(ahead=3, judged=2, pairs=8, kept=4)
    ledger.outputs["one"].update(on_time=8)
    ledger.seat(["one", "two"])
    assert ledger.joined_at == {"two": 50}
    assert ledger.joined == {"one": Counter(), "two": Counter(ahead=3, judged=2, pairs=8)}
    assert ledger.outputs == {"one": Counter(on_time=8), "two": Counter()}
    ledger.frontier.watermark = 90
    ledger.seat(["two"])
    assert (ledger.joined_at, list(ledger.outputs), list(ledger.joined)) == ({"two": 50}, ["two"], ["two"])
    ledger.seat(["two", "one"])
    assert ledger.joined_at == {"two": 50, "one": 90}
