"""BigQuery's client in front of DuckDB: each statement is parsed as BigQuery's, and said in DuckDB's words.

What it shows: that every statement is one of BigQuery's by sqlglot's grammar, and what the statements do together. What it does not: the real
service's limits, quotas, types beyond those here, and what it answers when it is overrun.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

TYPES = {
    "VARCHAR": "STRING", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "TIMESTAMP": "DATETIME", "BIGINT": "INT64", "DOUBLE": "FLOAT64",
    "BOOLEAN": "BOOL", "BLOB": "BYTES",
}  # fmt: skip
"""What DuckDB calls the types that BigQuery's catalogue reports."""


def in_duckdb(statement: str) -> str:
    """A statement of BigQuery's in DuckDB's words; one that BigQuery would not parse is an error."""
    tree = sqlglot.parse_one(statement, read="bigquery")
    for keyed in tree.find_all(exp.Table):
        if keyed.name.upper().startswith("INFORMATION_SCHEMA") or keyed.db.upper() == "INFORMATION_SCHEMA":
            keyed.replace(sqlglot.to_table(f"information_schema.{keyed.name.split('.')[-1].lower()}"))
    for options in list(tree.find_all(exp.Properties)):
        options.pop()
    return tree.sql(dialect="duckdb").replace(" NOT ENFORCED", "")


class FakeCursor:
    """As DB-API has it."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def execute(self, statement: str, parameters: Any = None) -> FakeCursor:
        self.base.execute(in_duckdb(statement.replace("%s", "?")), parameters)
        return self

    def fetchall(self) -> list[Any]:
        rows = self.base.fetchall()
        if [column[0] for column in self.base.description] != ["column_name", "data_type"]:
            return rows
        return [(name, TYPES.get(kind, kind.replace("DECIMAL", "NUMERIC"))) for name, kind in rows]

    @property
    def description(self) -> Any:
        return self.base.description

    def close(self) -> None:
        """The connection stays."""


class FakeBigQuery:
    """A connection, and the client behind it that takes load jobs."""

    def __init__(self, path: Path) -> None:
        self.base = duckdb.connect(str(path))
        self.base.execute("create schema if not exists sales")
        self.base.execute("set timezone = 'UTC'")
        self._client = self

    def cursor(self) -> FakeCursor:
        return FakeCursor(self.base)

    def commit(self) -> None:
        """Each statement is whole in itself."""

    def load_table_from_file(self, file: Any, table: str, job_config: Any) -> FakeBigQuery:
        loaded = pq.read_table(file)
        self.base.register("loaded", loaded)
        self.base.execute(f"insert into {table} by name select * from loaded")
        self.base.unregister("loaded")
        return self

    def result(self) -> None:
        """It is done."""

    def close(self) -> None:
        self.base.close()
