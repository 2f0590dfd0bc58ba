"""A pipeline at work: Structured Streaming drives batches, each of which is begun, read, advanced, settled, delivered, committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.engine.changes import check_definition, describe_definition
from eventide.engine.deliver import Deliverer, pane_shape
from eventide.engine.feed import MODIFIED, PATH, FileFeed, KafkaFeed, open_feed, parse_offsets, placed
from eventide.engine.filereading import LandedFile, chunks_of
from eventide.engine.journal import Journal, JournalError
from eventide.engine.lease import Lease
from eventide.engine.ledger import Ledger
from eventide.engine.microbatch import BatchInput, BatchResult, Engine
from eventide.engine.observing import tell
from eventide.engine.progress import Progress as ProgressReport
from eventide.engine.progress import report
from eventide.engine.projection import computed_with, only_measured
from eventide.engine.records import record_files
from eventide.engine.rowscan import RowScan
from eventide.engine.runner import SparkRunner
from eventide.engine.scanning import LaneAccount, scan_lane
from eventide.engine.session import refuse_connect
from eventide.engine.settling import finished_kinds, late_rows
from eventide.engine.store import Store
from eventide.engine.watch import settle, watch_of
from eventide.errors import DefinitionError
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, SEEN, SOURCE, TIME, Shape
from eventide.kernel.scan import LaneCarry
from eventide.measure.live import LATENESS
from eventide.model.event import LaneId
from eventide.model.plan import Plan
from eventide.sinks.shape import INSTANT

Hook = Callable[[str], None]
"""Called at named points of a batch; tests kill the process there."""


def no_hook(point: str) -> None:
    """Do nothing."""


@dataclass
class Run:
    """One run of a pipeline on one state directory."""

    pipeline: Any
    spark: Any
    state: str
    hook: Hook = no_hook
    clock: Callable[[], int] = lambda: time.time_ns() // 1000
    on_progress: Callable[[ProgressReport], None] | None = None

    def open(self) -> None:
        """Check everything that can be checked before the first row: lease, journal, definition, sources, targets."""
        refuse_connect(self.spark)
        files = record_files(self.state, self.spark)
        self.journal, self.store = Journal(files), Store(self.state)
        self.lease = Lease.take(files, self.state)
        try:
            self._open()
        except BaseException:
            self.lease.release()
            raise

    def _open(self) -> None:
        definition = self.pipeline
        self.feeds = [open_feed(self.spark, i, s) for i, s in enumerate(definition.aggregation.stream.sources)]
        self.kinds = self._common_kinds()
        facts = self.journal.definition()
        lanes = {f.source.name: list(f.known_lanes()) for f in self.feeds}
        mine = describe_definition(definition, self.kinds, lanes, definition.buckets or self._parallelism())
        facts = check_definition(facts, mine, self.state)
        last = self.journal.last()
        self.generation = facts["generation"]
        plan = self._plan(facts)
        self.shape = Shape(
            plan,
            definition.aggregation.keys,
            definition.aggregation.stream.dedupe_keys,
            facts["buckets"],
            min((s.max_ahead for s in definition.aggregation.stream.sources if s.max_ahead is not None), default=None),
            watch_of(definition, self.store, self.generation),
            computed_with(definition),
        )
        diverts = tuple(o.late.refused is not None for o in definition.outputs)
        self.engine = Engine(self.shape, self.kinds, diverts, self.store, SparkRunner(self.spark))
        self.ledger = Ledger.from_json(last["ledger"]) if last else self.engine.first_ledger()
        for output in definition.outputs:
            self.ledger.outputs.setdefault(output.name, type(self.ledger.rows)())
        self.last_clock = last["clock"] if last else 0
        self._open_sinks()
        self.journal.define(facts)
        self._clear_orphans()

    def _plan(self, facts: dict[str, Any]) -> Plan:
        plan: Plan = self.pipeline.plan(self.generation)
        sources = tuple(
            replace(source, lanes=tuple(facts["lanes"].get(feed.source.name, ())))
            for source, feed in zip(plan.sources, self.feeds, strict=True)
        )
        return replace(plan, sources=sources)

    def _parallelism(self) -> int:
        return max(1, min(int(self.spark.sparkContext.defaultParallelism), 64))

    def _common_kinds(self) -> dict[str, pl.DataType]:
        given = [feed.reading.given for feed in self.feeds]
        first = given[0]
        for feed, other in zip(self.feeds[1:], given[1:], strict=True):
            for column in self._needed_columns():
                if first.get(column) != other.get(column):
                    raise DefinitionError(
                        f"sources {self.feeds[0].source.name!r} and {feed.source.name!r} must have the same columns to be merged, but "
                        f"{column!r} is {first.get(column, 'missing')} in one and {other.get(column, 'missing')} in the other. "
                        "Map each to the common columns with .transform(…)."
                    )
        for column in self._needed_columns():
            if column not in first:
                raise DefinitionError(
                    f"source {self.feeds[0].source.name!r} has no column {column!r}. Its columns are {', '.join(first)}."
                )
        return {name: kind for name, kind in first.items() if all(other.get(name) == kind for other in given)}

    def _needed_columns(self) -> list[str]:
        aggregation = self.pipeline.aggregation
        inputs = [column for _, what in aggregation.aggregates for column in what.columns]
        return [*aggregation.keys, *inputs, *aggregation.stream.dedupe_keys]

    def _open_sinks(self) -> None:
        kinds = finished_kinds(self.shape, self.kinds)
        self.deliverer = Deliverer(self.pipeline.name, self.store)
        for output in self.pipeline.outputs:
            self.deliverer.open(output, pane_shape(self.shape, kinds, output.accumulation), _late_schema(self.kinds))
        self.deliverer.open_dead(self.pipeline.dead_letter_sink, DEAD_SCHEMA)

    def start(self, *, available_now: bool = False, interval: str = "1 second") -> Any:
        """Start Spark's query; gives it."""
        from pyspark.sql import functions as F

        self._check_checkpoint()

        frames = [self._as_union(feed.frame(self.spark), F) for feed in self.feeds]
        if not available_now:
            beat = (
                self.spark.readStream.format("rate")
                .option("rowsPerSecond", "1")
                .load()
                .select(F.lit(-1).cast("long").alias(SOURCE))
            )
            frames.append(self._as_union(beat, F))
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionByName(frame)
        writer = union.writeStream.foreachBatch(self._on_batch).option("checkpointLocation", f"{self.store.url('checkpoint')}")
        writer = writer.queryName(f"eventide {self.pipeline.name}")
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=interval)
        return writer.start()

    def _as_union(self, frame: Any, F: Any) -> Any:
        """Every source in the same columns, so that one query reads them all."""
        wanted = self._union_schema()
        have = set(frame.columns)
        return frame.select(
            *[(F.col(_quoted(n)) if n in have else F.lit(None)).cast(kind).alias(n) for n, kind in wanted.items()]
        )

    def _union_schema(self) -> dict[str, Any]:
        own = {
            SOURCE: "long",
            LANE: "string",
            OFFSET: "long",
            ARRIVAL: "long",
            "__raw": "binary",
            "__dead": "string",
            PATH: "string",
            MODIFIED: "long",
        }
        users: dict[str, Any] = {}
        for feed in self.feeds:
            if not isinstance(feed, FileFeed) and (feed.source.transforms or not isinstance(feed, KafkaFeed)):
                users.update({f.name: f.dataType for f in feed.frame(self.spark).schema if not f.name.startswith("__")})
        return {**own, **users}

    def _on_batch(self, frame: Any, number: int) -> None:
        if number <= self.ledger.batch:
            return
        if number > self.ledger.batch + 1:
            raise JournalError(
                f"Spark goes on with batch {number}, but the newest commit in {self.state}/journal is of batch {self.ledger.batch}: the "
                "records between are missing, and their rows would be lost. Nothing was overwritten. Restore the journal from a copy, or "
                "start over with a new generation: eventide run FILE --start-over."
            )
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

    def batch(self, frame: Any, number: int, *, drain: bool = False) -> BatchResult:
        """One micro-batch from begin to commit."""
        self.lease.renew()
        now = max(self.clock(), self.last_clock)
        facts = self.journal.begin(number, {"clock": now, "generation": self.generation})
        self._clear_leftovers(number)
        self.hook("begin")
        clock = facts["clock"]
        accounts, landed = self._scan(frame, number, clock)
        self.hook("scan")
        given = self._input(number, clock, accounts, landed, drain)
        result = self.engine.process(self.ledger, given)
        self.hook("store")
        self._deliver(result, clock)
        self.hook("deliver")
        tell(self.pipeline, number, ((a.lane[0], a.observed) for a in accounts))
        self.journal.commit(result.ledger, {"clock": clock})
        self.hook("commit")
        self.ledger, self.last_clock = result.ledger, clock
        self._evict(result)
        self.hook("evict")
        self.journal.tidy(number)
        if self.shape.watch is not None:
            settle(self.pipeline, self.store, self.generation, number)
        if self.on_progress is not None:
            self.on_progress(report(self, result, clock))
        return result

    def _deliver(self, result: BatchResult, clock: int) -> None:
        self.deliverer.deliver(result, clock, lambda: self.hook("between sinks"))

    def _evict(self, result: BatchResult) -> None:
        """Remove what nothing refers to any more, and directories with it; what a crash leaves over goes at the next start."""
        for path in result.garbage:
            self.store.delete([path])
            self.hook("evicting")
        live = {p.path.rpartition("/")[0] for p in result.ledger.parts}
        for directory in {path.rpartition("/")[0] for path in result.garbage} - live:
            self.store.delete_directory(directory)

    def _clear_orphans(self) -> None:
        """Files of committed batches that no part names: a run died between its commit and its eviction."""
        live = {p.path.split("/")[1] for p in self.ledger.parts}
        for name in self.store.directories("data"):
            if name.isdigit() and int(name) <= self.ledger.batch and name not in live:
                self.store.delete_directory(f"data/{name}")
        known = {p.path for p in self.ledger.parts}
        self.store.delete(f for f in self.store.files("data") if f not in known and int(f.split("/")[1]) <= self.ledger.batch)

    def _clear_leftovers(self, number: int) -> None:
        """A batch run again begins with nothing of its earlier try."""
        self.store.delete_directory(f"data/{number:012d}")
        for directory in ("dead", LATENESS, *(f"{kind}/{o.name}" for kind in ("panes", "late") for o in self.pipeline.outputs)):
            self.store.delete_directory(f"{directory}/batch={number}")

    def _scan(self, frame: Any, number: int, clock: int) -> tuple[list[LaneAccount], dict[int, list[LandedFile]]]:
        landed = self._landed(frame)
        accounts = self._scan_files(number, landed)
        rows = self._rows(frame, landed)
        if rows is not None:
            readings = {f.index: replace(f.reading, keep=tuple(self.kinds)) for f in self.feeds}
            scan = RowScan(
                self.shape, self.store, number, readings, self._live_carries(), self.engine.floor(self.ledger), clock
            )
            lines = rows.mapInArrow(scan, "line string").collect()
            accounts += [LaneAccount.from_json(row["line"]) for row in lines]
        return accounts, landed

    def _live_carries(self) -> dict[LaneId, LaneCarry]:
        return self.ledger.carries

    def _landed(self, frame: Any) -> dict[int, list[LandedFile]]:
        feeds = {f.index: f for f in self.feeds if isinstance(f, FileFeed)}
        if not feeds or PATH not in frame.columns:
            return {}
        found: dict[int, list[LandedFile]] = {index: [] for index in feeds}
        for row in frame.where(f"{PATH} IS NOT NULL").select(SOURCE, PATH, MODIFIED).collect():
            found[row[SOURCE]].append(feeds[row[SOURCE]].landed(row[PATH], row[MODIFIED]))
        return {index: sorted(files, key=lambda f: (f.modified, f.path)) for index, files in found.items()}

    def _scan_files(self, number: int, landed: dict[int, list[LandedFile]]) -> list[LaneAccount]:
        tasks: list[Callable[[], str]] = []
        for feed in self.feeds:
            if isinstance(feed, FileFeed) and feed.in_worker and feed.source.lane_column is None:
                lanes: dict[str, list[LandedFile]] = {}
                for file in landed.get(feed.index, []):
                    lanes.setdefault(file.lane, []).append(file)
                for name, files in sorted(lanes.items()):
                    lane = (feed.index, name)
                    carry = self.ledger.carries.get(lane, LaneCarry())
                    coded = only_measured(self.pipeline, feed.source)
                    reading = replace(feed.reading, kinds=self._read_kinds(feed), keep=tuple(self.kinds), coded=coded)
                    floor = self.engine.floor(self.ledger)
                    tasks.append(
                        partial(
                            _scan_file_lane,
                            self.shape,
                            self.store,
                            number,
                            lane,
                            carry,
                            floor,
                            files,
                            feed.source.format,
                            reading,
                        )
                    )
        return [LaneAccount.from_json(line) for line in self.engine.runner.run(tasks)]

    def _read_kinds(self, feed: FileFeed) -> dict[str, pl.DataType]:
        """Columns that are read at all: every one where refused rows are kept whole, otherwise those that are computed with."""
        if self.pipeline.archive or self.shape.needed is None:
            return feed.reading.kinds
        strategy = str(feed.source.watermark)
        own = {feed.source.event_time, feed.source.arrival, *self._needed_columns(), *(self.pipeline.measure or ())}
        if not all(hasattr(change, "columns") for change in feed.source.maps):
            return feed.reading.kinds  # a map that does not say which columns it reads may read any
        own |= {column for change in feed.source.maps for column in getattr(change, "columns", ())}
        return {n: k for n, k in feed.reading.kinds.items() if n in own or n in strategy}

    def _rows(self, frame: Any, landed: dict[int, list[LandedFile]]) -> Any | None:
        """The rows that come through Spark in this batch, as one DataFrame, lanes whole and in order."""
        from pyspark.sql import functions as F

        parts = []
        if any(not isinstance(f, FileFeed) for f in self.feeds):
            rows = frame.where(f"{SOURCE} >= 0 AND {PATH} IS NULL").drop(PATH, MODIFIED) if PATH in frame.columns else frame
            parts.append(self._in_order(rows, F))
        for feed in self.feeds:
            if (
                isinstance(feed, FileFeed)
                and not (feed.in_worker and feed.source.lane_column is None)
                and landed.get(feed.index)
            ):
                parts.append(self._files_through_spark(feed, landed[feed.index], F))
        if not parts:
            return None
        union = parts[0]
        for part in parts[1:]:
            union = union.unionByName(part, allowMissingColumns=True)
        return union

    def _in_order(self, rows: Any, F: Any) -> Any:
        """Kafka's partitions are lanes already; other rows are brought together by lane and sorted by offset."""
        if all(isinstance(f, KafkaFeed | FileFeed) and not f.source.transforms for f in self.feeds):
            return rows
        return rows.repartition(SOURCE, LANE).sortWithinPartitions(SOURCE, LANE, OFFSET)

    def _files_through_spark(self, feed: FileFeed, files: list[LandedFile], F: Any) -> Any:
        source = feed.source
        if source.format != "parquet":
            raise DefinitionError(
                f"source {source.name!r}: {source.format} files can only be read inside the worker (no transforms, and lanes by directory). "
                "Use Parquet, or read them with Spark yourself and pass the DataFrame to stream(…)."
            )
        frame = self.spark.read.parquet(*[f.path for f in files])
        marked = frame.select("*", F.col("_metadata.file_path").alias(PATH), F.col("_metadata.row_index").alias("__row"))
        # Files of different lanes may have the same name: the whole path tells them apart. Spark gives it as an encoded URI.
        path = F.expr(f"regexp_replace(url_decode(replace({PATH}, '+', '%2B')), '^file:/+', '/')")
        marked = marked.withColumn(PATH, path)
        order = {f.path: index for index, f in enumerate(files)}
        arrivals = {f.path: f.modified for f in files}
        marked = marked.withColumn("__order", _lookup(order, F.col(PATH), F)).withColumn(
            "__at", _lookup(arrivals, F.col(PATH), F)
        )
        lanes = {f.path: f.lane for f in files}
        lane = F.col(source.lane_column).cast("string") if source.lane_column else _lookup(lanes, F.col(PATH), F)
        marked = marked.withColumn("__in", lane)
        for change in source.transforms:
            marked = change(marked)
        ordered = marked.repartition("__in").sortWithinPartitions("__in", "__order", "__row")
        rows = placed(ordered, feed.index, "__in", None, None).withColumn(ARRIVAL, F.col("__at"))
        return rows.drop("__order", "__row", "__at", "__in", PATH)

    def _input(
        self, number: int, clock: int, accounts: list[LaneAccount], landed: dict[int, list[LandedFile]], drain: bool
    ) -> BatchInput:
        offsets = self._offsets(number)
        lanes: set[LaneId] = set()
        at_end: set[LaneId] = set()
        unsure: set[int] = set()
        memory: dict[str, object] = {}
        for feed in self.feeds:
            reach = feed.reach(self.ledger, offsets, landed.get(feed.index, []))
            lanes |= reach.lanes
            if reach.at_end is None:
                unsure.add(feed.index)
            else:
                at_end |= reach.at_end
            if reach.memory:
                memory[feed.source.name] = reach.memory
        heard = {*lanes, *self.ledger.carries, *(a.lane for a in accounts), *self.ledger.frontier.lanes}
        at_end |= {lane for lane in heard if lane[0] in unsure}
        return BatchInput(number, clock, accounts, frozenset(at_end), frozenset(lanes), drain, memory)

    def _offsets(self, number: int) -> list[dict[str, Any]]:
        body = self.journal.files.read(f"checkpoint/offsets/{number}")
        return parse_offsets(body.decode()) if body else []

    def close(self) -> None:
        """Let go of sinks and of the state directory."""
        self.deliverer.close()
        self.lease.release()


