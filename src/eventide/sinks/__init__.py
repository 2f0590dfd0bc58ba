"""Where panes go, one file for each kind behind one protocol."""

from eventide.sinks.base import Capabilities, Delivery, LogWriter, PaneWriter, Sink, StagedWriter
from eventide.sinks.changelog import CurrentRows, Deduplicator
from eventide.sinks.clickhouse import clickhouse
from eventide.sinks.console import console
from eventide.sinks.delta import delta
from eventide.sinks.duckdb import duckdb
from eventide.sinks.function import function
from eventide.sinks.iceberg import iceberg
from eventide.sinks.kafka import kafka_topic
from eventide.sinks.merge_sql import MergeDialect, merge_sql
from eventide.sinks.parquet import parquet
from eventide.sinks.postgres import postgres
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sqlite import sqlite
from eventide.sinks.webhook import webhook

__all__ = [
    "Capabilities",
    "CurrentRows",
    "Deduplicator",
    "Delivery",
    "LogWriter",
    "MergeDialect",
    "PaneShape",
    "PaneWriter",
    "Retry",
    "Sink",
    "StagedWriter",
    "clickhouse",
    "console",
    "delta",
    "duckdb",
    "function",
    "iceberg",
    "kafka_topic",
    "merge_sql",
    "parquet",
    "postgres",
    "sqlite",
    "webhook",
]
