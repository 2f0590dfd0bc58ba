"""Generations in every sink: which one stands, what an older one holds that the newer does not, and another shape in its place."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import TargetMismatch
from eventide.sinks import PaneShape
from eventide.sinks.base import Held, Span, TableSink
from eventide.sinks.ranked import outdated, retracts
from tests.sinks.panes import BASE, DELTAS, MINUTE, SHAPE, Pane, batch, delivery, pane, seen
from tests.sinks.places import Place

MINUTES = PaneShape(SHAPE.keys, SHAPE.values, window="tumbling(1 minute)")
HOURS = PaneShape(SHAPE.keys, SHAPE.values, window="tumbling(1 hour)")
BRANCHES = PaneShape((("branch", pa.int64()), ("city", pa.string())), (("total", pa.float64()),), window="tumbling(1 minute)")
SUMS = PaneShape(DELTAS.keys, DELTAS.values, "discarding", DELTAS.additive, window="tumbling(1 minute)")
EVERYTHING = Span()


def minutes(generation: int, slots: range, total: int = 0) -> list[Pane]:
    return [pane(f"minute {i}", 0, generation=generation, slot=i, total=total + i, n=1) for i in slots]


def branches(generation: int, slots: range) -> list[Pane]:
    panes = [pane(f"branch {i}", 0, generation=generation, slot=i, total=i / 2) for i in slots]
    return [{**{k: v for k, v in p.items() if k != "bank"}, "branch": i, "city": "₹"} for i, p in enumerate(panes)]


def give(place: Place, panes: list[Pane], shape: PaneShape, generation: int, number: int = 0) -> None:
    """A delivery of a generation, as a run does it."""
    if hasattr(place, "receiver"):
        place.receiver.shape = shape
    sink = place.sink()
    writer = sink.open(place.output, shape)
    if isinstance(sink, TableSink):
        sink.claim(place.output, shape, generation)
    writer.deliver(batch(panes, shape), delivery(place.output, number))
    writer.close()


def withdraw(place: Place, standing: list[Pane], shape: PaneShape, generation: int, span: Span) -> None:
    """Take back what older generations hold; a sink that cannot be asked is told of each result that stands."""
    sink = place.sink()
    if isinstance(sink, TableSink):
        more = sink.withdraw(place.output, shape, generation, span)
        assert more == any(p["window_end"] > span.high for p in standing) if span.high is not None else not more
        return
    told = retracts(
        outdated(pa.Table.from_batches(batch(standing, shape), schema=shape.schema), shape, generation, span), shape
    )
    writer = sink.open(place.output, shape)
    writer.deliver(told.to_batches(), delivery(place.output, 99))
    writer.close()


def replace(place: Place, standing: list[Pane], old: PaneShape, panes: list[Pane], new: PaneShape, generation: int) -> None:
    """Another shape in the place of one; a sink that cannot be asked gets both, and then the old one's withdrawals."""
    sink = place.sink()
    if isinstance(sink, TableSink):
        sink.replace(place.output, new, generation, batch(panes, new), delivery(place.output, 50))
        return
    give(place, panes, new, generation, 50)
    withdraw(place, standing, old, generation, EVERYTHING)


def tables_only(place: Place) -> Any:
    sink = place.sink()
    assert sink.capabilities.generations == isinstance(sink, TableSink)
    if not sink.capabilities.generations:
        pytest.skip(f"{place.lacks['generations'].kind}: {place.lacks['generations'].why}")
    return sink


def test_a_table_says_which_generation_of_which_shape_stands_in_it(place: Place) -> None:
    sink = tables_only(place)
    assert sink.held(place.output, MINUTES) is None
    give(place, minutes(2, range(3)), MINUTES, 2)
    assert sink.held(place.output, HOURS) == Held(2, MINUTES.signature)
    give(place, [], MINUTES, 5)
    give(place, minutes(2, range(3, 5)), MINUTES, 2, 1)  # a live run goes on beneath a backfill
    assert sink.held(place.output, MINUTES) == Held(5, MINUTES.signature)
    assert len(place.rows(MINUTES)) == 5


def test_a_table_that_nobody_noted_says_its_highest_generation_and_no_shape(place: Place) -> None:
    sink = tables_only(place)
    writer = sink.open(place.output, MINUTES)
    assert sink.held(place.output, MINUTES) is None
    writer.deliver(batch(minutes(3, range(2)), MINUTES), delivery(place.output, 0))
    writer.close()
    assert sink.held(place.output, MINUTES) == Held(3, "")


def test_results_of_another_shape_are_refused_where_they_would_stand_beside(place: Place) -> None:
    sink = tables_only(place)
    give(place, minutes(0, range(3)), MINUTES, 0)
    with pytest.raises(TargetMismatch, match=r"another shape.*1 hour.*--start-over"):
        sink.open(place.output, HOURS)
    assert len(place.rows(MINUTES)) == 3


