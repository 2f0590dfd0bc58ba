"""Panes, late rows and dead letters handed to the sinks; the same batch may be handed over twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from eventide.definition.output import Audit, Output, dead_letter_log, late_log
from eventide.engine.batch.bucket_task import finished_kinds
from eventide.engine.batch.microbatch import BatchResult
from eventide.engine.batch.pairs import pair_shapes, row_kinds
from eventide.engine.batch.runner import Runner
from eventide.engine.batch.staging import deliver_staged, is_large
from eventide.kernel.arrow_types import small, small_schema
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.view import refuse_unanswerable, shown_kinds
from eventide.log import note
from eventide.model.plan import OutputPlan
from eventide.sinks.base import Delivery, LogWriter, PaneWriter, Sink, StagedWriter
from eventide.sinks.retry import failed_tries
from eventide.sinks.shape import PaneShape, named_aside
from eventide.state.store import Store
from eventide.wording import words

LATE_IDENTITY = ("_source", "_lane", "_offset", "_generation")
DEAD_IDENTITY = ("source", "lane", "offset", "generation")
"""The generation is part of it: a run that started over refuses a row for other reasons, and says so anew."""


def pane_shapes(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> dict[str, PaneShape]:
    """The columns of the panes of each output of an aggregation, or of a join; `kinds` are those of its rows."""
    if shape.join is not None:
        return pair_shapes(shape, shape.join, kinds)
    done = finished_kinds(shape, row_kinds(shape, kinds))
    return {output.name: _pane_shape(shape, output, done) for output in shape.plan.outputs}


def _pane_shape(shape: BoundPlan, output: OutputPlan, kinds: dict[str, pl.DataType]) -> PaneShape:
    """The columns of an output's panes, as Arrow types; `kinds` are those of keys and finished aggregates."""
    refuse_unanswerable(shape, output, kinds)
    values = shown_kinds(shape, output, kinds)
    users = {**{key: kinds[key] for key in shape.keys}, **values}
    fields = pl.DataFrame(schema=users).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return PaneShape(
        tuple((name, small(fields.field(name).type)) for name in shape.keys),
        tuple((name, small(fields.field(name).type)) for name in values),
        output.accumulation,
        window=words(shape.plan.window),
    )


class Taken(NamedTuple):
    """What a delivery to the sinks of an output took."""

    seconds: float
    failed: int
    """Tries that failed in this process; executors that deliver themselves count their own."""


@dataclass
class Outlet:
    """One output's open writers."""

    output: Output
    shape: PaneShape
    late_schema: pa.Schema
    panes: PaneWriter | None = None
    late: LogWriter | None = None
    withheld: bool = False
    """Results of another shape stand there, and these wait until they can replace them whole."""


@dataclass
class Deliverer:
    """All writers of a run, opened at the start so that a wrong target is found before anything is read."""

    pipeline: str
    store: Store
    runner: Runner
    """Who stages large deliveries."""
    outlets: dict[str, Outlet] = field(default_factory=dict)
    dead: LogWriter | None = None
    dead_schema: pa.Schema | None = None
    audits: dict[str, LogWriter] = field(default_factory=dict)
    audit_schema: pa.Schema | None = None

    def open(self, output: Output, shape: PaneShape, late_schema: pa.Schema, *, withheld: bool = False) -> None:
        """Open an output's sink, and the sink of its diverted rows."""
        outlet = Outlet(output, shape, small_schema(late_schema), withheld=withheld)
        if output.sink is not None and not withheld:
            outlet.panes = output.sink.open(output.name, shape)
            _opened(output.name, output.sink)
        if output.late.refused is not None and output.late.refused.to is not None:
            identity = tuple(named_aside(name, outlet.late_schema.names) for name in LATE_IDENTITY)
            outlet.late = output.late.refused.to.open_log(late_log(output.name), outlet.late_schema, identity)
            _opened(late_log(output.name), output.late.refused.to)
        self.outlets[output.name] = outlet

    def open_dead(self, sink: Sink | None, schema: pa.Schema) -> None:
        """Open the sink of dead letters."""
        if sink is not None:
            self.dead, self.dead_schema = sink.open_log(dead_letter_log(self.pipeline), schema, DEAD_IDENTITY), schema
            _opened(dead_letter_log(self.pipeline), sink)

    def open_audits(self, audits: Iterable[Audit], schema: pa.Schema) -> None:
        """Open the sinks of the events themselves."""
        self.audit_schema = small_schema(schema)
        identity = tuple(named_aside(name, self.audit_schema.names) for name in LATE_IDENTITY)
        for audit in audits:
            if audit.sink is not None:
                self.audits[audit.name] = audit.sink.open_log(audit.name, self.audit_schema, identity)
                _opened(audit.name, audit.sink)

    def deliver(
        self,
        result: BatchResult,
        clock: int,
        before_each: Callable[[], None] = lambda: None,
        after_each: Callable[[], None] = lambda: None,
    ) -> dict[str, Taken]:
        """Hand everything over; raises if a sink does not take it, and the batch is then not committed. Says what it took, by output."""
        taken = {}
        for name, outlet in self.outlets.items():
            before_each()
            facts, begun, failed = self.facts(name, result, clock), time.monotonic(), failed_tries.count
            self._deliver_panes(outlet, result.panes[name], facts)
            if outlet.late is not None and result.late[name]:
                outlet.late.append(self.store.batches(result.late[name], outlet.late_schema), facts)
            taken[name] = Taken(round(time.monotonic() - begun, 6), failed_tries.count - failed)
            note(
                __name__,
                "delivered",
                output=name,
                batch=facts.batch,
                panes=len(result.panes[name]),
                late=len(result.late[name]),
            )
            after_each()
        for name, writer in self.audits.items() if result.audited else ():
            before_each()
            writer.append(self.store.batches(result.audited, self.audit_schema), self.facts(name, result, clock))
            note(__name__, "events delivered", output=name, batch=result.ledger.batch, files=len(result.audited))
            after_each()
        before_each()
        if self.dead is not None and result.dead:
            self.dead.append(self.store.batches(result.dead, self.dead_schema), self.facts("dead_letters", result, clock))
        return taken

    def facts(self, name: str, result: BatchResult, clock: int) -> Delivery:
        """What a sink is told of a delivery."""
        return Delivery(self.pipeline, name, result.ledger.batch, clock, result.ledger.frontier.watermark)

    def _deliver_panes(self, outlet: Outlet, files: list[str], facts: Delivery) -> None:
        """From the executors where the sink allows it and it pays, otherwise through this process."""
        writer, schema = outlet.panes, outlet.shape.schema
        if isinstance(writer, StagedWriter) and is_large(writer, self.store, files):
            deliver_staged(writer, self.runner, self.store, files, schema, facts)
        elif writer is not None:
            writer.deliver(self.store.batches(files, schema), facts)

    def close(self) -> None:
        """Close every writer, also where one of them cannot be closed; that is told then."""
        with ExitStack() as stack:
            for writer in (
                self.dead,
                *self.audits.values(),
                *(w for outlet in self.outlets.values() for w in (outlet.late, outlet.panes)),
            ):
                if writer is not None:
                    stack.callback(writer.close)


def _opened(name: str, sink: Sink) -> None:
    note(__name__, "sink opened", output=name, sink=type(sink).__name__)
