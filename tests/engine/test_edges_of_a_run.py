"""Outputs in another order, outputs that come later, arrivals from the future, rows inside the instant where a sweep stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from feeding import SECOND, Feeding

import eventide as ev


def sessions(feeding: Feeding, *names: str) -> ev.Pipeline:
    """The same outputs in any order."""
    payments = ev.files(
        "payments", str(feeding.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s")
    )
    visits = payments.window(ev.session("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
    policies = {"drop": ev.drop(), "some": ev.accumulate("20 s"), "most": ev.retract("60 s"), "late": ev.accumulate("60 s")}
    outputs = [visits.to(name, late=policies[name]) for name in names]
    return ev.Pipeline("visits", *outputs, state=str(feeding.root / "state"), buckets=1)


def panes(feeding: Feeding, output: str) -> list[tuple[Any, ...]]:
    said = feeding.said(f"panes/{output}")
    return sorted((p["window_start"], p["window_end"], p["sequence"], p["op"], p["n"], p["total"]) for p in said)


def visited(root: Path, *orders: tuple[str, ...]) -> Feeding:
    """Three rows that make one session where lateness allows it, one batch for each row, each by the definition in another order."""
    feeding = Feeding(root)
    for number, (happened, arrived) in enumerate([(1, 1), (30, 30), (8, 31), (45, 46)]):
        feeding.land("a", (happened, arrived, "x", 2**number))
        feeding.open(sessions(feeding, *orders[number % len(orders)]))
        feeding.batch("a")
        feeding.run.close()
    feeding.open(sessions(feeding, *orders[0]))
    feeding.batch(drain=True)
    feeding.run.close()
    return feeding


def test_the_order_of_the_outputs_does_not_matter(tmp_path: Path) -> None:
    forth = visited(tmp_path / "forth", ("drop", "some", "most"))
    both = visited(tmp_path / "both", ("drop", "some", "most"), ("most", "drop", "some"), ("some", "most", "drop"))
    for output in ("drop", "some", "most"):
        assert panes(both, output) == panes(forth, output), output


def test_an_output_put_in_before_the_others_leaves_their_sessions_alone(tmp_path: Path) -> None:
    without = visited(tmp_path / "without", ("drop", "most"))
    later = Feeding(tmp_path / "later")
    names: list[tuple[str, ...]] = [("drop", "most"), ("drop", "most"), ("late", "drop", "most"), ("late", "drop", "most")]
    for number, (happened, arrived) in enumerate([(1, 1), (30, 30), (8, 31), (45, 46)]):
        later.land("a", (happened, arrived, "x", 2**number))
        later.open(sessions(later, *names[number]))
        later.batch("a")
        later.run.close()
    later.open(sessions(later, *names[-1]))
    later.batch(drain=True)
    for output in ("drop", "most"):
        assert panes(later, output) == panes(without, output), output


def test_an_output_that_comes_later_says_a_windows_first_result_under_sequence_0(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    feeding.open()
    feeding.batch("a")
    feeding.run.close()
    feeding.open(feeding.pipeline(more=[lambda a: a.to("new", late=ev.retract("1 minute"))]))
    feeding.land("a", (3, 17, "x", 4), (4, 18, "x", 8))
    feeding.batch("a")
    feeding.land("a", (5, 19, "x", 16))
    feeding.batch("a")
    feeding.batch(drain=True)
    said = [(p["op"], p["sequence"], p["total"]) for p in sorted(feeding.said("panes/new"), key=lambda p: p["emitted_at"])]
    assert said == [("insert", 0, 13), ("retract", 0, 13), ("insert", 1, 29), ("insert", 0, 2)]


@pytest.mark.parametrize("window", [ev.tumbling("10 s"), ev.session("10 s")], ids=["tumbling", "session"])
def test_an_arrival_from_the_far_future_is_lowered_to_the_clock_and_holds_nothing_back(tmp_path: Path, window: Any) -> None:
    feeding = Feeding(tmp_path)
    feeding.pipe = feeding.pipeline(window)
    feeding.land("a", (1, 10**8, "x", 1))
    feeding.open()
    feeding.batch("a")
    for second in (25, 45, 5):
        feeding.land("a", (second, 10_100 + second, "x", second))
        feeding.now += 100 * SECOND
        feeding.batch("a")
    rows = feeding.run.ledger.rows
    assert rows["lowered"] == 1 and rows["in"] == 4 and rows["ahead"] + rows["judged"] == 4
    assert feeding.run.ledger.swept is not None and feeding.run.ledger.swept[0] <= feeding.now
    assert ("on_time", 1) in {(p["timing"], p["total"]) for p in feeding.said()}


def test_an_arrival_a_little_after_the_clock_is_believed(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 10_050, "x", 1))
    feeding.open()
    feeding.batch("a")
    assert "lowered" not in feeding.rows()


@pytest.mark.parametrize("window", [ev.tumbling("10 s"), ev.session("10 s")], ids=["tumbling", "session"])
def test_a_row_that_comes_inside_the_instant_where_the_sweep_stopped_is_judged_and_counted_as_raised(
    tmp_path: Path, window: Any
) -> None:
    feeding = Feeding(tmp_path)
    feeding.pipe = feeding.pipeline(window)
    feeding.land("a", (1, 1, "x", 1))
    feeding.land("b", (50, 60, "x", 2))
    feeding.open()
    newest = max((feeding.root / "in/b").iterdir())
    feeding.land("b", (70, 70, "x", 4))  # listed and not read: the sweep stops where lane b was read to
    feeding.batch_of(max((feeding.root / "in/a").iterdir()), newest)
    assert feeding.run.ledger.swept is not None and feeding.run.ledger.swept[2] == "b"
    feeding.land("a", (55, 60, "x", 16), (3, 60, "x", 8))
    feeding.batch("a")
    feeding.batch("b")
    feeding.batch(drain=True)
    rows = feeding.run.ledger.rows
    assert rows["ahead"] + rows["judged"] == rows["in"] == 5 and rows["kept"] == rows["judged"] and rows["raised"] == 2
