"""A landing directory opened for a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from pyarrow.fs import FileInfo, FileType

from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.feed import EVERY_LANE, MODIFIED, PATH, SIZE, Feed, Reach, arrow_kinds, reading_of, times_of
from eventide.engine.feeds.file_chunks import LaneFiles
from eventide.engine.feeds.file_faults import UnreadableFile, fault_text, read_whole, refuse_bad_files
from eventide.engine.feeds.file_rows import columns_after_transforms, faults_of_files, rows_of_files
from eventide.engine.feeds.landed import LandedFile, below, by_lane, in_order, lane_of, list_files, looked_up, modified_at
from eventide.engine.feeds.links import leading_back, turned_back
from eventide.engine.s3a import spark_address
from eventide.engine.spark_compat import parse_ddl, reads_every_name
from eventide.engine.spark_notes import Noted, TakenFile
from eventide.errors import DefinitionError, LossWarning, SourceRefused, SourceUnavailable, StoreError
from eventide.kernel.columns import SOURCE
from eventide.model.event import LaneId
from eventide.redaction import warn_of
from eventide.sources.filenames import spark_glob
from eventide.sources.files import FileSource
from eventide.state.ledger import Ledger
from eventide.storage.address import is_local, local_path
from eventide.storage.arrow import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY_AGE = "100000000d"
"""Spark passes over files that are a week older than the newest one it has read; none is too old for us, whatever time the newest one claims."""

TOLD = "told"
"""In a source's memory: the files that Spark cannot take and that are dead letters already."""


