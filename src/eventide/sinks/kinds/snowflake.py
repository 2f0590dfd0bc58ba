"""Snowflake: MERGE by rank, through Snowflake's own connector."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from eventide.sinks import plain
from eventide.sinks.libraries import need
from eventide.sinks.retry import Retry
from eventide.sinks.warehouse import MergeDialect, MergeSink

TYPES = {"boolean": "boolean", "bigint": "number(38,0)", "double precision": "float", "bytea": "binary", "date": "date"}
"""Snowflake's words for those of the standard dialect, as its information_schema reports them."""
PASSING = (390114, 390144, 390195, 250001, 250003, 604, 625)
"""Errors that may pass: sessions that expired, connections that broke, statements that were cancelled or waited too long for a lock."""


class SnowflakeDialect(MergeDialect):
    """What Snowflake says differently.

    >>> SnowflakeDialect().type_of(pa.int64()), SnowflakeDialect().type_of(pa.timestamp("us", tz="UTC"))
    ('number(38,0)', 'timestamp_tz(6)')
    """

    longest_name = 255
    replaces_views = True

    def type_of(self, kind: pa.DataType) -> str:
        if kinds.is_timestamp(kind):
            return "timestamp_tz(6)" if kind.tz else "timestamp_ntz(6)"
        if kinds.is_decimal(kind):
            return f"number({kind.precision},{kind.scale})"
        if kinds.is_time(kind):
            return "time(6)"
        return TYPES.get(super().type_of(kind), "text")

    def value(self, value: Any, kind: pa.DataType) -> Any:
        """Floats that are no finite numbers are said as texts, which a column of floats takes; as numbers they are no SQL."""
        said = super().value(value, kind)
        return plain.plain(said).replace("Infinity", "inf") if isinstance(said, float) and not math.isfinite(said) else said

    def transient(self, error: Exception) -> bool:
        """By the number of the error, which OperationalError alone would not tell."""
        return getattr(error, "errno", None) in PASSING or super().transient(error)


def snowflake(table: str | None = None, *, retry: Retry | None = None, **settings: Any) -> MergeSink:
    """Results into Snowflake. `settings` are those of `snowflake.connector.connect`: account, user, database, schema, warehouse, role and so on.

    Names are quoted, so tables and columns keep their case: `select "total" from "totals"`.

    >>> snowflake("totals", account="acme", user="eventide", database="SALES", schema="PUBLIC").table
    'totals'
    """
    settings.setdefault("autocommit", False)

    def connect() -> Any:
        return need("snowflake.connector", "snowflake").connect(**settings)

    return MergeSink(connect, SnowflakeDialect(), table, retry or Retry())
