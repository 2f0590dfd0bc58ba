"""The archive: every event as it arrived, in Parquet files by day of arrival and day of event; never late, never corrected.

A batch writes files whose names follow from the generation, the batch, the lane, the chunk and the run that wrote them. Those of a batch that was
never committed are not read, nor those of a run that did not commit it: a transform that was mended in between may cut its rows otherwise.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import quote, unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eventide.definition.pipeline import Pipeline
from eventide.errors import DefinitionError
from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, OFFSET, RAW, TIME
from eventide.kernel.place import ARCHIVED
from eventide.model.event import LaneId
from eventide.sinks.shape import aside, named_aside
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.state.store import LONGEST, attempted
from eventide.storage.address import from_here
from eventide.storage.opened import data_files

NAME = re.compile(r"g(\d+)-b(\d{12})-s(\d+)-([^/]*)-(\d{6})(?:@([0-9a-f]+))?\.parquet$")
SHORTENED = "@"
"""Stands in a file's name where its lane was cut short; in a whole one it would be quoted."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
PLACE = tuple(column.name for column in ARCHIVED)


@dataclass
class ArchiveWriter:
    """Writes one lane's rows of one batch, chunk by chunk."""

    root: str
    batch: int
    lane: LaneId
    source: str
    generation: int = 0
    attempt: str = ""
    chunk: int = field(default=0, init=False)
    written: list[str] = field(default_factory=list, init=False)

    def see(self, rows: pl.DataFrame) -> None:
        """Put a chunk away, cut by day of arrival and day of event."""
        framed = _framed(rows, self.source)
        arrived, happened = (
            pl.col(named_aside(name, framed.columns)).dt.strftime("%Y-%m-%d") for name in ("_arrival", "_event_time")
        )
        days = framed.with_columns(arrived.alias("__arrived"), happened.fill_null(NO_DAY).alias("__happened"))
        place = f"g{self.generation}-b{self.batch:012d}-s{self.lane[0]}"
        name = f"{attempted(f'{place}-{_lane_text(self.lane[1])}-{self.chunk:06d}', self.attempt)}.parquet"
        files = data_files(self.root)
        for (arrived, happened), part in days.partition_by("__arrived", "__happened", as_dict=True).items():
            body = io.BytesIO()
            pq.write_table(part.drop("__arrived", "__happened").to_arrow(), body, compression="zstd")
            self.written.append(f"arrival_day={arrived}/event_day={happened}/{name}")
            files.put(self.written[-1], body.getbuffer())
        self.chunk += 1

    def close(self) -> list[str]:
        """Every chunk is on its way already; where it is."""
        return self.written

    def forget(self) -> None:
        """Take back every chunk: by their names they would count as this run's."""
        data_files(self.root).delete(*self.written)


def _lane_text(lane: str) -> str:
    """A lane as part of a file's name, from which it can be read back; one that is too long is cut, with a hash to tell it from others.

    >>> _lane_text("north/1")
    'north%2F1'
    """
    quoted = quote(lane, safe="")
    if len(quoted) <= LONGEST:
        return quoted
    return f"{quoted[:LONGEST]}{SHORTENED}{hashlib.sha256(lane.encode()).hexdigest()[:16]}"


def _framed(rows: pl.DataFrame, source: str) -> pl.DataFrame:
    own = [name for name in rows.columns if not name.startswith("__")]
    bytes_too = rows if RAW in rows.columns else rows.with_columns(pl.lit(None, dtype=pl.Binary).alias(RAW))
    placed = bytes_too.with_columns(pl.lit(source).alias("__source_name"))
    return placed.select(*own, *[column.value.alias(aside(column.name, own)) for column in ARCHIVED])


@dataclass(frozen=True)
class ArchivedFile:
    """A file of the archive, by what its name says."""

    root: str
    """The archive as the user names it: by it alone the file system is known."""
    path: str
    """Below the archive's root: two days and a name."""
    batch: int
    lane: LaneId
    chunk: int
    shortened: bool = False
    """The lane is only the beginning of its name and a hash; its rows have the whole of it."""

    @property
    def url(self) -> str:
        """The file as Spark reads it."""
        return f"{self.root.rstrip('/')}/{self.path}"

    def open(self) -> pq.ParquetFile:
        """The file in the file system of its archive."""
        return pq.ParquetFile(data_files(self.root).open(self.path))


def archived_files(pipeline: Pipeline, upto: Ledger | None = None) -> list[ArchivedFile]:
    """The files of the committed batches of the state's generation, or of those up to one: a run that started over has read everything again."""
    if pipeline.archive is None:
        raise DefinitionError(
            f'pipeline {pipeline.name!r} keeps no archive. Give it one: Pipeline(…, archive="archive/{pipeline.name}"); '
            "events that arrived before that are not in it."
        )
    state = State.of(pipeline)
    return files_of(pipeline.archive, state.generation, upto or state.committed or Ledger())


def files_of(root: str, generation: int, ledger: Ledger) -> list[ArchivedFile]:
    """The files of one generation's committed batches, lane by lane in order."""
    root = from_here(root)  # workers open them, and Spark
    return by_name(root, _listed(root), generation, ledger)


def clear_uncommitted(root: str, generation: int, ledger: Ledger, *, tries: bool = False) -> None:
    """Remove what runs have left of committed batches that they did not commit, and with `tries` what they have left of the batch after those.

    This lists the whole archive: once in a run is enough.
    """
    matches = {path: NAME.search(path) for path in _listed(root)}
    ours = {path: found for path, found in matches.items() if found is not None and int(found[1]) == generation}
    # Of a batch after those, whoever is at it may yet commit.
    left = [p for p, found in ours.items() if (tries or int(found[2]) <= ledger.batch) and not _stands(found, ledger)]
    data_files(root).delete(*left)


