"""Where a row stands, written down once: its columns inside the engine, and how late rows, dead letters and the archive show them to users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from eventide.kernel.columns import (
    ARRIVAL,
    BEHIND,
    DEAD,
    LANE,
    MISSED_FIRST,
    MISSED_LAST,
    OFFSET,
    RAW,
    SOURCE,
    TIME,
    dated,
    instant,
)
from eventide.kernel.judge import W

WHOLE, TEXT, BYTES, WHEN = pl.Int64(), pl.String(), pl.Binary(), pl.Datetime("us", "UTC")
_ARROW = {WHOLE: pa.int64(), TEXT: pa.string(), BYTES: pa.binary(), WHEN: pa.timestamp("us", "UTC")}
_DDL = {WHOLE: "bigint", TEXT: "string", BYTES: "binary", WHEN: "timestamp_ltz"}

PLACE: dict[str, pl.DataType] = {ARRIVAL: WHOLE, SOURCE: WHOLE, LANE: TEXT, OFFSET: WHOLE, TIME: WHOLE}
"""What every row carries inside the engine."""
KEPT: dict[str, pl.DataType] = {**PLACE, BEHIND: pl.Boolean()}
"""What a row carries that waits for its verdict."""
REFUSED: dict[str, pl.DataType] = {**PLACE, W: WHOLE, MISSED_FIRST: WHOLE, MISSED_LAST: WHOLE}
"""What a row carries that an output refused."""


@dataclass(frozen=True)
class Shown:
    """One of our columns in a table that users read."""

    name: str
    kind: pl.DataType
    value: pl.Expr


GENERATION = pl.col("__generation")
"""Put beside the rows by who shows them."""

LATE = (
    Shown("_source", WHOLE, pl.col(SOURCE)),
    Shown("_lane", TEXT, pl.col(LANE)),
    Shown("_offset", WHOLE, pl.col(OFFSET)),
    Shown("_arrival", WHEN, instant(ARRIVAL)),
    Shown("_event_time", WHEN, instant(TIME)),
    Shown("_watermark", WHEN, dated(W)),
    Shown("_missed_first_end", WHEN, instant(MISSED_FIRST)),
    Shown("_missed_last_end", WHEN, instant(MISSED_LAST)),
    Shown("_lateness_us", WHOLE, pl.col(W) - pl.col(MISSED_LAST)),
    Shown("_generation", WHOLE, GENERATION),
)
"""Rows that an output refused: after the user's own columns, where they were, what W was, and which windows they missed."""

AUDITED = (*LATE[:5], LATE[-1])
"""Events as they were judged: after the user's own columns, where they were."""

DEAD_LETTERS = (
    Shown("source", WHOLE, pl.col(SOURCE)),
    Shown("lane", TEXT, pl.col(LANE)),
    Shown("offset", WHOLE, pl.col(OFFSET)),
    Shown("arrival", WHEN, dated(ARRIVAL)),
    Shown("event_time", WHEN, dated(TIME)),
    Shown("reason", TEXT, pl.col(DEAD)),
    Shown("raw", BYTES, pl.col(RAW)),
    Shown("generation", WHOLE, GENERATION),
)
"""Records that could not be read: where they were, why, and their bytes."""

ARCHIVED = (
    Shown("_source", TEXT, pl.col("__source_name")),
    Shown("_lane", TEXT, pl.col(LANE)),
    Shown("_offset", WHOLE, pl.col(OFFSET)),
    Shown("_arrival", WHEN, instant(ARRIVAL)),
    # An absurd time is kept only where a timestamp can say it.
    Shown("_event_time", WHEN, pl.when(pl.col(DEAD).is_null()).then(instant(TIME))),
    Shown("_dead", TEXT, pl.col(DEAD)),
    Shown("_raw", BYTES, pl.when(pl.col(DEAD).is_not_null()).then(pl.col(RAW))),
)
"""Events as they arrived: after the user's own columns, where they were and, of those that could not be read, why and their bytes."""


def arrow_schema(columns: Sequence[Shown]) -> pa.Schema:
    """Our columns as sinks take them.

    >>> arrow_schema(DEAD_LETTERS).names[-3:]
    ['reason', 'raw', 'generation']
    """
    return pa.schema([pa.field(column.name, _ARROW[column.kind]) for column in columns])


def ddl(columns: Sequence[Shown]) -> str:
    """Our columns as Spark takes them.

    >>> ddl(DEAD_LETTERS[:3])
    'source bigint, lane string, offset bigint'
    """
    return ", ".join(f"{column.name} {_DDL[column.kind]}" for column in columns)
