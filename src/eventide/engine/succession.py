"""A generation that takes the place of those before it, once it has caught up.

Where the shape is the same, its results outrank the older ones window by window; when it has caught up, what the older ones hold inside the span
that it has read whole, and it does not, is withdrawn. Results of another shape are held back and then shown instead of all that stood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.deliver import Deliverer, Outlet
from eventide.engine.batch.microbatch import BatchResult
from eventide.engine.feeds.feed import Feed
from eventide.engine.wholeness import whole_from
from eventide.log import note
from eventide.model.event import end_of
from eventide.model.time import MAX_TIME, plus
from eventide.model.window import Sliding
from eventide.sinks.base import Delivery, Held, Sink, Span, TableSink
from eventide.sinks.shape import PaneShape
from eventide.state.archive import newest_generation
from eventide.state.generations import NONE, fits, of_states, standing
from eventide.state.ledger import Ledger
from eventide.state.results import Results, earlier, withdrawals
from eventide.state.state import committed_files
from eventide.state.store import Store
from eventide.storage.files import RecordFiles


@dataclass
class Succession:
    """One generation on its way into the place of others."""

    state: str
    store: Store
    generation: int
    began: int
    """The clock when the generation began: it has caught up when it has swept all that had arrived by then."""
    feeds: list[Feed] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)
    """For each source the lanes that had lost their beginning when the generation began."""
    withdrawn: dict[str, int] = field(default_factory=dict)
    """For outputs whose older results end later: W when they were last withdrawn."""

    @classmethod
    def of(cls, facts: dict[str, Any], state: str, store: Store, feeds: list[Feed]) -> Succession | None:
        """None: nothing came before."""
        if facts["before"] == NONE:
            return None
        return cls(state, store, facts["generation"], facts["began"], feeds, facts["lost"])

    def settle(self, deliverer: Deliverer, result: BatchResult, clock: int, check: Callable[[], None]) -> None:
        """After a batch was delivered, before it is committed: run again, it does the same again."""
        ledger = result.ledger
        if ledger.swept is None or ledger.swept < end_of(self.began):
            return
        whole = whole_from(self.feeds, self.lost, ledger)
        for name, outlet in deliverer.outlets.items():
            if outlet.output.sink is None or name in ledger.settled or name in ledger.joined_at:
                continue
            check()
            delivery = deliverer.facts(name, result, clock)
            files = [*committed_files(self.store, f"panes/{name}", _before(ledger)), *result.panes[name]]
            own = Results(self.store, tuple(files), outlet.shape, looked_from=ledger.looked_from.get(name))
            if outlet.withheld:
                self._replace(outlet, own, delivery)
                ledger.settled.append(name)
            elif (
                (ledger.outputs[name]["panes"] or own.looked_from is not None)
                and self._due(outlet.output, ledger)
                and not self._withdraw(outlet, own, delivery, whole)
            ):
                ledger.settled.append(name)

    def _replace(self, outlet: Outlet, own: Results, delivery: Delivery) -> None:
        """Readers see these results instead of all that stood; sinks that cannot be asked get a retract for each of those first."""
        sink, name = outlet.output.sink, outlet.output.name
        assert sink is not None  # who has none is passed over
        if isinstance(sink, TableSink):
            sink.replace(name, outlet.shape, self.generation, own, delivery)
            outlet.panes = sink.open(name, outlet.shape)
        else:
            for older in earlier(self.state, name):
                self._tell(sink, older.results, Span(), set(), delivery)
            outlet.panes = sink.open(name, outlet.shape)
            outlet.panes.deliver(own.inserts(), delivery)
        outlet.withheld = False
        note(__name__, "results replaced", output=name, generation=self.generation)

    def _due(self, output: Output, ledger: Ledger) -> bool:
        """Whether W has passed the end of a window since older results were last withdrawn."""
        window, mark, last = output.aggregation.grid, ledger.frontier.watermark, self.withdrawn.get(output.name)
        if mark is None or last is None:
            return mark is not None
        return window.floor_end(mark) > window.floor_end(last) if isinstance(window, Sliding) else mark > last

    def _withdraw(self, outlet: Outlet, own: Results, delivery: Delivery, whole: int) -> bool:
        """Withdraw older results of windows that have closed here with nothing in them; says whether there are later ones."""
        sink, name, mark = outlet.output.sink, outlet.output.name, delivery.watermark
        assert sink is not None
        first = own.first_start()
        around = reach_of(outlet.output)
        low = plus(whole, outlet.output.aggregation.reach)
        span = Span(
            low if first is None else max(low, first), None if mark is None or mark == MAX_TIME else plus(mark, -around)
        )
        if isinstance(sink, TableSink):
            more = sink.withdraw(name, outlet.shape, self.generation, span)
        else:
            windows = own.windows()
            told = [self._tell(sink, older.results, span, windows, delivery) for older in earlier(self.state, name)]
            more = any(told)
        self.withdrawn[name] = mark or 0
        return more

    def _tell(self, sink: Sink, older: Results, span: Span, kept: set[str], delivery: Delivery) -> bool:
        """Send a retract for each older result inside a span; says whether there are such results in windows that end later."""
        writer = sink.open(delivery.output, older.shape)
        try:
            # Without W: it would vouch for results that follow these retracts.
            writer.deliver(withdrawals(older, self.generation, span, kept), replace(delivery, watermark=None))
        finally:
            writer.close()
        told, all_of_them = (
            sum(batch.num_rows for batch in withdrawals(older, self.generation, part, kept)) for part in (span, Span(span.low))
        )
        return all_of_them > told


def reach_of(output: Output) -> int:
    """How far before and after its own time what a result is made of may lie: of windows nowhere, a pair's other row so far away.

    A row without a match is stated so long after its time, and a pair may have one row before all that was read whole.
    """
    join = output.aggregation.joined
    return 0 if join is None else join.reach


def first_facts(pipeline: Pipeline, shapes: dict[str, PaneShape], files: RecordFiles, state: str) -> dict[str, Any]:
    """The generation of a fresh state, above all that stand in sinks, in states set aside and in the archive, which keeps each by its number.

    And which outputs wait to replace what stands in their sinks.
    """
    held = standing(pipeline.outputs, shapes)
    before = max([of_states(files, state), *(stands.generation for stands in held.values())])
    withheld = [o.name for o in pipeline.outputs if not _goes_on(o, shapes[o.name], held.get(o.name), state)]
    archived = NONE if pipeline.archive is None else newest_generation(pipeline.archive)
    return {"generation": max(pipeline.generation, before + 1, archived + 1), "before": before, "withheld": withheld}


def noted_shapes(shapes: dict[str, PaneShape]) -> dict[str, Any]:
    """What a state notes of its outputs' shapes, for the generation after it."""
    return {name: {"signature": shape.signature, "accumulation": shape.accumulation} for name, shape in shapes.items()}


def _goes_on(output: Output, shape: PaneShape, held: Held | None, state: str) -> bool:
    """Whether an output's results may stand beside those of the generations before it."""
    if output.sink is None:
        return True
    older = next(earlier(state, output.name), None)
    if isinstance(output.sink, TableSink) and (held is None or held.signature or older is None):
        return fits(output, shape, held)
    return older is None or older.is_like(shape, repr(output.aggregation.grid))


def _before(ledger: Ledger) -> Ledger:
    """The batches that were committed before the one at work."""
    return Ledger(batch=ledger.batch - 1, attempts=ledger.attempts)
