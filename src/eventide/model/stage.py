"""A reading of an aggregation, and the stages over its results: what changes below is told above, at the same position."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Results
from eventide.model.lateness import Verdict, verdict
from eventide.model.pane import INSERT, LATE, LateRow, Pane
from eventide.model.plan import OutputPlan, Plan
from eventide.model.policy import ACCUMULATING
from eventide.model.reader import Judged, Reader
from eventide.model.trigger import PerRow
from eventide.model.view import beside
from eventide.model.window import Bounds, Session


@dataclass
class Told:
    """Where all stages of an oracle leave what they say."""

    panes: list[Pane]
    late: list[LateRow]


class Stage:
    """One aggregation as read by one output, or by the stages above it.

    A stage above judges by W as *it* has seen it: at one step of W the stage below closes its windows first, and what they
    say is on time above, however far W went.
    """

    def __init__(self, graph: Graph, node: Aggregation, output: OutputPlan, told: Told, above: Iterable[Stage] = ()) -> None:
        self.node, self.told, self.above = node, told, tuple(above)
        self.plan: Plan = graph.plan(node)
        self.reader = Reader(self.plan, output)
        self.watermark: int | None = None
        self.counts: Counter[str] = Counter()
        """(source row, windows on the way, window here), by verdict."""
        self.withdrawals: Counter[str] = Counter()
        """(result withdrawn below, window here): offered, applied, refused."""

    def row(self, event: Event, clock: int) -> None:
        """A row of the stream, or a pair of a join."""
        found = self.reader.insert(self._keyed(event), self.watermark, clock)
        if self.above and isinstance(self.node.window, Session):
            for state in self.reader.in_order():
                if not state.closed:  # it grew over a result that had been handed on
                    self.reader.panes += state.withdraw(self.reader.output, self.plan, LATE)
        self._count(event, found)
        self._tell(clock)

    def _keyed(self, event: Event) -> Event:
        return replace(event, key=tuple(event.row.get(name) for name in self.node.keys))

    def _count(self, event: Event, found: Judged) -> None:
        for _, result in found:
            self.counts[result] += 1
        missed = tuple(dict.fromkeys(bounds for bounds, result in found if result is Verdict.REFUSED))
        if missed and self.watermark is not None:
            self.told.late.append(LateRow(self.reader.output.name, event, self.watermark, missed))
        ends = [bounds[1] for bounds, result in found if result is not Verdict.REFUSED]
        for stage in self.above:
            stage._count(event, [judged for end in ends for judged in stage._meets(end)])

    def _meets(self, end: int) -> list[tuple[Bounds, Verdict]]:
        assert not isinstance(self.node.window, Session), "sessions over results are refused"
        met = self.node.window.assign(end - 1)
        return [(bounds, verdict(self.watermark, bounds[1], self.reader.output.allowed)) for bounds in met]

    def change(self, op: str, result: Event, clock: int) -> None:
        """A result of the stage below came or was corrected, or it was withdrawn."""
        if op == INSERT:
            self.reader.replace(self._keyed(result), self.watermark, clock)
        else:
            for _, found in self.reader.remove(result, self.watermark):
                self.withdrawals["offered"] += 1
                self.withdrawals["refused" if found is Verdict.REFUSED else "applied"] += 1
        self._tell(clock)

    def advance(self, watermark: int | None, clock: int) -> None:
        """W moved: windows close here, and what they say is judged above as before the step."""
        self.reader.advance(watermark)
        self._tell(clock)
        self.watermark = watermark
        for stage in self.above:
            stage.advance(watermark, clock)

    def look(self, clock: int) -> None:
        """The end of a batch: an output's triggers may fire; nothing of that reaches the next stage."""
        if not self.above:
            self.reader.look(clock)
            self._tell(clock)
        for stage in self.above:
            stage.look(clock)

    def _tell(self, clock: int) -> None:
        said, self.reader.panes = self.reader.panes, []
        if not self.above:
            self.told.panes += said
        for pane in said:
            for stage in self.above:
                stage.change(pane.op, result_row(pane, self.node.keys), clock)


def result_row(pane: Pane, keys: tuple[str, ...]) -> Event:
    """A result as a row of the next stage: at its window's end − 1 µs, under its window_id, which also breaks ties.

    >>> row = result_row(Pane("minutes", (0, 60), ("sbi",), 0, INSERT, LATE, {"n": 3}), ("bank",))
    >>> row.event_time, dict(row.row)
    (59, {'bank': 'sbi', 'window_start': 0, 'window_end': 60, 'n': 3})
    """
    (start, end), key = pane.window_id
    text = json.dumps(key, default=str)
    return Event(start, end - 1, None, {**beside(pane.window_id, keys), **pane.values}, 0, text, end)


def stages_over(graph: Graph, name: str, told: Told) -> list[Stage]:
    """The readings of all aggregations over a node, with the stages above them."""
    found = []
    for node in graph.all_of(Aggregation):
        if node.of != name:
            continue
        found += [Stage(graph, node, output, told) for output in graph.readings(node.name)]
        for results in graph.all_of(Results):
            above = stages_over(graph, results.name, told) if results.of == node.name else []
            if above:
                output = OutputPlan(results.name, results.allowed, ACCUMULATING, None, PerRow(), results.view)
                found.append(Stage(graph, node, output, told, above))
    return found
