"""Where panes go, one file for each kind behind one protocol."""

from eventide.sinks.base import Capabilities, Delivery, LogWriter, PaneWriter, Sink, StagedWriter
from eventide.sinks.changelog import CurrentRows, Deduplicator
from eventide.sinks.kinds.bigquery import bigquery
from eventide.sinks.kinds.clickhouse import clickhouse
from eventide.sinks.kinds.console import console
from eventide.sinks.kinds.delta import delta
from eventide.sinks.kinds.duckdb import duckdb
from eventide.sinks.kinds.function import function
from eventide.sinks.kinds.iceberg import iceberg
from eventide.sinks.kinds.kafka import kafka_topic
from eventide.sinks.kinds.merge_sql import merge_sql
from eventide.sinks.kinds.parquet import parquet
from eventide.sinks.kinds.postgres import postgres
from eventide.sinks.kinds.redis import redis
from eventide.sinks.kinds.snowflake import snowflake
from eventide.sinks.kinds.sqlite import sqlite
from eventide.sinks.kinds.webhook import webhook
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.warehouse import MergeDialect

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
    "bigquery",
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
    "redis",
    "snowflake",
    "sqlite",
    "webhook",
]
