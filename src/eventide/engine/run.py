"""A pipeline at work: Structured Streaming drives batches, each of which is begun, read, advanced, settled, delivered, committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.beginning import Beginning
from eventide.engine.batch.deliver import Deliverer, Taken, pane_shapes
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.microbatch import BatchInput, BatchResult, Engine
from eventide.engine.batch.read import BatchScan
from eventide.engine.batch.rows import placed_rows
from eventide.engine.batch.runner import SparkRunner
from eventide.engine.batch.tracing import Stages, Tracer
from eventide.engine.bound import bound
from eventide.engine.changes import (
    check_definition,
    describe_definition,
    digest,
    finished,
    refuse_older,
    refuse_unfinished,
)
from eventide.engine.cleaning import PEOPLES, spared
from eventide.engine.feeds.feed import Sight
from eventide.engine.feeds.frame import warn_of_batches
from eventide.engine.feeds.joined import join_plan
from eventide.engine.feeds.landed import LandedFile, in_order
from eventide.engine.feeds.observer import tell
from eventide.engine.feeds.opened import open_feed
from eventide.engine.feeds.projection import common_kinds
from eventide.engine.feeds.union import places, union_of
from eventide.engine.following import Follower, followed
from eventide.engine.gate import Gate
from eventide.engine.leftovers import clear_leftovers, clear_tries
from eventide.engine.mending import prepare, refuse_other_generations
from eventide.engine.report import BatchReport, report
from eventide.engine.s3a import refuse_without_s3a, spark_address
from eventide.engine.spark_notes import SparkNotes
from eventide.engine.spark_session import keep_classes, refuse_connect
from eventide.engine.succession import Succession, first_facts, noted_shapes
from eventide.engine.wholeness import lost_beginnings
from eventide.engine.witnesses import settle
from eventide.errors import beneath
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.place import AUDITED, DEAD_LETTERS, LATE, REFUSED, Shown, arrow_schema
from eventide.log import note
from eventide.model.event import LaneId
from eventide.model.time import duration
from eventide.sinks.base import TableSink
from eventide.sinks.shape import PaneShape
from eventide.state.generations import NONE, note_waiting, refuse_outranked
from eventide.state.holds import Holds
from eventide.state.journal import Journal, JournalError
from eventide.state.lease import Lease
from eventide.state.ledger import Ledger
from eventide.state.records import proven_files
from eventide.state.retention import Retention, retention_of, retire
from eventide.state.store import Store
from eventide.state.trace import compact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Hook = Callable[[str], None]
"""Called at named points of a batch; tests kill the process there."""


def no_hook(point: str) -> None:
    """Do nothing."""


@dataclass
class Run:
    """One run of a pipeline on one state directory."""

    pipeline: Pipeline
    spark: SparkSession
    state: str
    hook: Hook = no_hook
    clock: Callable[[], int] = lambda: time.time_ns() // 1000
    on_progress: Callable[[BatchReport], None] | None = None
    workers: Callable[[], None] = lambda: None
    """Asked before a batch is read: raises why the workers cannot do their part."""
    gate: Gate = field(default_factory=Gate)
    query: StreamingQuery | None = None
    numbered: Callable[[dict[str, PaneShape]], int] | None = None
    """Gives a fresh state its generation, by the shapes of its outputs; without it, it is the next above all that stand."""
    followers: Sequence[Follower] = ()
    """Told of it, batch by batch."""
    progress: BatchReport | None = field(default=None, init=False)
    """The account of the last committed batch, an earlier run's too; None before the first."""

    def open(self) -> None:
        """Check everything that can be checked before the first row: lease, journal, definition, sources, targets."""
        refuse_connect(self.spark)
        files = proven_files(self.state)
        self.journal, self.notes = Journal(files), SparkNotes(files)
        refuse_older(self.journal.definition(), self.state)
        self.lease = Lease.take(files, self.state)
        self.store = Store(self.state, self.lease.attempt)
        try:
            self._open()
        except BaseException as error:
            with beneath(error):
                self.lease.release()
            raise

    def _open(self) -> None:
        definition = self.pipeline
        prepare(definition.sources)
        self.feeds = [open_feed(self.spark, i, s) for i, s in enumerate(definition.sources)]
        self.kinds = common_kinds(self.feeds, definition)
        stored, last = self.journal.definition(), self.journal.last()
        self._known = self.journal.definitions
        lanes = {f.source.name: list(f.known_lanes()) for f in self.feeds}
        mine = describe_definition(definition, self.kinds, lanes, definition.buckets or self._parallelism())
        if definition.join is not None:
            mine["sides"] = {side.name: list(side.columns) for side in join_plan(definition.join, self.feeds).sides}
        before = self.journal.ledger() or Ledger()
        mine |= self._among_generations(mine, stored)
        facts = check_definition(stored, mine, self.state, before.batch, before.waiting)
        self.definition, self.digest = facts, digest(facts)
        self._check_same(before.sources)
        self.generation = facts["generation"]
        refuse_other_generations(definition.sources, self.generation)
        self.shape = self._shape(facts)
        diverts = tuple(definition.output(o.name).late.refused is not None for o in self.shape.outputs)
        self.engine = Engine(self.shape, self.kinds, diverts, self.store, SparkRunner(self.spark))
        self.scan = BatchScan(definition, self.spark, self.feeds, self.engine, tuple(self.kinds))
        self.ledger = before if last else self.engine.first_ledger()
        self.resumed_at = self.ledger.batch
        self.ledger.seat([output.name for output in definition.outputs], self.shape.reads)
        self.last_clock = last["clock"] if last else 0
        self.succession = Succession.of(facts, self.state, self.store, self.feeds)
        self.held: dict[LaneId, str] = {}
        self.retimed: dict[int, dict[str, int]] = {}
        self.holds = Holds.from_json((last or {}).get("holds"))
        self.progress = None if last is None else report(self, {})
        self.tracer = Tracer(self.store, self.ledger)
        self.retention = retention_of(last, self.journal.files)
        self._settle_witnesses()
        self._defined, self._cleared = False, False
        if last is not None and last.get("drained"):
            self._clear_leftovers()
            self._open_sinks()  # a run that was killed after its last commit may have left them to be brought up to date
            self.deliverer.close()
            raise finished(self.state)
        self._open_sinks()
        if stored is None:
            if facts["withheld"]:
                note_waiting(self.state, self.generation)
            self._define()
        self._claim_sinks()
        if self.lease.alone:
            begun = self.journal.begun(self.ledger.batch + 1) is not None
            clear_tries(self.pipeline, self.store, self.generation, self.ledger, begun)
        note(__name__, "run opened", pipeline=definition.name, state=self.state, generation=self.generation, batch=before.batch)
        for follower in self.followers:
            follower.opened(self)

    def _among_generations(self, mine: dict[str, Any], stored: dict[str, Any] | None) -> dict[str, Any]:
        """What a definition says of the generations before it; asked before anything is opened for writing."""
        outputs = self.pipeline.outputs
        shape = self._shape(mine)
        rows = [(one, self.kinds) for one in shape.every] + [(stage.shape, dict(stage.kinds)) for stage in shape.stages]
        self.shapes = {name: shape for one, kinds in rows for name, shape in pane_shapes(one, kinds).items()}
        if stored is not None:
            refuse_outranked(outputs, self.shapes, stored["generation"], self.journal.files, self.state)
            return {"shapes": noted_shapes(self.shapes)}
        begun = first_facts(self.pipeline, self.shapes, self.journal.files, self.state)
        asked = {"generation": self.numbered(self.shapes)} if self.numbered else {}
        lost = {} if begun["before"] == NONE else lost_beginnings(self.feeds, self.state)
        return {**begun, **asked, "lost": lost, "shapes": noted_shapes(self.shapes), "began": self.clock()}

    def _shape(self, facts: dict[str, Any]) -> BoundPlan:
        return bound(self.pipeline, self.feeds, self.kinds, self.store, facts)

    def _parallelism(self) -> int:
        return max(1, min(int(self.spark.sparkContext.defaultParallelism), 64))

    def _open_sinks(self) -> None:
        self.deliverer = Deliverer(self.pipeline.name, self.store, self.engine.runner)
        waiting = {*self.definition["withheld"]} - {*self.ledger.settled}
        for output in self.pipeline.outputs:
            late = _row_schema(self.kinds, LATE)
            self.deliverer.open(output, self.shapes[output.name], late, withheld=output.name in waiting)
        self.deliverer.open_audits(self.pipeline.audits, _row_schema(self.kinds, AUDITED))
        self.deliverer.open_dead(self.pipeline.dead_letter_sink, arrow_schema(DEAD_LETTERS))

    def _claim_sinks(self) -> None:
        """Sinks note the generation before its first result, once the state has noted it."""
        for name, outlet in self.deliverer.outlets.items():
            if isinstance(outlet.output.sink, TableSink) and not outlet.withheld:
                outlet.output.sink.claim(name, outlet.shape, self.generation)

    def start(self, *, available_now: bool = False, interval: str = "1 second") -> StreamingQuery:
        """Start Spark's query; gives it."""
        every = (
            duration(interval, what="the interval", zero=True) // 1000
        )  # not as Spark reads spans: it knows other words for them
        refuse_without_s3a(self.spark, self.state)
        self._check_checkpoint()
        warn_of_batches(self.feeds)
        union = union_of(self.spark, self.feeds)
        checkpoint = spark_address(self.spark, self.store.url("checkpoint"))
        writer = union.writeStream.foreachBatch(self._on_batch).option("checkpointLocation", checkpoint)
        writer = writer.queryName(f"eventide {self.pipeline.name}")
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=f"{every} milliseconds")
        self.query = writer.start()
        return self.query

    def is_ending(self, drain: bool) -> bool:
        """Whether an earlier run died while it delivered the end of the input: then that is all that is left to do."""
        begun = self.journal.begun(self.ledger.batch + 1)
        if begun is None or not begun["drain"]:
            return False
        refuse_unfinished(drain, self.state)
        return True

    def in_sight(self) -> dict[int, Sight]:
        """What there is to be read of each source now."""
        return {feed.index: feed.in_sight() for feed in self.feeds}

    def unread(self, seen: dict[int, Sight]) -> list[str]:
        """The sources of which not all that was in sight has been read in the committed batches."""
        where = places(self.feeds)
        noted = {feed.index: self.notes.of(where.get(feed.index), self.ledger.batch) for feed in self.feeds}
        return [feed.source.name for feed in self.feeds if not feed.has_read(seen[feed.index], noted[feed.index])]

    def drain(self) -> BatchResult:
        """The end of the input: a last batch without rows, which closes every window. The state is finished with it."""
        return self.batch(None, self.ledger.batch + 1, drain=True)

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        with self.gate.batch(lambda: self.query is not None and not self.query.isActive):
            self._next_batch(frame, number)

    def _next_batch(self, frame: DataFrame, number: int) -> None:
        if number <= self.ledger.batch:
            return
        if number > self.ledger.batch + 1:
            raise JournalError(
                f"Spark goes on with batch {number}, but the newest commit in {self.state}/journal is of batch {self.ledger.batch}: the "
                "records between are missing, and their rows would be lost. Nothing was overwritten. Restore the journal from a copy, or "
                "start over with a new generation: eventide run FILE --start-over."
            )
        self.workers()
        self.batch(frame, number)

    def _check_checkpoint(self) -> None:
        """Spark must remember at least as many batches as we do, or it would read again what was read, and we skip what is new."""
        noted = [int(name) for name in self.journal.files.names("checkpoint/offsets") if name.isdigit()]
        if max(noted, default=-1) < self.ledger.batch:
            raise JournalError(
                f"the journal in {self.state} has committed batch {self.ledger.batch}, but Spark's checkpoint beside it remembers "
                f"{'none' if not noted else f'only up to {max(noted)}'}. Nothing was overwritten. Restore {self.state}/checkpoint, or start "
                "over with a new generation: eventide run FILE --start-over."
            )

    def batch(self, frame: DataFrame | None, number: int, *, drain: bool = False) -> BatchResult:
        """One micro-batch from begin to commit."""
        with followed(self, number) as told:
            result = self._batch(frame, number, drain, Stages(told=told.stage))
            self.progress = report(self, result.panes)
            told.committed(self.progress)
        if self.on_progress is not None:
            self.on_progress(self.progress)
        return result

    def _batch(self, frame: DataFrame | None, number: int, drain: bool, stages: Stages) -> BatchResult:
        self.lease.check()
        was = self.ledger.rows["in"]
        begun = self.journal.begun(number)
        beginning = self._begin(frame, number, drain, begun)
        self.hook(stages.end("begin"))
        accounts, beginning = self._read(frame, number, beginning, again=begun is not None)
        self.hook(stages.end("scan"))
        result = self.engine.process(self.ledger, _input(number, beginning, accounts, self.ledger))
        self.hook(stages.end("store"))
        if begun is None:
            self.lease.check()
            self._define()
            self.journal.begin(number, beginning.to_json())
        self.hook(stages.end("begun"))
        taken = self._deliver(result, beginning.clock)
        self.hook(stages.end("deliver"))
        tell(self.pipeline, number, ((a.lane[0], a.observed) for a in accounts))
        self.lease.check()
        holds = Holds.of(result.ledger.frontier, beginning.clock, self.held, self.holds)
        self.tracer.note(result, beginning.clock, holds, stages, taken, accounts)
        kept = self.retention.after(number, beginning.clock, self.pipeline.keeps_for)
        facts = {"clock": beginning.clock, "drained": beginning.drain, "holds": holds.to_json(), "kept": kept.to_json()}
        self.journal.commit(result.ledger, facts)
        self.hook(stages.end("commit"))
        self.ledger, self.last_clock, self.holds = result.ledger, beginning.clock, holds
        self._evict(result)
        self._retire(kept)
        self.hook(stages.end("evict"))
        self._clear_leftovers()
        self.journal.tidy(number)
        compact(self.store, self.ledger)
        self._settle_witnesses([path for account in accounts for path in account.archived])
        rows = result.ledger.rows["in"] - was
        note(
            __name__,
            "batch committed",
            batch=number,
            rows=rows,
            watermark=self.ledger.frontier.watermark,
            again=begun is not None,
        )
        return result

    def _define(self) -> None:
        """A changed definition holds from the first batch on that it decides: until then nothing has come of it."""
        if not self._defined:
            self.journal.define(self.definition, self._known)
            self._defined = True

    def _begin(self, frame: DataFrame | None, number: int, drain: bool, begun: dict[str, Any] | None) -> Beginning:
        """What decides the batch: as it was begun by an earlier try that may have delivered something, or else as things stand now."""
        read = self.feeds if frame is not None else []  # the end of the input brings no rows
        where = places(self.feeds)
        offsets = self.notes.offsets(number) if frame is not None else []
        notes = {feed.index: self.notes.of(where.get(feed.index), number, offsets) for feed in read}
        landed = self.scan.landed(frame, notes) if frame is not None else {}
        if begun is not None:
            beginning = Beginning.from_json(begun)
            beginning.check_again(number, self.digest, offsets, landed)
            self.retimed = {f.index: f.retimed(beginning.landed.get(f.index, []), landed.get(f.index, [])) for f in read}
            self._check_same(beginning.memory)
            return beginning
        clock = max(self.clock(), self.last_clock)
        reached = [(f, f.reach(self.ledger, notes[f.index], landed.get(f.index, []), clock)) for f in read]
        self.held = {(feed.index, lane): why for feed, reach in reached for lane, why in reach.held.items()}
        return Beginning(
            clock,
            self.generation,
            self.digest,
            offsets,
            landed | {f.index: in_order(landed[f.index] + reach.unreadable) for f, reach in reached if reach.unreadable},
            frozenset(lane for _, reach in reached for lane in reach.lanes),
            frozenset(lane for _, reach in reached for lane in reach.at_end or ()),
            frozenset(feed.index for feed, reach in reached if reach.at_end is None),
            {feed.source.name: reach.memory for feed, reach in reached if reach.memory},
            drain,
            {lane: to for _, reach in reached for lane, to in reach.read_to.items()},
        )

    def _check_same(self, memory: dict[str, Any]) -> None:
        for feed in self.feeds:
            feed.check_same(memory.get(feed.source.name, {}))

    def _read(
        self, frame: DataFrame | None, number: int, beginning: Beginning, *, again: bool
    ) -> tuple[list[LaneAccount], Beginning]:
        """The accounts of the lanes, and what decides the batch with the files in it that could not be read."""
        if frame is None:
            return [], beginning
        accounts, landed = self.scan(frame, number, beginning.clock, self.ledger, beginning.landed)
        return accounts, self._as_read(number, beginning, landed, accounts, again)

    def _as_read(
        self, number: int, beginning: Beginning, landed: dict[int, list[LandedFile]], accounts: list[LaneAccount], again: bool
    ) -> Beginning:
        """What files hold, and which are dead letters, decides the batch as well: known once they were read, written down before anybody hears of it."""
        contents = {account.lane: account.content for account in accounts if account.content}
        counts = {account.lane: (account.counts.get("in", 0), account.counts.get("dead", 0)) for account in accounts}
        if again:
            beginning.check_faults(number, landed)
            beginning.check_contents(number, self.retimed, contents)
            beginning.check_counts(number, counts)
            return beginning
        for feed in self.feeds:
            feed.refuse_bad(landed.get(feed.index, []))
        return replace(beginning, landed=landed, contents=contents, counts=counts)

    def _settle_witnesses(self, written: list[str] | None = None) -> None:
        if self.shape.witnesses is not None:
            settle(self.pipeline, self.store, self.generation, self.ledger, written)

    def _deliver(self, result: BatchResult, clock: int) -> dict[str, Taken]:
        taken = self.deliverer.deliver(result, clock, self.lease.check, lambda: self.hook("between sinks"))
        if self.succession is not None:
            self.succession.settle(self.deliverer, result, clock, self._settling)
        return taken

    def _settling(self) -> None:
        self.lease.check()
        self.hook("settling")

    def _evict(self, result: BatchResult) -> None:
        """Remove what nothing refers to any more, and directories with it; what a crash leaves over goes at the next start."""
        live = {p.path.rpartition("/")[0] for p in result.ledger.parts}
        empty = {path.rpartition("/")[0] for path in result.garbage} - live
        self.store.evict(result.garbage, empty, lambda: self.hook("evicting"))

    def _retire(self, kept: Retention) -> None:
        """Remove what people had their time to read; not panes by which results are yet to be taken back, here or by a later generation."""
        if kept.removed > self.retention.removed:
            retire(self.store, kept.removed, PEOPLES, spared(self.pipeline, self.ledger, self.succession is not None))
        self.retention = kept

    def _clear_leftovers(self) -> None:
        """What runs before this one have left of the batches that are committed now: once, and not before a commit of our own."""
        if not self._cleared:
            clear_leftovers(self.pipeline, self.store, self.generation, self.ledger)
            self._cleared, self.lease.alone = True, True

    def close(self, fault: BaseException | None = None) -> None:
        """Let go of sinks and of the state directory; those who follow are told what killed the run, if something did."""
        note(__name__, "run closed", pipeline=self.pipeline.name, state=self.state)
        try:
            self.deliverer.close()
        finally:
            self.lease.release()
            for follower in self.followers:
                follower.closed(self, fault)
        if self.ledger.batch > self.resumed_at:
            keep_classes()


def _input(number: int, beginning: Beginning, accounts: list[LaneAccount], ledger: Ledger) -> BatchInput:
    """A source that cannot tell how far it was read is taken to have been read up to the clock."""
    heard = {*beginning.lanes, *ledger.carries, *(a.lane for a in accounts), *ledger.frontier.lanes}
    at_end = beginning.at_end | {lane for lane in heard if lane[0] in beginning.unsure}
    return BatchInput(
        number, beginning.clock, accounts, at_end, beginning.lanes, beginning.drain, beginning.memory, beginning.read_to
    )


def _row_schema(kinds: dict[str, pl.DataType], shown: tuple[Shown, ...]) -> pa.Schema:
    empty = placed_rows(pl.DataFrame(schema={**kinds, **REFUSED}), 0, shown)
    return empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