def _scan_file_lane(
    shape: Shape,
    store: Store,
    number: int,
    lane: LaneId,
    carry: LaneCarry,
    floor: int,
    files: list[LandedFile],
    format: str,
    reading: Any,
) -> str:
    chunks = chunks_of(files, format, reading, carry.last_offset + 1)
    account = scan_lane(shape, store, number, lane, carry, floor, chunks)
    account.observed = reading.observed()
    return account.to_json()


def _lookup(values: dict[str, Any], key: Any, F: Any) -> Any:
    pairs = [F.lit(part) for pair in values.items() for part in pair]
    return F.create_map(*pairs)[key]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _late_schema(kinds: dict[str, pl.DataType]) -> pa.Schema:
    own = {ARRIVAL: pl.Int64(), SOURCE: pl.Int64(), LANE: pl.String(), OFFSET: pl.Int64(), TIME: pl.Int64(), SEEN: pl.Int64()}
    ends = {"missed_first_end": pl.Int64(), "missed_last_end": pl.Int64()}
    return late_rows(pl.DataFrame(schema={**kinds, **own, **ends})).to_arrow(compat_level=pl.CompatLevel.oldest()).schema


_DEAD_FIELDS: dict[str, pa.DataType] = {
    "source": pa.int64(),
    "lane": pa.string(),
    "offset": pa.int64(),
    "arrival": INSTANT,
    "event_time": INSTANT,
    "reason": pa.string(),
    "raw": pa.binary(),
}
DEAD_SCHEMA = pa.schema(_DEAD_FIELDS)
