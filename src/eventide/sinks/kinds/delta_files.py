"""The files of a Delta table: which can hold a window, and some exchanged for others in one commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from eventide.sinks.lake import fitted
from eventide.sinks.libraries import need
from eventide.sinks.sql_generations import EPOCH, MICRO
from eventide.sinks.upkeep import crowded

FIRST, LAST = -30_610_224_000_000_000, 253_402_300_799_000_000
"""Instants of the years 1000 to 9999: of others a file says nothing, since their texts are not read alike everywhere."""


class DeltaFiles:
    """A table at one version. What is committed goes upon that version, or not at all."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.store = table.to_pyarrow_dataset().filesystem
        self.added = pa.table(table.get_add_actions(flatten=True))

    def near(self, bounds: Mapping[str, tuple[int, int]]) -> list[str]:
        """The files that can hold rows inside the bounds; one that says nothing about itself can."""
        paths: list[Any] = self.added["path"].to_pylist()
        chosen = np.ones(len(paths), dtype=bool)
        for name, (low, high) in bounds.items():
            if {f"min.{name}", f"max.{name}"} <= set(self.added.column_names):
                # Statistics of instants are in whole milliseconds, whoever wrote them.
                slack = 1000 if pa.types.is_timestamp(self.added[f"max.{name}"].type) else 0
                least, most = (
                    pl.Series(self.added[f"{end}.{name}"].cast(pa.int64())).fill_null(unknown).to_numpy()
                    for end, unknown in (("min", low), ("max", high))
                )
                chosen &= (least <= high) & (most >= low - slack)
        return [path for path, fits in zip(paths, chosen, strict=True) if fits]

    def read(self, path: str, schema: pa.Schema, names: list[str] | None = None) -> pa.Table:
        """The rows of a file, or some of its columns; nulls where it is older than a column."""
        wanted = schema if names is None else pa.schema([schema.field(name) for name in names])
        return fitted(pq.read_table(path, filesystem=self.store, columns=names, partitioning=None), wanted)

    def compact(self) -> None:
        """Put crowded small files together; no row changes."""
        paths: list[Any] = self.added["path"].to_pylist()
        sizes: list[Any] = self.added["size_bytes"].to_pylist()
        chosen = [paths[n] for n in crowded(sizes)]
        if chosen:
            schema = pa.schema(self.table.schema().to_arrow())
            self.exchange(chosen, [pa.concat_tables([self.read(path, schema) for path in chosen])], changes=False)

    def exchange(self, old: list[str], new: list[pa.Table], changes: bool = True) -> None:
        """Some files for others, in one commit; none where another writer has made a commit in between."""
        transaction = need("deltalake.transaction", "delta")
        now = int(time.time() * 1000)
        removed = [self._removed(transaction, path, now, changes) for path in old]
        added = [self._written(transaction, rows, now, changes) for rows in new if rows.num_rows]
        once = transaction.CommitProperties(max_commit_retries=0)
        # Files that a failed commit has left are left: it may have landed, and only its answer been lost on the way.
        self.table.create_write_transaction([*removed, *added], "append", self.table.schema(), commit_properties=once)

    def _removed(self, transaction: Any, path: str, now: int, changes: bool) -> Any:
        return transaction.RemoveAction(path=path, deletion_timestamp=now, data_change=changes)

    def _written(self, transaction: Any, rows: pa.Table, now: int, changes: bool) -> Any:
        path = f"part-{uuid.uuid4()}.zstd.parquet"
        pq.write_table(rows, path, filesystem=self.store, compression="zstd")
        size = self.store.get_file_info(path).size
        return transaction.AddAction(path, size, {}, now, changes, json.dumps(statistics(rows)))


def statistics(rows: pa.Table) -> dict[str, Any]:
    """What a reader goes by to leave a file out: the ranges of numbers and instants, the latter in whole milliseconds."""
    least, most = {}, {}
    for field in rows.schema:
        instant = pa.types.is_timestamp(field.type)
        if not (instant or pa.types.is_integer(field.type)):
            continue
        found: Any = pa.compute.min_max(rows[field.name].cast(pa.int64()))
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None and not (instant and (low < FIRST or high > LAST)):
            least[field.name] = _stamp(low // 1000) if instant else low
            most[field.name] = _stamp(-(-high // 1000)) if instant else high
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": {}}


def _stamp(millis: int) -> str:
    moment: datetime = EPOCH + millis * 1000 * MICRO
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis % 1000:03d}Z"
