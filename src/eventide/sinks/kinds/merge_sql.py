"""A warehouse of the user's own: any DB-API connection, and a dialect of MERGE."""

from __future__ import annotations

from eventide.sinks.retry import Retry
from eventide.sinks.warehouse import Connect, MergeDialect, MergeSink


def merge_sql(
    connect: Connect, dialect: MergeDialect | None = None, table: str | None = None, *, retry: Retry | None = None
) -> MergeSink:
    """Results into any database with MERGE, through a function that gives a DB-API connection.

    The dialect is where your warehouse differs: subclass `MergeDialect` and override types, quoting or the statement.
    """
    return MergeSink(connect, dialect or MergeDialect(), table, retry or Retry())