@dataclass
class FileFeed(Feed):
    """A landing directory: Spark keeps track of the files, the workers (or Spark) read them."""

    gives_paths = True
    source: FileSource
    decoding: Reading
    """How a file's rows are read before the user's transforms see them."""
    openable: bool
    """Whether the worker opens the files, not Spark."""
    plain_names: bool = False
    """Whether Spark sees only files of this machine whose names are plain letters."""
    _read: dict[str, int] = field(default_factory=dict)
    """The files that have been read, by their paths below the source's, with their sizes then; -1 where another run read them."""
    _noted: int = -1
    """How far Spark's log of them was taken in."""
    _links: set[str] = field(default_factory=set)
    """Links that lead back to a directory above them, and were told."""
    _looked: tuple[int, frozenset[str]] | None = None
    """The clock of the last look at the directory, and the files that were unread then."""

    @classmethod
    def open(cls, spark: SparkSession | None, index: int, source: FileSource) -> FileFeed:
        """Find out the columns; where the files alone say them, Spark is not needed for that."""
        refuse_missing(source)
        kinds = _footer_kinds(source) if source.schema is None else arrow_kinds(parse_ddl(source.schema))
        decoder = "json" if source.format == "json" else None
        decoding = Reading(
            index, source.name, kinds, "", source.watermark, None, source.time_unit, decoder, times=times_of(source)
        )
        plain = spark is not None and is_local(source.path) and not reads_every_name(spark)
        feed = cls(index, source, decoding, decoding=decoding, openable=_openable(source), plain_names=plain)
        if source.transforms:
            assert spark is not None
            kinds = arrow_kinds(columns_after_transforms(spark, feed))
        feed.reading = reading_of(index, source, kinds, decoder if feed.in_worker else None)
        if source.lane_column is not None and source.lane_column not in feed.decoding.kinds:
            raise DefinitionError(
                f"source {source.name!r}: lane={source.lane!r}, but the files have no such column. Their columns are "
                f"{', '.join(feed.decoding.kinds)}."
            )
        return feed

    @property
    def in_order(self) -> bool:
        """Its rows come from `rows`, in order."""
        return True

    @property
    def is_decoded(self) -> bool:
        """A batch has its paths."""
        return False

    @property
    def sees_files(self) -> bool:
        """Where workers can open them, so can we."""
        return self.openable

    @property
    def takes_columns(self) -> bool:
        """Parquet keeps its columns apart."""
        return self.source.format == "parquet"

    @property
    def in_worker(self) -> bool:
        """Unless transforms work on the rows, a column names their lanes, or only Spark can open them."""
        return self.openable and not self.source.transforms and self.source.lane_column is None

    def known_lanes(self) -> tuple[str, ...]:
        """The directories that are there, or the whole source."""
        if self.source.lane == "source":
            return ("0",)
        if self.source.lane == "directory":
            return tuple(sorted({f.lane for f in self._readable()}))
        return ()

    def listed(self) -> list[LandedFile]:
        """What has landed by now, oldest first."""
        found = list_files(self.source.path, self.source.format, self.source.lane, plain=self.plain_names)
        if not found:
            self._refuse_gone()
        return self._by_one_name(found)

    def _refuse_gone(self) -> None:
        """Without its directory a source is not one of which everything was read, nor are its files gone one by one."""
        if is_local(self.source.path) and not os.path.isdir(local_path(self.source.path)):
            raise SourceUnavailable(
                f"source {self.source.name!r} reads {os.path.abspath(local_path(self.source.path))}, and that directory is not there any more "
                "(unmounted, or renamed). Nothing of this batch was delivered. Put it back, and run again."
            )

    def _by_one_name(self, files: list[LandedFile]) -> list[LandedFile]:
        """Without those that a link back to a directory above it shows once more; where it stood before the run, the run was refused."""
        if not is_local(self.source.path):
            return files
        root = os.path.abspath(local_path(self.source.path))
        links = {path: turned_back(path, root) for path in {os.path.dirname(os.path.abspath(file.path)) for file in files}}
        for link in sorted({link for link in links.values() if link is not None} - self._links):
            self._links.add(link)
            warn_of(
                f"source {self.source.name!r}: {link} has come, a link to {os.path.realpath(link)}, in which it lies itself. What it shows is not read "
                "once more. Remove the link: the next run would be refused.",
                LossWarning,
            )
        return [file for file in files if links[os.path.dirname(os.path.abspath(file.path))] is None]

    def _readable(self) -> list[LandedFile]:
        """Those that Spark takes."""
        return [file for file in self.listed() if file.fault is None]

    def frame(self, spark: SparkSession) -> DataFrame:
        """The paths of new files; their content is never read by Spark."""
        from pyspark.sql import functions as F

        reader = (
            spark.readStream.format("binaryFile")
            .schema("path STRING, modificationTime TIMESTAMP_LTZ, length LONG, content BINARY")
            .option("pathGlobFilter", spark_glob(self.source.format))
            .option("recursiveFileLookup", "true")
            .option("maxFileAge", EVERY_AGE)
        )
        if self.source.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.source.files_per_batch))
        listed = reader.load(spark_address(spark, self.source.path))
        return listed.select(
            F.lit(self.index).cast("long").alias(SOURCE),
            F.col("path").alias(PATH),
            F.expr("unix_micros(modificationTime)").alias(MODIFIED),
            F.col("length").alias(SIZE),
        )

    def history(self, spark: SparkSession) -> DataFrame:
        """The rows of every file that has landed."""
        return rows_of_files(spark, self, self.listed())

    def landed(self, shown: Iterable[tuple[str, int, int]], noted: Noted) -> list[LandedFile]:
        """What Spark took into a batch, by its own note of it; where only Spark sees the files, those that it does not show are empty, or gone."""
        found = self._by_one_name([self._landed(*facts) for facts in shown])
        there = {file.path for file in found}
        taken = [self._landed(file.path, file.modified, -1) for file in noted.taken]
        found += self._asked(self._by_one_name([file for file in taken if file.path not in there]))
        return in_order(found)

    def retimed(self, begun: list[LandedFile], now: list[LandedFile]) -> dict[str, int]:
        """By their times now; where only Spark sees the files, as it has just shown them."""
        whole = [file for file in begun if file.fault is None]
        if self.openable:
            files, base = file_system(self.source.path)[0], self.source.path
            found = looked_up(files, [file_system(file.path)[1] for file in whole], base)
            times = {file.path: modified_at(info) for file, info in zip(whole, found, strict=True)}
        else:
            times = {file.path: file.modified for file in now}
        return {file.path: times[file.path] for file in whole if times[file.path] != file.modified}

    def lanes_in_worker(self, files: list[LandedFile], reading: Reading) -> dict[LaneId, LaneFiles]:
        """Each lane's files in order, where workers read them by themselves."""
        if not self.in_worker:
            return {}
        return {lane: LaneFiles(tuple(own), self.source.format, reading) for lane, own in by_lane(self.index, files).items()}

    def rows(self, spark: SparkSession, files: list[LandedFile], beside: str | None) -> DataFrame | None:
        """The rows of the files, where they go through Spark."""
        return None if self.in_worker or not files else rows_of_files(spark, self, files, beside)

    def with_faults(self, spark: SparkSession, files: list[LandedFile]) -> list[LandedFile]:
        """Each file looked at by itself, where they go through Spark."""
        return files if self.in_worker else faults_of_files(spark, self, files)

    def refuse_bad(self, files: list[LandedFile]) -> None:
        """As `on_bad_file` says; where the whole directory has gone, no file is to blame."""
        if any(file.fault is not None for file in files):
            self._refuse_gone()
        if self.source.on_bad_file == "stop":
            refuse_bad_files(self.source.name, files)

    def _landed(self, path: str, modified: int, size: int) -> LandedFile:
        local = path.removeprefix("file://").removeprefix("file:") if path.startswith("file:") else path
        return LandedFile(local, modified, lane_of(local, self.source.path, self.source.lane), size)

    def _asked(self, taken: list[LandedFile]) -> list[LandedFile]:
        """Files as they are now, looked at together: in an object store each is a request."""
        if not self.openable:
            return [replace(file, fault="it is empty, or gone") for file in taken]
        found = looked_up(file_system(self.source.path)[0], [file_system(file.path)[1] for file in taken], self.source.path)
        return [_as_found(file, info) for file, info in zip(taken, found, strict=True)]

    def reach(self, ledger: Ledger, noted: Noted, read: list[LandedFile], clock: int) -> Reach:
        """A lane is at its end when every file of it that is listed has been read.

        Where files land all the time, one of them nearly always does between Spark's listing and this one. A lane whose unread files were
        not there at the last look has been read up to that look: else lanes that fall silent would never be found idle.
        """
        self._remember(noted, read)
        landed = self.listed()
        reach = self._reach(ledger, [file for file in landed if file.fault is None], read, clock)
        told = {*ledger.sources.get(self.source.name, {}).get(TOLD, ())}
        untold = [file for file in landed if file.fault is not None and file.path not in told]
        memory = {TOLD: sorted(told | {file.path for file in untold})} if untold else {}
        return replace(reach, memory=memory, unreadable=untold)

    def _reach(self, ledger: Ledger, listed: list[LandedFile], read: list[LandedFile], clock: int) -> Reach:
        base = file_system(self.source.path)[1]
        unread = {below(f.path, base): f for f in listed}
        for known in self._read.keys() & unread.keys():
            self._warn_of_change(known, unread.pop(known))
        looked, self._looked = self._looked, (clock, frozenset(unread))
        heard = {lane for source, lane in ledger.carries if source == self.index}
        if self.source.lane_column is not None:
            if not unread:
                return Reach(frozenset(), None)
            to = self._read_to(looked, unread)
            return Reach(frozenset(), frozenset(), read_to={} if to is None else {(self.index, lane): to for lane in heard})
        lanes = heard | {f.lane for f in listed} | {f.lane for f in read} | ({"0"} if self.source.lane == "source" else set())
        ahead: dict[str, dict[str, LandedFile]] = {}
        for name, file in unread.items():
            ahead.setdefault(file.lane, {})[name] = file
        reached = {lane: self._read_to(looked, files) for lane, files in ahead.items()}
        return Reach(
            frozenset((self.index, lane) for lane in lanes),
            frozenset((self.index, lane) for lane in lanes if lane not in ahead),
            read_to={(self.index, lane): to for lane, to in reached.items() if to is not None},
        )

    def _remember(self, noted: Noted, read: list[LandedFile]) -> None:
        """All that Spark has ever taken is read, whatever its time is now: it takes no path twice."""
        self._read.update((below(file.path, self.source.path), -1) for file in noted.taken_since(self._noted))
        self._read.update((below(file.path, self.source.path), file.size) for file in read)
        self._noted = max(self._noted, noted.entry)

    def _warn_of_change(self, name: str, now: LandedFile) -> None:
        """A file that was read has another size: whoever wrote it was not done, or wrote it again. Said once for each size."""
        size = self._read[name]
        if -1 not in (size, now.size) and size != now.size:
            self._read[name] = now.size
            warn_of(
                f"source {self.source.name!r}: {now.path} was read when it had {size:,} bytes, and has {now.size:,} now: a path is read once, so "
                "that what came since is not read. Write files under another name (1.json.tmp) and rename them when they are whole.",
                LossWarning,
            )

    def _read_to(self, looked: tuple[int, frozenset[str]] | None, unread: dict[str, LandedFile]) -> int | None:
        """The time up to which all that could be seen was read, where some files are unread: that of the last look, if it saw none of them."""
        if looked is None or not looked[1].isdisjoint(unread):
            return None
        if self.source.arrival is not None:
            return looked[0]
        return min(looked[0], min(file.modified for file in unread.values()) - 1)

    def lost(self, taken: list[TakenFile]) -> set[str]:
        """The lanes of files that were read once and are gone; where a column names the lanes, nobody can tell which."""
        there = self.in_sight() if taken else frozenset()
        gone = [file.path for file in taken if below(file.path, self.source.path) not in there]
        if gone and self.source.lane_column is not None:
            return {EVERY_LANE}
        return {lane_of(path, self.source.path, self.source.lane) for path in gone}

    def in_sight(self) -> frozenset[str]:
        """The files that have landed, by their paths below the source's."""
        base = file_system(self.source.path)[1]
        return frozenset(below(file.path, base) for file in self._readable())

    def has_read(self, seen: frozenset[str], noted: Noted) -> bool:
        """By Spark's log; a file that was removed before Spark saw it is none that could be read."""
        unread = seen - {below(file.path, self.source.path) for file in noted.taken_since(-1)}
        return not unread or unread.isdisjoint(self.in_sight())


