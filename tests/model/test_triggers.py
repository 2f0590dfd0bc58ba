"""When a window speaks, and what it says."""

from __future__ import annotations

import math

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import DISCARDING
from eventide.model.reference import Reference
from eventide.model.standing import same_values
from eventide.model.trigger import PER_BATCH, After, AtExpiry, EarlyTrigger, Every, EveryRows, LateTrigger, When
from eventide.model.watermark import Punctuated
from eventide.model.window import Sliding


class Bench:
    """One window [0, 10), rows that each add 1, a watermark and a clock moved by hand."""

    def __init__(
        self, early: EarlyTrigger | None = None, late: LateTrigger = PER_BATCH, accumulation: str = "accumulating"
    ) -> None:
        output = OutputPlan("out", 20, accumulation, early, late)
        aggregates = (("n", aggregate.count()),)
        self.engine = Reference(Plan((SourcePlan(Punctuated("m", "v"), ("0",)),), Sliding(10, 10), aggregates, (output,)))
        self.offset = 0

    def rows(self, number: int) -> Bench:
        for _ in range(number):
            self._event(Event(0, 5, offset=self.offset))
        self.engine.look()
        return self

    def watermark(self, to: int) -> Bench:
        self._event(Event(0, None, candidate=to, marker=True, offset=self.offset))
        self.engine.look()
        return self

    def clock(self, to: int) -> Bench:
        self.engine.look(to)
        return self

    def _event(self, event: Event) -> None:
        self.engine.event(event)
        self.offset += 1

    @property
    def said(self) -> list[tuple[str, int]]:
        return [(pane.timing, pane.values["n"]) for pane in self.engine.panes]


def test_early_every_period_counts_from_the_first_row_and_skips_what_would_repeat() -> None:
    bench = (
        Bench(Every(10)).clock(100).rows(1).clock(109).rows(1).clock(110).clock(120).rows(1).clock(135).clock(139).clock(140)
    )
    assert bench.said == [("early", 2), ("early", 3)]


def test_early_after_a_delay_counts_from_the_first_row_that_no_result_covers() -> None:
    bench = Bench(After(10)).rows(1).clock(10).rows(1).clock(19).clock(20)
    assert bench.said == [("early", 1), ("early", 2)]


def test_early_when_an_expression_over_the_aggregates_holds() -> None:
    bench = Bench(When("n >= 3")).rows(2).rows(1).rows(1)
    assert bench.said == [("early", 3), ("early", 4)]


def test_early_every_n_rows_is_at_least_n() -> None:
    assert Bench(EveryRows(2)).rows(1).rows(3).rows(1).said == [("early", 4)]


def test_late_at_expiry_is_one_correction_with_all_rows() -> None:
    bench = Bench(late=AtExpiry()).rows(1).watermark(10).rows(1).clock(99).rows(1).watermark(29)
    assert bench.said == [("on_time", 1)]
    assert bench.watermark(30).said == [("on_time", 1), ("late", 3)]


def test_what_a_late_trigger_has_not_covered_comes_at_expiry_or_when_the_input_ends() -> None:
    for end in (lambda bench: bench.watermark(30), lambda bench: bench.engine.drain()):
        bench = Bench(late=EveryRows(3)).rows(1).watermark(10).rows(2)
        end(bench)
        assert bench.said == [("on_time", 1), ("late", 3)]


def test_late_by_the_clock_counts_from_the_first_late_row() -> None:
    for trigger in (After(5), Every(5)):
        bench = Bench(Every(50), late=trigger).clock(1).rows(1).watermark(10).rows(1).clock(5).rows(1).clock(6)
        assert bench.said == [("on_time", 1), ("late", 3)]


def test_discarding_says_only_what_is_new_and_nothing_when_there_is_nothing() -> None:
    bench = Bench(EveryRows(2), accumulation=DISCARDING).rows(2).watermark(10).rows(1)
    assert bench.said == [("early", 2), ("late", 1)]
    assert [closing.window for closing in bench.engine.closings] == [(0, 10)], "that it closed is recorded all the same"


def test_a_result_that_is_nan_twice_is_the_same_result() -> None:
    assert same_values({"x": math.nan}, {"x": math.nan}) and not same_values({"x": math.nan}, {"x": 1.0})
