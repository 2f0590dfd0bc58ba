"""What `import eventide as ev` offers, each name from its home."""

from eventide.definition.stream import merge
from eventide.errors import DefinitionError, EventideError, LossWarning, OrderWarning
from eventide.model import aggregate as _aggregates
from eventide.model import exact as _exact
from eventide.model.aggregate import *  # noqa: F403 (every aggregate, by its __all__)
from eventide.model.exact import *  # noqa: F403 (those that are written by their meaning)
from eventide.model.expression import col
from eventide.model.policy import accumulate, divert, drop, retract
from eventide.model.trigger import after, at_expiry, every, every_rows, per_batch, per_row, when
from eventide.model.watermark import adaptive, ascending, bounded, custom, processing_time, punctuated
from eventide.model.window import session, sliding, tumbling
from eventide.pipeline import Pipeline
from eventide.sinks import (
    bigquery,
    clickhouse,
    console,
    delta,
    duckdb,
    function,
    iceberg,
    kafka_topic,
    merge_sql,
    parquet,
    postgres,
    redis,
    snowflake,
    sqlite,
    webhook,
)
from eventide.sources.delta import delta_table
from eventide.sources.files import files
from eventide.sources.formats import avro, json, protobuf, raw
from eventide.sources.frame import stream
from eventide.sources.generated import generated
from eventide.sources.kafka import kafka
from eventide.sources.mended import mended

__all__ = [
    "DefinitionError",
    "EventideError",
    "LossWarning",
    "OrderWarning",
    "Pipeline",
    "accumulate",
    "adaptive",
    "after",
    "ascending",
    "at_expiry",
    "avro",
    "bigquery",
    "bounded",
    "clickhouse",
    "col",
    "console",
    "custom",
    "delta",
    "delta_table",
    "divert",
    "drop",
    "duckdb",
    "every",
    "every_rows",
    "files",
    "function",
    "generated",
    "iceberg",
    "json",
    "kafka",
    "kafka_topic",
    "mended",
    "merge",
    "merge_sql",
    "parquet",
    "per_batch",
    "per_row",
    "postgres",
    "processing_time",
    "protobuf",
    "punctuated",
    "raw",
    "redis",
    "retract",
    "session",
    "sliding",
    "snowflake",
    "sqlite",
    "stream",
    "tumbling",
    "webhook",
    "when",
]
__all__ += _aggregates.__all__
__all__ += _exact.__all__