def _as_found(file: LandedFile, info: FileInfo) -> LandedFile:
    if info.type == FileType.Unknown:
        return replace(file, fault="it is no file, but a pipe, a socket or a device")
    return replace(file, fault="it is gone") if info.size is None else replace(file, size=info.size)


def refuse_missing(source: FileSource) -> None:
    """A directory of this machine must be there; whether one elsewhere is, the reading of it says."""
    if not is_local(source.path) or any(sign in source.path for sign in "*?[{"):
        return
    path = Path(local_path(source.path))
    if source.mended and not path.exists():
        return  # a run makes it when it opens
    if not path.exists():
        whence = "" if path.is_absolute() else f" ({source.path} from {Path.cwd()}, where the process was started)"
        raise SourceRefused(
            f"source {source.name!r} reads {path.absolute()}{whence}, and there is no such directory. Make it, or give another path."
        )
    if not path.is_dir():
        raise SourceRefused(
            f"source {source.name!r} reads {path.absolute()}, which is no directory. Name the directory that the files land in."
        )
    if (link := leading_back(str(path))) is not None:
        raise SourceRefused(
            f"source {source.name!r} reads {path.absolute()}, and in it {link} is a link to {os.path.realpath(link)}, in which it lies itself: every "
            "file would be read some forty times. Remove the link."
        )


