"""A batch read: landed files by the workers themselves, other rows through Spark; one account of each lane comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import Engine
from eventide.engine.batch.row_task import RowScan
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.feed import MODIFIED, PATH, SIZE, Feed
from eventide.engine.feeds.file_chunks import chunks_of, with_faults
from eventide.engine.feeds.file_faults import UnreadableFile
from eventide.engine.feeds.file_rows import faults_of_files, rows_of_files
from eventide.engine.feeds.files import FileFeed
from eventide.engine.feeds.kafka import KafkaFeed
from eventide.engine.feeds.landed import LandedFile, by_lane
from eventide.engine.feeds.projection import only_measured, read_kinds
from eventide.engine.feeds.union import united
from eventide.engine.spark_notes import Noted
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import LANE, OFFSET, SOURCE
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model.event import LaneId
from eventide.state.ledger import Ledger
from eventide.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Landed = dict[int, list[LandedFile]]
"""The files of a batch, for each source of files by its place among the sources."""


@dataclass(frozen=True)
class BatchScan:
    """Reads batches of a run."""

    pipeline: Pipeline
    spark: SparkSession
    feeds: list[Feed]
    engine: Engine
    columns: tuple[str, ...]
    """Those that all sources share."""

    def __call__(
        self, frame: DataFrame, number: int, clock: int, ledger: Ledger, landed: Landed
    ) -> tuple[list[LaneAccount], Landed]:
        """The account of every lane that has rows in this batch, which consists of these files and of the other rows of the frame.

        Beside it the files, of which those that could not be read say why: each is one dead letter.
        """
        accounts = self._scan_files(number, clock, landed, ledger)
        faults = {path: why for account in accounts for path, why in account.faults.items()}
        landed = {i: [replace(f, fault=faults.get(f.path, f.fault)) for f in files] for i, files in landed.items()}
        try:
            rows = self._scan_rows(frame, number, clock, ledger, landed)
        except Exception:
            if (told := self._with_faults(landed)) == landed:
                raise
            landed, rows = told, self._scan_rows(frame, number, clock, ledger, told)
        return accounts + rows, landed

    def landed(self, frame: DataFrame, notes: dict[int, Noted]) -> Landed:
        """The files that a batch consists of, as they are now; those that Spark took and that are gone since are among them."""
        feeds = {f.index: f for f in self.feeds if isinstance(f, FileFeed)}
        if not feeds or PATH not in frame.columns:
            return {}
        found: Landed = {index: [] for index in feeds}
        for row in frame.where(f"{PATH} IS NOT NULL").select(SOURCE, PATH, MODIFIED, SIZE).collect():
            found[row[SOURCE]].append(feeds[row[SOURCE]].landed(row[PATH], row[MODIFIED], row[SIZE]))
        for index, feed in feeds.items():
            found[index] += feed.unseen(found[index], notes[index])
        return {index: sorted(files, key=lambda f: (f.modified, f.path)) for index, files in found.items()}

    def _scan_rows(self, frame: DataFrame, number: int, clock: int, ledger: Ledger, landed: Landed) -> list[LaneAccount]:
        rows = self._rows(frame, landed, ledger)
        if rows is None:
            return []
        readings = {f.index: replace(f.reading, keep=self.columns) for f in self.feeds}
        scan = RowScan(self.engine.shape, self.engine.store, number, readings, ledger.carries, ledger.swept, clock)
        return [LaneAccount.from_json(row["line"]) for row in rows.mapInArrow(scan, "line string").collect()]

    def _with_faults(self, landed: Landed) -> Landed:
        """Which of the files that go through Spark cannot be read: asked when a job has failed, before any of their rows was scanned."""
        through = {f.index: f for f in self.feeds if isinstance(f, FileFeed) and not f.in_worker}
        return {i: faults_of_files(self.spark, through[i], files) if i in through else files for i, files in landed.items()}

    def _scan_files(self, number: int, clock: int, landed: Landed, ledger: Ledger) -> list[LaneAccount]:
        engine = self.engine
        tasks: list[Callable[[], str]] = []
        for feed in self.feeds:
            if isinstance(feed, FileFeed) and feed.in_worker:
                coded = only_measured(self.pipeline, feed.source)
                kinds = read_kinds(self.pipeline, feed)
                reading = replace(feed.reading, kinds=kinds, declared=feed.reading.kinds, keep=self.columns, coded=coded)
                for lane, files in by_lane(feed.index, landed.get(feed.index, [])).items():
                    carry = ledger.carries.get(lane, LaneCarry())
                    about = (engine.shape, engine.store, number, lane, carry, Arrivals.of(lane, ledger.swept, clock))
                    tasks.append(partial(_scan_file_lane, *about, files, feed.source.format, reading))
        return [LaneAccount.from_json(line) for line in engine.runner.run(tasks)]

    def _rows(self, frame: DataFrame, landed: Landed, ledger: Ledger) -> DataFrame | None:
        """The rows that come through Spark in this batch, as one DataFrame, lanes whole and in order."""
        parts = []
        if any(not isinstance(f, FileFeed) for f in self.feeds):
            rows = (
                frame.where(f"{SOURCE} >= 0 AND {PATH} IS NULL").drop(PATH, MODIFIED, SIZE) if PATH in frame.columns else frame
            )
            parts.append(self._in_order(rows))
        for feed in self.feeds:
            if isinstance(feed, FileFeed) and not feed.in_worker and landed.get(feed.index):
                known = min((lane for source, lane in ledger.carries if source == feed.index), default=None)
                parts.append(rows_of_files(self.spark, feed, landed[feed.index], known))
        return united(parts) if parts else None

    def _in_order(self, rows: DataFrame) -> DataFrame:
        """Kafka's partitions are lanes already; other rows are brought together by lane and sorted by offset."""
        if all(isinstance(f, FileFeed) or (isinstance(f, KafkaFeed) and not f.source.transforms) for f in self.feeds):
            return rows
        return rows.repartition(SOURCE, LANE).sortWithinPartitions(SOURCE, LANE, OFFSET)


def _scan_file_lane(
    shape: BoundPlan,
    store: Store,
    number: int,
    lane: LaneId,
    carry: LaneCarry,
    arrivals: Arrivals,
    files: list[LandedFile],
    format: str,
    reading: Reading,
) -> str:
    def scanned(files: list[LandedFile]) -> LaneAccount:
        chunks = chunks_of(files, format, reading, carry.last_offset + 1)
        return scan_lane(shape, store, number, lane, carry, arrivals, chunks)

    try:
        account = scanned(files)
    except UnreadableFile:
        reading.observed()  # of rows that are read again
        files = with_faults(files, format, reading)
        account = scanned(files)
    account.faults = {file.path: file.fault for file in files if file.fault is not None}
    account.observed = reading.observed()
    return account.to_json()
