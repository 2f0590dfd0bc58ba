"""BigQuery: rows come by a load job, and one MERGE applies them by rank."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from eventide.sinks import plain
from eventide.sinks.libraries import need
from eventide.sinks.retry import Retry
from eventide.sinks.sql_target import distinct
from eventide.sinks.warehouse import MergeDialect, MergeSink

TYPES = {"boolean": "BOOL", "bigint": "INT64", "double precision": "FLOAT64", "bytea": "BYTES", "date": "DATE"}
PASSING = (
    "Could not serialize",
    "rateLimitExceeded",
    "backendError",
    "internalError",
    "jobRateLimitExceeded",
    "exceeded rate limits",
)
"""What answers say that may be others later."""
WHOLE_DIGITS = 29
"""So many digits before the point has NUMERIC, and so many after it are 9."""


@dataclass(frozen=True)
class BigQueryDialect(MergeDialect):
    """What BigQuery says differently. Its tables live in a dataset, so all names are said with it.

    >>> BigQueryDialect("acme.sales").located("totals"), BigQueryDialect("acme.sales").type_of(pa.int64())
    ('`acme`.`sales`.`totals`', 'INT64')
    """

    dataset: str
    longest_name = 300
    temporary = (
        "create table {name} ({columns}) options (expiration_timestamp = timestamp_add(current_timestamp(), interval 1 day))"
    )
    key = "primary key ({columns}) not enforced"
    replaces_views = True

    def quote(self, name: str) -> str:
        """Between backticks, where a backslash escapes."""
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def located(self, name: str) -> str:
        return ".".join(self.quote(part) for part in (*self.dataset.split("."), name))

    def type_of(self, kind: pa.DataType) -> str:
        if kinds.is_timestamp(kind):
            return "TIMESTAMP" if kind.tz else "DATETIME"
        if kinds.is_decimal(kind):
            fits = kind.scale <= 9 and kind.precision - kind.scale <= WHOLE_DIGITS
            return f"{'NUMERIC' if fits else 'BIGNUMERIC'}({kind.precision}, {kind.scale})"
        if kinds.is_time(kind):
            return "TIME"
        return TYPES.get(super().type_of(kind), "STRING")

    def catalogue(self) -> str:
        where = self.located("INFORMATION_SCHEMA").replace("`INFORMATION_SCHEMA`", "INFORMATION_SCHEMA")
        return f"select column_name, data_type from {where}.COLUMNS where table_name = %s order by ordinal_position"

    def views(self) -> str:
        where = self.located("INFORMATION_SCHEMA").replace("`INFORMATION_SCHEMA`", "INFORMATION_SCHEMA")
        return f"select 1 from {where}.VIEWS where table_name = %s"

    def distinct(self, table: str, column: str, texts: Iterable[str]) -> str:
        return distinct(table, column, texts).replace(" union select", " union distinct select")

    def stage(self, connection: Any, staging: str, rows: pa.Table) -> None:
        """One load job of a Parquet file: rows by INSERT would be a job each."""
        columns = [plain.as_text(column) if plain.is_nested(column.type) else column for column in rows.columns]
        file = io.BytesIO()
        pq.write_table(pa.table(dict(zip(rows.column_names, columns, strict=True))), file)
        file.seek(0)
        bigquery = need("google.cloud.bigquery", "bigquery")
        config = bigquery.LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND")
        connection._client.load_table_from_file(file, staging.replace("`", ""), job_config=config).result()

    def transient(self, error: Exception) -> bool:
        said = str(error)
        names = {kind.__name__ for kind in type(error).__mro__}
        passing = ("ServerError", "TooManyRequests", "RetryError", "TransportError")
        return super().transient(error) or not names.isdisjoint(passing) or any(word in said for word in PASSING)


def bigquery(dataset: str, table: str | None = None, *, retry: Retry | None = None, **settings: Any) -> MergeSink:
    """Results into a BigQuery dataset ("sales", or "project.sales"). `settings` are those of `google.cloud.bigquery.Client`.

    >>> bigquery("acme.sales", "totals").dialect.located("totals_panes")
    '`acme`.`sales`.`totals_panes`'
    """

    def connect() -> Any:
        client = need("google.cloud.bigquery", "bigquery").Client(**settings)
        return need("google.cloud.bigquery.dbapi", "bigquery").connect(client=client)

    return MergeSink(connect, BigQueryDialect(dataset), table, retry or Retry())