def _openable(source: FileSource) -> bool:
    if source.read == "spark":
        return False
    try:
        file_system(source.path)
    except StoreError:
        if source.read == "worker":
            raise
        return False
    return True


def _footer_kinds(source: FileSource) -> dict[str, pl.DataType]:
    """The columns of the oldest file that can be read."""
    import pyarrow.parquet as pq

    landed = list_files(source.path, source.format, source.lane)
    faults = [fault_text(file) for file in landed if file.fault is not None]
    for file in (file for file in landed if file.fault is None):
        files, path = file_system(file.path)
        try:
            with read_whole(file):
                empty = pl.from_arrow(pq.read_schema(files.open_input_file(path)).empty_table())
        except UnreadableFile as error:
            faults.append(str(error))
            continue
        assert isinstance(empty, pl.DataFrame)
        # Pandas writes its index as a column that begins with two underscores; such names are kept for us and are not read.
        named = {name: kind for name, kind in empty.schema.items() if not name.startswith("__")}
        return {name: pl.Datetime("us", "UTC") if isinstance(kind, pl.Datetime) else kind for name, kind in named.items()}
    found = f"{len(landed)} Parquet files, of which none can be read ({faults[0]})" if faults else "no Parquet file yet"
    raise DefinitionError(
        f'source {source.name!r}: {source.path} holds {found}, so its columns are unknown. Give schema="…" as Spark DDL.'
    )
