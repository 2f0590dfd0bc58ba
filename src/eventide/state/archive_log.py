"""The archive's log where it is a Delta table: the files of committed batches, each entered once.

Workers write the files, whatever the format. After a batch has been committed the driver enters its files in the table's log, together with
the batch's number: files of an earlier try are never entered, and what a crash kept from being entered is entered next time.
"""

from __future__ import annotations

import json
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventide.sinks.libraries import need
from eventide.state.archive import NO_DAY, ArchivedFile, by_name, files_of
from eventide.state.ledger import Ledger
from eventide.storage.opened import data_files

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

DAYS = ("arrival_day", "event_day")


def publish(root: str, generation: int, ledger: Ledger, written: list[str] | None = None) -> None:
    """Enter the files of all committed batches that the log does not have yet: those given, or else all that are there."""
    deltalake = need("deltalake", "delta")
    known = deltalake.DeltaTable.is_deltatable(root)
    table = deltalake.DeltaTable(root) if known else None
    entered = None if table is None else table.transaction_version(_writer(generation))
    files = files_of(root, generation, ledger) if written is None else by_name(root, written, generation, ledger)
    fresh = [file for file in files if entered is None or file.batch > entered]
    if not fresh:
        return
    facts = [_footer(file) for file in fresh]
    days: list[pa.Field[Any]] = [pa.field(name, pa.string()) for name in DAYS]
    schema = pa.unify_schemas([*(schema for schema, _, _ in facts), pa.schema(days)], promote_options="permissive")
    if table is None:
        table = deltalake.DeltaTable.create(root, schema, partition_by=list(DAYS))
    _widen(deltalake, table, schema)
    actions = [_action(deltalake, file, rows, size) for file, (_, rows, size) in zip(fresh, facts, strict=True)]
    # A run that started over has read everything again: its first files take the place of all others.
    mode = "overwrite" if known and entered is None else "append"
    number = deltalake.Transaction(_writer(generation), max(file.batch for file in fresh))
    properties = deltalake.CommitProperties(app_transactions=[number])
    table.create_write_transaction(actions, mode, table.schema(), list(DAYS), commit_properties=properties)


def _writer(generation: int) -> str:
    return f"eventide archive, generation {generation}"


def _footer(file: ArchivedFile) -> tuple[pa.Schema, int, int]:
    body = data_files(file.root).open(file.path)
    with pq.ParquetFile(body) as opened:
        return opened.schema_arrow.remove_metadata(), opened.metadata.num_rows, body.size()


def _widen(deltalake: ModuleType, table: DeltaTable, schema: pa.Schema) -> None:
    """Columns that came later are added to the table."""
    have = {field.name for field in table.schema().fields}
    added = [field for field in deltalake.Schema.from_arrow(schema).fields if field.name not in have]
    if added:
        table.alter.add_columns(added)


def _action(deltalake: ModuleType, file: ArchivedFile, rows: int, size: int) -> AddAction:
    days = dict(part.split("=", 1) for part in file.path.split("/")[:-1])
    values = {name: None if days[name] == NO_DAY else days[name] for name in DAYS}
    return deltalake.transaction.AddAction(file.path, size, values, 0, True, json.dumps({"numRecords": rows}))


__all__ = ["publish"]
