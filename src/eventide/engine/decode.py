"""A chunk of a source's rows made ready for the kernel: columns decoded, times in microseconds, candidates read."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.engine.wire import Registry, decode_wire, report_usage
from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, RAW, TIME
from eventide.kernel.decode import decode_json
from eventide.model.watermark import Custom, Punctuated, Strategy

PER_UNIT = {"us": 1, "ms": 1_000, "s": 1_000_000}


@dataclass(frozen=True)
class Reading:
    """How the rows of one source are read on a worker."""

    source: int
    name: str
    kinds: dict[str, pl.DataType]
    event_time: str
    strategy: Strategy
    arrival: str | None = None
    time_unit: str = "us"
    decoder: str | None = None
    registry: Registry | None = None

    def prepare(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """Rows with an arrival and an offset, and either columns or, under a decoder, the bytes they are to be read from."""
        if self.decoder is not None:
            chunk = pl.concat([chunk.select(ARRIVAL, OFFSET, RAW), self._decode(chunk[RAW])], how="horizontal")
        elif DEAD not in chunk.columns:
            chunk = chunk.with_columns(pl.lit(None, dtype=pl.String).alias(DEAD))
        if self.arrival is not None:
            chunk = chunk.with_columns(
                pl.coalesce(self._micros(pl.col(self.arrival), chunk[self.arrival].dtype), ARRIVAL).alias(ARRIVAL)
            )
        return chunk.with_columns(self._micros(pl.col(self.event_time), chunk[self.event_time].dtype).alias(TIME)).with_columns(
            self._candidate(chunk), self._marker()
        )

    def _decode(self, values: pl.Series) -> pl.DataFrame:
        if self.registry is None:
            return decode_json(values, self.kinds)
        decoded = decode_wire(values, self.decoder or "", self.kinds, self.registry)
        report_usage(self.registry)
        return decoded

    def _micros(self, column: pl.Expr, kind: pl.DataType) -> pl.Expr:
        if isinstance(kind, pl.Datetime):
            return column.dt.epoch("us")
        if kind == pl.Date:
            return column.cast(pl.Datetime("us")).dt.epoch("us")
        return column.cast(pl.Int64) * PER_UNIT[self.time_unit]

    def _marker(self) -> pl.Expr:
        if isinstance(self.strategy, Punctuated):
            return pl.sql_expr(self.strategy.when).cast(pl.Boolean).fill_null(False).alias(MARKER)
        return pl.lit(False).alias(MARKER)

    def _candidate(self, chunk: pl.DataFrame) -> pl.Expr:
        if not isinstance(self.strategy, Punctuated | Custom):
            return pl.lit(None, dtype=pl.Int64).alias(CANDIDATE)
        named = chunk.with_columns(
            pl.from_epoch(pl.col(ARRIVAL), time_unit="us").dt.replace_time_zone("UTC").alias("arrival_time")
        )
        said = named.select(pl.sql_expr(self.strategy.value).alias(CANDIDATE))
        value = said.select(self._micros(pl.col(CANDIDATE), said[CANDIDATE].dtype).alias(CANDIDATE)).to_series()
        if isinstance(self.strategy, Custom):
            return pl.lit(value).alias(CANDIDATE)
        marks = pl.sql_expr(self.strategy.when).cast(pl.Boolean).fill_null(False)
        return pl.when(marks).then(pl.lit(value)).otherwise(None).alias(CANDIDATE)
