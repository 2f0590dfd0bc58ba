"""The oracle of a whole pipeline: several aggregations, stages and joins, one event at a time, in arrival order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from eventide.model.event import Event
from eventide.model.frontier import Frontier
from eventide.model.graph import Graph, Join, Rows
from eventide.model.intake import Dedupe, Intake, IntakeState
from eventide.model.lateness import Verdict
from eventide.model.pairing import Pairing, Said, pair_row
from eventide.model.pane import INSERT, LateRow, Pane
from eventide.model.soundness import check, joined_columns
from eventide.model.stage import Stage, Told, stages_over


class Oracle(Intake):
    """Handles one event at a time. What outputs say gathers in `panes`, refused rows in `late`, judged rows themselves in `audit`.

    The hottest item of each hour, by what was counted each minute:

    >>> from eventide.model import aggregate, watermark, window
    >>> from eventide.model.graph import Aggregation, Reading, Results
    >>> from eventide.model.plan import OutputPlan, SourcePlan
    >>> graph = Graph(
    ...     (SourcePlan(watermark.Bounded(0), ("0",)),),
    ...     (Rows("bids", columns=(("item", "string"),)),
    ...      Aggregation("minutes", "bids", window.Sliding(60, 60), ("item",), (("n", aggregate.count()),)),
    ...      Results("minute results", "minutes"),
    ...      Aggregation("hot", "minute results", window.Sliding(60, 60), (), (("top", aggregate.top(1, by="n", of="item")),))),
    ...     (Reading("hot", OutputPlan("hottest")),))
    >>> engine = Oracle(graph)
    >>> for time, item in [(1, "a"), (2, "b"), (3, "b"), (60, "a")]: engine.event(Event(time, time, row={"item": item}))
    >>> engine.panes[0].window, engine.panes[0].values
    ((0, 60), {'top': [{'item': 'b', 'n': 2}]})
    """

    def __init__(self, graph: Graph) -> None:
        check(graph)
        self.graph = graph
        dedupes = [Dedupe(rows.sources, rows.dedupe_within) for rows in graph.all_of(Rows)]
        frontier = Frontier([s.timing for s in graph.sources], graph.when_all_idle)
        super().__init__(graph.sources, graph.when_all_idle, dedupes, IntakeState(frontier.state))
        self.told = Told([], [])
        self.audit: list[tuple[str, Event]] = []
        join = next(iter(graph.all_of(Join)), None)
        self.pairing = None if join is None else Pairing(join)
        root = graph.all_of(Rows)[0].name if join is None else join.name
        self.stages = stages_over(graph, root, self.told)

    @property
    def panes(self) -> list[Pane]:
        """All that was emitted, in order."""
        return self.told.panes

    @property
    def late(self) -> list[LateRow]:
        """All rows that were refused somewhere, with what refused them."""
        return self.told.late

    def judge(self, event: Event) -> None:
        """The row goes to every aggregation, or to the join."""
        for rows in self.graph.all_of(Rows):
            if event.source in rows.sources:
                self.audit += [(output.name, event) for output in self.graph.readings(rows.name)]
        if self.pairing is None:
            for stage in self.stages:
                stage.row(event, self.state.clock)
        else:
            self._join(self.pairing, event)

    def _join(self, pairing: Pairing, event: Event) -> None:
        names = (pairing.join.left, pairing.join.right)
        mine = [rows.name for rows in self.graph.all_of(Rows) if event.source in rows.sources]
        result, said = pairing.row(event, tuple(side for side in (0, 1) if names[side] in mine))
        if result is Verdict.REFUSED and self.watermark is not None and event.event_time is not None:
            self.late.append(LateRow(pairing.join.name, event, self.watermark, ((event.event_time, event.event_time),)))
        self._say(pairing.join, said)

    def _say(self, join: Join, said: list[Said]) -> None:
        columns, other = joined_columns(self.graph, join), dict(join.on)
        for change in said:
            row = pair_row(change, columns, other)
            at = (change.event_time, change.event_time)
            for output in self.graph.readings(join.name):
                self.panes.append(Pane(output.name, at, change.id, 0, change.op, change.timing, row.row, self.graph.generation))
            for stage in self.stages if change.op == INSERT else ():
                stage.row(row, self.state.clock)

    def advance(self) -> None:
        """Rows come to stand alone, windows close and expire; a stage before those above it."""
        if self.pairing is not None:
            self._say(self.pairing.join, self.pairing.advance(self.watermark))
        for stage in self.stages:
            stage.advance(self.watermark, self.state.clock)

    def look(self, clock: int | None = None) -> None:
        """The end of a batch: triggers that are looked at once per batch fire; the clock may have moved."""
        self.state.clock = max(self.state.clock, clock or 0)
        for stage in self.stages:
            stage.look(self.state.clock)

    def drain(self) -> None:
        """The end of the input: every open window closes, every row without a match stands alone."""
        self.look()
        self.frontier.drain()
        self.advance()

    def every_stage(self) -> Iterator[Stage]:
        """All readings, each before those above it."""
        waiting = list(self.stages)
        while waiting:
            stage = waiting.pop(0)
            yield stage
            waiting += stage.above

    def counts(self, name: str) -> Counter[str]:
        """Of an output or of results: (row, window) pairs by verdict; the row of a stage is a source row and the way it took."""
        return next(stage.counts for stage in self.every_stage() if stage.reader.output.name == name)