def newest_generation(root: str) -> int:
    """The highest generation whose events an archive holds; -1 if it holds none."""
    return max((int(match[1]) for path in _listed(root) if (match := NAME.search(path)) is not None), default=-1)


def _listed(root: str) -> list[str]:
    return list(data_files(root).sizes(""))


def _stands(match: re.Match[str], ledger: Ledger) -> bool:
    """Whether a file is of a committed batch and of the run that committed it."""
    return int(match[2]) <= ledger.batch and (match[6] or "") == ledger.attempt_of(int(match[2]))


def by_name(root: str, paths: list[str], generation: int, ledger: Ledger) -> list[ArchivedFile]:
    """Those of an archive's files that belong to a generation and its committed batches."""
    found = []
    for path in paths:
        match = NAME.search(path)
        if match is not None and int(match[1]) == generation and _stands(match, ledger):
            lane, shortened = unquote(match[4]), SHORTENED in match[4]
            found.append(ArchivedFile(root, path, int(match[2]), (int(match[3]), lane), int(match[5]), shortened))
    return sorted(found, key=lambda f: (f.lane, f.batch, f.chunk, f.path))


def lane_chunks(files: list[ArchivedFile], columns: dict[str, pl.DataType]) -> Iterator[pl.DataFrame]:
    """One lane's archived rows in order, ready for the kernel."""
    for _, rows in lane_rows(files, list(columns), ("_offset", "_arrival", "_event_time", "_dead")):
        yield rows.select(
            *columns,
            pl.col("@_arrival").dt.epoch("us").alias(ARRIVAL),
            pl.col("@_offset").alias(OFFSET),
            pl.col("@_event_time").dt.epoch("us").alias(TIME),
            pl.lit(False).alias(MARKER),
            pl.col("@_dead").alias(DEAD),
        )


def lane_rows(
    files: list[ArchivedFile], columns: list[str] | None = None, places: Sequence[str] = PLACE
) -> Iterator[tuple[int, pl.DataFrame]]:
    """One lane's archived rows in order, with the batch that they came in: some of the user's columns (None: all), and some of ours with an @ before their names.

    Days that were cut apart are put together again.
    """
    groups: dict[tuple[int, int], list[ArchivedFile]] = {}
    for file in files:
        groups.setdefault((file.batch, file.chunk), []).append(file)
    for (batch, _), group in sorted(groups.items()):
        parts = [_read(file, columns, list(places)) for file in group]
        yield batch, pl.concat(parts, how="diagonal_relaxed").sort("@_offset")


def archived_kinds(files: list[ArchivedFile]) -> dict[str, pl.DataType]:
    """The user's columns in the files of a source with their types, by their footers."""
    schemas = []
    for file in files:
        with file.open() as opened:
            ours = {named_aside(place, opened.schema_arrow.names) for place in PLACE}
            schemas.append(pa.schema([field for field in opened.schema_arrow if field.name not in ours]))
    empty = pl.from_arrow(pa.unify_schemas(schemas, promote_options="permissive").empty_table())
    assert isinstance(empty, pl.DataFrame)
    return dict(empty.schema)


def _read(file: ArchivedFile, columns: list[str] | None, places: list[str]) -> pl.DataFrame:
    """Some of the user's columns (None: all), and some of ours with an @ before their names: they may have stepped aside."""
    with file.open() as opened:
        have = opened.schema_arrow.names
        named = {place: named_aside(place, have) for place in places}
        if columns is None:
            ours = {named_aside(place, have) for place in PLACE}
            columns = [name for name in have if name not in ours]
        wanted = [*(c for c in columns if c in have), *named.values()]
        frame = pl.from_arrow(opened.read(list(dict.fromkeys(wanted)), use_threads=False))
    assert isinstance(frame, pl.DataFrame)
    return frame.select(*(c for c in columns if c in have), *[pl.col(name).alias(f"@{place}") for place, name in named.items()])


def archived_lanes(pipeline: Pipeline) -> dict[LaneId, partial[Iterator[pl.DataFrame]]]:
    """How a worker reads each archived lane in order, times and places only."""
    return lanes_of(archived_files(pipeline))


def lanes_of(files: list[ArchivedFile]) -> dict[LaneId, partial[Iterator[pl.DataFrame]]]:
    """Files by their true lanes, each with how it is read."""
    return {lane: partial(lane_chunks, own, {}) for lane, own in lane_files(files).items()}


def lane_files(files: list[ArchivedFile]) -> dict[LaneId, list[ArchivedFile]]:
    """Files by their true lanes; a name that was cut short is asked for once."""
    named: dict[LaneId, list[ArchivedFile]] = {}
    for file in files:
        named.setdefault(file.lane, []).append(file)
    lanes: dict[LaneId, list[ArchivedFile]] = {}
    for same in named.values():
        lanes.setdefault(_true_lane(same[0]), []).extend(same)
    return lanes


def _true_lane(file: ArchivedFile) -> LaneId:
    """A lane whose name was too long for a file's is named by the file's rows."""
    return (file.lane[0], _read(file, [], ["_lane"])["@_lane"][0]) if file.shortened else file.lane


__all__ = ["PLACE", "ArchiveWriter", "archived_files", "archived_lanes", "clear_uncommitted", "lane_chunks"]
