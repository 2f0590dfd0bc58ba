"""The files of an Iceberg table: small ones put together, and those removed that only expired snapshots had."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from eventide.sinks.lake import fitted
from eventide.sinks.libraries import need
from eventide.sinks.sql_generations import EPOCH, MICRO
from eventide.sinks.upkeep import crowded


class IcebergFiles:
    """A table at one snapshot. What is committed goes upon that snapshot, or not at all."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.expressions, self.reading = (need(f"pyiceberg.{name}", "iceberg") for name in ("expressions", "io.pyarrow"))

    def near(self, bounds: Mapping[str, tuple[int, int]]) -> list[Any]:
        """The files that can hold rows inside the bounds, by the ranges that the table's manifests note."""
        chosen, schema = self.expressions.AlwaysTrue(), self.table.schema().as_arrow()
        for name, ends in bounds.items():
            instant = pa.types.is_timestamp(schema.field(name).type)
            low, high = ((EPOCH + end * MICRO).isoformat() if instant else end for end in ends)
            inside = self.expressions.And(
                self.expressions.GreaterThanOrEqual(name, low), self.expressions.LessThanOrEqual(name, high)
            )
            chosen = self.expressions.And(chosen, inside)
        return list(self.table.scan(row_filter=chosen).plan_files())

    def read(self, file: Any, schema: pa.Schema, names: list[str] | None = None) -> pa.Table:
        """The rows of a file, or some of its columns; nulls where it is older than a column."""
        return fitted(self._scanned([file], names), schema if names is None else pa.schema([schema.field(n) for n in names]))

    def _scanned(self, files: list[Any], names: list[str] | None = None) -> pa.Table:
        columns = self.table.schema() if names is None else self.table.schema().select(*names)
        every = self.expressions.AlwaysTrue()
        scan = self.reading.ArrowScan(self.table.metadata, self.table.io, columns, every)
        return pa.table(scan.to_table(files))

    def compact(self) -> None:
        """Put crowded small files together; no row changes."""
        files = self.near({})
        chosen = [files[n] for n in crowded([file.file.file_size_in_bytes for file in files])]
        if chosen:
            self.exchange(chosen, [self._scanned(chosen)], tidy=True)

    def exchange(self, old: list[Any], new: list[pa.Table], tidy: bool = False) -> None:
        """Some files for others, in one commit; none where another writer has made one in between.

        The last of the new ones goes in by an append of its own: only an append leaves empty manifests out, and can put small
        ones together.
        """
        *kept, last = new
        with self.table.transaction() as changes:
            if old:
                with changes.update_snapshot().overwrite() as snapshot:
                    for file in old:
                        snapshot.delete_data_file(file.file)
                    for rows in kept:
                        self._write(rows, changes, snapshot)
            update = changes.update_snapshot()
            with update.merge_append() if tidy else update.fast_append() as snapshot:
                self._write(last, changes, snapshot)

    def _write(self, rows: pa.Table, changes: Any, snapshot: Any) -> None:
        # Under a name of its own: the library numbers only the files of one call.
        if rows.num_rows:
            for file in self.reading._dataframe_to_data_files(changes.table_metadata, rows, self.table.io, uuid.uuid4()):
                snapshot.append_data_file(file)


class Snapshots:
    """What snapshots consist of. None of it ever changes, so what was read once is remembered."""

    def __init__(self) -> None:
        self.manifests: dict[int, tuple[str, dict[str, Any]]] = {}
        self.data: dict[str, set[str]] = {}

    def of(self, snapshots: list[Any], io: Any) -> set[str]:
        """Every file that one of the snapshots needs."""
        needed: set[str] = set()
        for snapshot in snapshots:
            listed, manifests = self._manifests(snapshot, io)
            needed.add(listed)
            for path, manifest in manifests.items():
                needed |= {path} | self._data(path, manifest, io)
        return needed

    def _manifests(self, snapshot: Any, io: Any) -> tuple[str, dict[str, Any]]:
        if snapshot.snapshot_id not in self.manifests:
            found = {manifest.manifest_path: manifest for manifest in snapshot.manifests(io)}
            self.manifests[snapshot.snapshot_id] = (snapshot.manifest_list, found)
        return self.manifests[snapshot.snapshot_id]

    def _data(self, path: str, manifest: Any, io: Any) -> set[str]:
        if path not in self.data:
            self.data[path] = {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)}
        return self.data[path]

    def forget_all_but(self, snapshots: list[Any]) -> None:
        """Let go of what is known of snapshots that are gone."""
        self.manifests = {s.snapshot_id: self.manifests[s.snapshot_id] for s in snapshots if s.snapshot_id in self.manifests}
        paths = {path for _, manifests in self.manifests.values() for path in manifests}
        self.data = {path: found for path, found in self.data.items() if path in paths}


def expire(table: Any, keep_for: int, files: Snapshots) -> None:
    """Remove snapshots that are older than they are kept, and afterwards the files that no other snapshot needs."""
    before = datetime.now(UTC) - timedelta(microseconds=keep_for)
    there = table.snapshots()
    if not any(snapshot.timestamp_ms < before.timestamp() * 1000 for snapshot in there):
        return
    unneeded = files.of(there, table.io)
    table.maintenance.expire_snapshots().older_than(before).commit()
    standing = table.refresh().snapshots()
    unneeded -= files.of(standing, table.io)
    files.forget_all_but(standing)
    for path in unneeded:
        with contextlib.suppress(FileNotFoundError):
            table.io.delete(path)
