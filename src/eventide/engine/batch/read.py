"""A batch read: landed files by the workers themselves, other rows through Spark; one account of each lane comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.content import Content
from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import Engine
from eventide.engine.batch.row_task import RowScan
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.feed import MODIFIED, PATH, SIZE, Feed, lane_by_lane
from eventide.engine.feeds.file_chunks import LaneFiles
from eventide.engine.feeds.file_faults import UnreadableFile
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.projection import only_measured, read_kinds
from eventide.engine.feeds.union import united
from eventide.engine.spark_notes import Noted
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import OFFSET, SOURCE
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
        # By source too: another one over the same directory may ask for other columns.
        faults = {(account.lane[0], path): why for account in accounts for path, why in account.faults.items()}
        landed = {i: [replace(f, fault=faults.get((i, f.path), f.fault)) for f in files] for i, files in landed.items()}
        try:
            rows = self._scan_rows(frame, number, clock, ledger, landed)
        except Exception:
            if (told := self._with_faults(landed)) == landed:
                raise
            landed, rows = told, self._scan_rows(frame, number, clock, ledger, told)
        return accounts + rows, landed

    def landed(self, frame: DataFrame, notes: dict[int, Noted]) -> Landed:
        """The files that a batch consists of, as they are now; those that Spark took and that are gone since are among them."""
        feeds = [feed for feed in self.feeds if feed.gives_paths]
        shown: dict[int, list[tuple[str, int, int]]] = {feed.index: [] for feed in feeds}
        # Where Spark's note says nothing, Spark is asked: a note that cannot be found must not make its files vanish without a word.
        if unseen := ", ".join(str(feed.index) for feed in feeds if not (feed.sees_files and notes[feed.index].taken)):
            for row in (
                frame.where(f"{PATH} IS NOT NULL AND {SOURCE} IN ({unseen})").select(SOURCE, PATH, MODIFIED, SIZE).collect()
            ):
                shown[row[SOURCE]].append((row[PATH], row[MODIFIED], row[SIZE]))
        return {feed.index: feed.landed(shown[feed.index], notes[feed.index]) for feed in feeds}

    def _scan_rows(self, frame: DataFrame, number: int, clock: int, ledger: Ledger, landed: Landed) -> list[LaneAccount]:
        rows = self._rows(frame, landed, ledger)
        if rows is None:
            return []
        readings = {f.index: replace(f.reading, keep=self.columns) for f in self.feeds}
        carries = {lane: ledger.carry(lane) for lane in {*ledger.carries, *ledger.frontier.lanes}}
        of_files = frozenset(feed.index for feed in self.feeds if feed.gives_paths)
        scan = RowScan(self.engine.shape, self.engine.store, number, readings, carries, ledger.swept, clock, of_files)
        return [LaneAccount.from_json(row["line"]) for row in rows.mapInArrow(scan, "line string").collect()]

    def _with_faults(self, landed: Landed) -> Landed:
        """Which of the files that go through Spark cannot be read: asked when a job has failed, before any of their rows was scanned."""
        return {f.index: f.with_faults(self.spark, landed[f.index]) for f in self.feeds if f.index in landed}

    def _scan_files(self, number: int, clock: int, landed: Landed, ledger: Ledger) -> list[LaneAccount]:
        engine = self.engine
        tasks: list[Callable[[], str]] = []
        for feed in self.feeds:
            for lane, files in feed.lanes_in_worker(landed.get(feed.index, []), self._reading(feed)).items():
                about = (engine.shape, engine.store, number, lane, ledger.carry(lane), Arrivals.of(lane, ledger.swept, clock))
                tasks.append(partial(_scan_file_lane, *about, files))
        return [LaneAccount.from_json(line) for line in engine.runner.run(tasks)]

    def _reading(self, feed: Feed) -> Reading:
        """How a worker reads a source by itself: only the columns that somebody needs."""
        coded, kinds = only_measured(self.pipeline, feed.source), read_kinds(self.pipeline, feed)
        return replace(feed.reading, kinds=kinds, declared=feed.reading.kinds, keep=self.columns, coded=coded)

    def _rows(self, frame: DataFrame, landed: Landed, ledger: Ledger) -> DataFrame | None:
        """The rows that come through Spark in this batch, as one DataFrame, lanes whole and in order."""
        parts = []
        if any(not feed.gives_paths for feed in self.feeds):
            rows = (
                frame.where(f"{SOURCE} >= 0 AND {PATH} IS NULL").drop(PATH, MODIFIED, SIZE) if PATH in frame.columns else frame
            )
            parts.append(rows if all(feed.in_order for feed in self.feeds) else lane_by_lane(rows, OFFSET))
        for feed in self.feeds:
            known = min((lane for source, lane in ledger.carries if source == feed.index), default=None)
            of_files = feed.rows(self.spark, landed.get(feed.index, []), known)
            if of_files is not None:
                parts.append(of_files)
        return united(parts) if parts else None


def _scan_file_lane(
    shape: BoundPlan,
    store: Store,
    number: int,
    lane: LaneId,
    carry: LaneCarry,
    arrivals: Arrivals,
    files: LaneFiles,
) -> str:
    def scanned(files: LaneFiles) -> LaneAccount:
        content = Content(shape.needed)
        chunks = content.of(files.chunks(carry.last_offset + 1))
        return replace(scan_lane(shape, store, number, lane, carry, arrivals, chunks), content=content.text)

    try:
        account = scanned(files)
    except UnreadableFile:
        files.reading.observed()  # of rows that are read again
        files = files.with_faults()
        account = scanned(files)
    account.faults = {file.path: file.fault for file in files.files if file.fault is not None}
    account.observed = files.reading.observed()
    return account.to_json()