def test_absence_counts_inside_the_span_that_was_read_whole(place: Place) -> None:
    """Of ten old windows the new generation has four, and has read whole what lies from the second to the eighth."""
    old, new = minutes(0, range(10)), minutes(1, range(2, 6), total=100)
    give(place, old, MINUTES, 0)
    give(place, new, MINUTES, 1, 1)
    span = Span(BASE + MINUTE, BASE + 8 * MINUTE)
    absent = [p for p in old if not 2 <= (p["window_start"] - BASE) // MINUTE < 6]
    for _ in range(2):
        withdraw(place, absent, MINUTES, 1, span)
        found = {window: row[1] for window, row in seen(place.rows(MINUTES), MINUTES).items()}
        assert found == {f"minute {i}": i if i in (0, 8, 9) else 100 + i for i in (0, 2, 3, 4, 5, 8, 9)}
    give(place, old, MINUTES, 0, 2)
    assert len(place.rows(MINUTES)) == 7, "a stale pane brought back what was withdrawn"
    give(place, minutes(1, range(6, 8), total=100), MINUTES, 1, 3)
    assert len(place.rows(MINUTES)) == 9, "a late first result is not kept out by the withdrawal of an older one"


@pytest.mark.parametrize("span", [EVERYTHING, Span(-(2**62), 2**62)], ids=["unbounded", "beyond every date"])
def test_a_span_without_bounds_holds_every_window(place: Place, span: Span) -> None:
    old = minutes(0, range(4))
    give(place, old, MINUTES, 0)
    give(place, minutes(1, range(1)), MINUTES, 1, 1)
    withdraw(place, old[1:], MINUTES, 1, span)
    assert [row["generation"] for row in place.rows(MINUTES)] == [1]


def test_absence_of_deltas_counts_too(place: Place) -> None:
    def deltas(generation: int, slots: range) -> list[Pane]:
        values = {"total": 5, "least": 2, "most": 3}
        return [pane(f"w{i}", s, generation=generation, slot=i, **values) for i in slots for s in range(2)]

    old, new = deltas(0, range(4)), deltas(1, range(2))
    give(place, old, SUMS, 0)
    give(place, new, SUMS, 1, 1)
    for _ in range(2):
        withdraw(place, old, SUMS, 1, EVERYTHING)
        assert {w: (row[1], row[5]) for w, row in seen(place.rows(SUMS), SUMS).items()} == {"w0": (10, 1), "w1": (10, 1)}
    give(place, old, SUMS, 0, 2)
    assert len(place.rows(SUMS)) == 2, "a stale delta brought back what was withdrawn"


@pytest.mark.parametrize("shape", [HOURS, BRANCHES], ids=["other windows", "other keys, values and types"])
def test_another_shape_replaces_the_older_one_whole(place: Place, shape: PaneShape) -> None:
    old = minutes(0, range(10))
    new = branches(3, range(4)) if shape is BRANCHES else [pane("hour 0", 0, generation=3, total=45, n=10)]
    give(place, old, MINUTES, 0)
    for _ in range(2):
        replace(place, old, MINUTES, new, shape, 3)
        assert sorted(row["window_id"] for row in place.rows(shape)) == sorted(p["window_id"] for p in new)
        assert sum(row["total"] for row in place.rows(shape)) == sum(p["total"] for p in new)
    later = [{**new[0], "sequence": 1, "total": 7}]
    give(place, later, shape, 3, 51)
    withdraw(place, old, MINUTES, 3, EVERYTHING) if not isinstance(place.sink(), TableSink) else None
    assert {row["total"] for row in place.rows(shape) if row["window_id"] == new[0]["window_id"]} == {7}
    if isinstance(place.sink(), TableSink):
        assert place.sink().held(place.output, MINUTES) == Held(3, shape.signature)
        with pytest.raises(TargetMismatch, match="another shape"):
            place.sink().open(place.output, MINUTES)


def test_shapes_replace_one_another_again_and_again(place: Place) -> None:
    tables_only(place)
    standing, shape = minutes(0, range(3)), MINUTES
    give(place, standing, MINUTES, 0)
    for generation, (panes, other) in enumerate([(branches(1, range(2)), BRANCHES), (minutes(2, range(5)), MINUTES)] * 2, 1):
        panes = [{**p, "generation": generation} for p in panes]
        replace(place, standing, shape, panes, other, generation)
        standing, shape = panes, other
        assert sorted(row["window_id"] for row in place.rows(shape)) == sorted(p["window_id"] for p in panes)
    replace(place, standing, shape, [], BRANCHES, 9)
    assert place.rows(BRANCHES) == []
