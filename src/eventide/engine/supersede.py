"""A backfill into live sinks: its results take the place of those that are final in the live run, which goes on under its own generation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.run import Run
from eventide.engine.succession import reach_of
from eventide.errors import DefinitionError
from eventide.model.policy import DISCARDING
from eventide.model.time import MAX_TIME, plus
from eventide.model.window import Session
from eventide.sinks.base import Delivery, Sink, Span, TableSink
from eventide.sinks.shape import PaneShape
from eventide.state.generations import NONE, of_states, standing, take
from eventide.state.ledger import Ledger
from eventide.state.results import Results, keep_backfilled, told_by, withdrawals
from eventide.state.state import State, committed_files


@dataclass(frozen=True)
class Superseding:
    """The live run as it stood when the backfill began: what is final then is final for ever."""

    pipeline: Pipeline
    state: State
    facts: dict[str, Any]
    ledger: Ledger
    from_archive: bool
    outputs: tuple[Output, ...]
    """Those whose sinks hear of it."""

    @classmethod
    def of(cls, pipeline: Pipeline, *, from_archive: bool, only: Iterable[str] | None = None) -> Superseding:
        """Look at the live run; one that has not caught up yet has nothing to be superseded. `only`: the names of some outputs."""
        outputs = _asked(pipeline, only)
        state = None if pipeline.state is None else State.of(pipeline)
        facts, ledger = (None, None) if state is None else (state.definition, state.committed)
        if state is None or facts is None or ledger is None:
            raise DefinitionError(
                f"pipeline {pipeline.name!r} has no live run whose results a backfill could replace: nothing is committed in {pipeline.state}. "
                "Run it first, or leave deliver=True away and read the backfill's own tables."
            )
        waiting = sorted({o.name for o in outputs} & {*facts["withheld"]} - {*ledger.settled})
        if waiting:
            raise DefinitionError(
                f"generation {facts['generation']} of pipeline {pipeline.name!r} has not caught up yet, so that readers of {', '.join(waiting)} see "
                "an older one of another shape. Let it catch up first: eventide run FILE --until-caught-up."
            )
        return cls(pipeline, state, facts, ledger, from_archive, outputs)

    def take(self, shapes: dict[str, PaneShape]) -> int:
        """A generation above all that stand, written down in the live state before anything is delivered."""
        held = standing(self.pipeline.outputs, shapes)
        known = [NONE, self.facts["generation"], of_states(self.state.files, self.state.path)]
        return take(self.state.files, max([*known, *(stands.generation for stands in held.values())]))

    def deliver(self, run: Run) -> None:
        """Hand over the results of windows that are final in the live run, and withdraw what it holds of them beside these."""
        self._refuse_part_of_an_archive(run.ledger.rows["in"])
        for output in self.outputs:
            mark = self.ledger.frontier.watermark
            if output.sink is None or mark is None:
                continue
            around = reach_of(output)
            final = None if mark == MAX_TIME else plus(mark, -output.late.allowed - around)
            files = tuple(committed_files(run.store, f"panes/{output.name}", run.ledger))
            own = Results(run.store, files, run.shapes[output.name], final, looked_from=run.ledger.looked_from.get(output.name))
            # A pair's other row may lie before the history; one that stood alone lies before the pair that it is in now.
            if around:
                own = own.beginning(-around if self.from_archive else around)
            delivery = Delivery(self.pipeline.name, output.name, run.ledger.batch, run.last_clock, mark)
            self._deliver(output.sink, own, run.generation, delivery)

    def _refuse_part_of_an_archive(self, rows: int) -> None:
        heard = self.ledger.rows["in"]
        if self.from_archive and rows < heard:
            raise DefinitionError(
                f"the archive holds {rows:,} of the {heard:,} rows that the live run has read (it was added later, or old files were removed): "
                "windows that it has only parts of would replace whole ones. Nothing was delivered. Pass a history that is whole: "
                "pipeline.backfill(history, deliver=True)."
            )

    def _deliver(self, sink: Sink, own: Results, generation: int, delivery: Delivery) -> None:
        name, shape = delivery.output, own.shape
        span = Span(own.first_start(), own.until)
        if span.low is None:
            return  # no window of the history is final
        writer = sink.open(name, shape)
        try:
            if isinstance(sink, TableSink):
                sink.claim(name, shape, generation)
                writer.deliver(own.inserts(), delivery)
                sink.withdraw(name, shape, generation, span)
            else:
                store = self.state.store
                live = told_by(store, name, committed_files(store, f"panes/{name}", self.ledger), shape)
                gone = list(withdrawals(live, generation, span, own.windows()))
                keep_backfilled(store, name, generation, own)
                writer.deliver(own.inserts(), delivery)
                writer.deliver(gone, delivery)
        finally:
            writer.close()


def _asked(pipeline: Pipeline, only: Iterable[str] | None) -> tuple[Output, ...]:
    """The outputs that a backfill is to be delivered to; those whose windows cannot be replaced one by one are refused."""
    known = {output.name: output for output in pipeline.outputs}
    names = [*known] if only is None else list(only)
    missing = [name for name in names if name not in known]
    if missing:
        raise DefinitionError(f"pipeline {pipeline.name!r} has no output {', '.join(missing)}; it has {', '.join(known)}.")
    asked = tuple(known[name] for name in names)
    mute = [] if only is None else [o.name for o in asked if o.sink is None]
    if mute:
        raise DefinitionError(
            f"output {', '.join(mute)} of pipeline {pipeline.name!r} has no sink that a backfill could be delivered to. Give it one, .to(name, sink), or "
            f"name outputs that have one: deliver=[{', '.join(repr(n) for n, o in known.items() if o.sink is not None) or '…'}]."
        )
    deltas = [o for o in asked if o.sink is not None and o.accumulation == DISCARDING]
    spread = [o.name for o in deltas if isinstance(o.aggregation.window, Session)]
    if spread:
        raise DefinitionError(
            f"output {', '.join(spread)} of pipeline {pipeline.name!r} holds what each pane added to a session, and a session that grew has left what it "
            "had said under its older bounds: replacing those that are final would lose or double rows of those that are not. Deliver to the others, "
            f"deliver=[{', '.join(repr(n) for n in names if n not in spread) or '…'}], or compute everything again: eventide run FILE --start-over."
        )
    return asked
