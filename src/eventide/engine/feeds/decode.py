"""A chunk of a source's rows made ready for the kernel: columns decoded, times in microseconds, candidates read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.definition.source import Mapped, Source
from eventide.engine.between_tasks import ready_for_the_next
from eventide.engine.feeds.event_times import can_be_time, micros
from eventide.engine.feeds.json_records import decode_json
from eventide.engine.feeds.observer import Observer
from eventide.engine.feeds.text_times import ISO, Times
from eventide.engine.feeds.typed_columns import declared
from eventide.engine.feeds.wire import Registry, decode_wire, report_usage
from eventide.errors import DefinitionError
from eventide.kernel.arrow_types import small_schema
from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, RAW, TIME
from eventide.model.time import EARLIEST, LATEST
from eventide.model.watermark import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    keep: tuple[str, ...] | None = None
    """The columns that all sources of the pipeline share; others are dropped once the times were read from them."""
    coded: frozenset[str] = frozenset()
    """Text columns that are only counted by: where a file keeps them as codes, they stay codes."""
    maps: tuple[Mapped, ...] = ()
    """Functions of the decoded rows, in order."""
    times: Times = ISO
    """How texts say times, and where timestamps lie that name no zone."""
    declared: dict[str, pl.DataType] | None = None
    """All columns of the source, where only some are read: whether a row fits them does not hang on which are needed."""

    @property
    def given(self) -> dict[str, pl.DataType]:
        """The columns after the maps; those before them are `kinds`."""
        return dict(self._mapped(pl.DataFrame(schema=self.kinds)).schema) if self.maps else self.kinds

    def observed(self) -> list[Any]:
        """What each map saw of the rows since it was last asked; none from those that only change them."""
        return [change.seen() if isinstance(change, Observer) else None for change in self.maps]

    def _mapped(self, rows: pl.DataFrame) -> pl.DataFrame:
        for change in self.maps:
            rows = change(rows)
        return rows

    def prepare(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """Rows with an arrival and an offset, and either columns or, under a decoder, the bytes they are to be read from."""
        if self.decoder is not None:
            chunk = pl.concat([chunk.select(ARRIVAL, OFFSET, RAW), self.decode(chunk[RAW])], how="horizontal")
        else:
            chunk = declared(chunk, self.kinds, self.times, self.coded)
            if DEAD not in chunk.columns:
                chunk = chunk.with_columns(pl.lit(None, dtype=pl.String).alias(DEAD))
        chunk = self._mapped(chunk)
        if self.arrival is not None:
            arrived, wrong = self._times(chunk, self.arrival, "arrival")
            chunk = chunk.with_columns(pl.coalesce(pl.col(DEAD), pl.lit(wrong)).alias(DEAD))
            # What cannot be read does not say when it arrived: the scan puts it beside its neighbour in the lane.
            own = pl.when(pl.col(DEAD).is_null()).then(pl.col(ARRIVAL))
            chunk = chunk.with_columns(pl.coalesce(pl.lit(arrived).clip(EARLIEST, LATEST), own).alias(ARRIVAL))
        if self.strategy.by_arrival:  # the scan takes the arrival that it judges by
            happened, wrong = chunk[ARRIVAL], pl.repeat(None, len(chunk), dtype=pl.String, eager=True)
        else:
            happened, wrong = self._times(chunk, self.event_time, "event time")
        timed = chunk.with_columns(happened.alias(TIME), pl.coalesce(pl.col(DEAD), pl.lit(wrong)).alias(DEAD))
        ready = timed.with_columns(self._candidate(timed), self._marker())
        if self.keep is None:
            return ready
        return ready.select([c for c in ready.columns if c.startswith("__") or c in self.keep])

    def decode(self, values: pl.Series) -> pl.DataFrame:
        """Bytes as columns, with the reason for each row that cannot be read."""
        if self.decoder == "raw":
            return pl.DataFrame({"value": values, DEAD: pl.Series([None] * len(values), dtype=pl.String)})
        if self.registry is None:
            return decode_json(values, self.kinds, self.times)
        decoded = decode_wire(values, self.decoder or "", self.kinds, self.registry, self.times)
        report_usage(self.registry)
        return decoded

    def _times(self, chunk: pl.DataFrame, name: str, what: str) -> tuple[pl.Series, pl.Series]:
        """A column's times, and for each value that says none why its row is a dead letter."""
        column = chunk[name]
        read = micros(column, self.time_unit, self.times)
        wrong = read.is_null() & column.is_not_null()
        if not wrong.any():
            return read, pl.repeat(None, len(read), dtype=pl.String, eager=True)
        said = column.cast(pl.String, strict=False).fill_null("").str.slice(0, 40)
        reason = pl.format(f"the {what} {{}} is no time", pl.lit(said))
        return read, pl.select(pl.when(pl.lit(wrong)).then(reason)).to_series()

    def _marker(self) -> pl.Expr:
        if self.strategy.marker is not None:
            return pl.sql_expr(self.strategy.marker).cast(pl.Boolean).fill_null(False).alias(MARKER)
        return pl.lit(False).alias(MARKER)

    def _candidate(self, chunk: pl.DataFrame) -> pl.Expr:
        if self.strategy.says is None:
            return pl.lit(None, dtype=pl.Int64).alias(CANDIDATE)
        named = chunk.with_columns(
            pl.from_epoch(pl.col(ARRIVAL), time_unit="us").dt.replace_time_zone("UTC").alias("arrival_time")
        )
        said = named.with_columns(
            pl.sql_expr(self.strategy.says).alias(CANDIDATE)
        )  # one for each row, also where it names no column
        if not can_be_time(said[CANDIDATE].dtype):
            raise DefinitionError(
                f"source {self.name!r}: the watermark {self.strategy.says!r} is {said[CANDIDATE].dtype}, which says no time."
            )
        value = micros(said[CANDIDATE], self.time_unit, self.times)
        if self.strategy.marker is None:
            return pl.lit(value).alias(CANDIDATE)
        marks = pl.sql_expr(self.strategy.marker).cast(pl.Boolean).fill_null(False)
        return pl.when(marks).then(pl.lit(value)).otherwise(None).alias(CANDIDATE)


@dataclass(frozen=True)
class Decoding:
    """A function for mapInArrow that decodes records and keeps their place, for transforms to work on."""

    reading: Reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records as columns."""
        for batch in batches:
            rows = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(rows, pl.DataFrame)
            decoded = pl.concat([rows, self.reading.decode(rows[RAW])], how="horizontal")
            table = decoded.to_arrow(compat_level=pl.CompatLevel.oldest())
            yield from table.cast(small_schema(table.schema)).to_batches()
        ready_for_the_next()


def transformed(records: DataFrame, reading: Reading, source: Source) -> DataFrame:
    """Records decoded, then through the user's transforms."""
    from pyspark.sql.pandas.types import from_arrow_schema

    empty = pl.DataFrame(schema={**reading.kinds, DEAD: pl.String()}).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    schema = type(records.schema)([*records.schema, *from_arrow_schema(small_schema(empty))])
    places = [name for name in records.columns if name.startswith("__")]
    return past_transforms(records.mapInArrow(Decoding(reading), schema), places, source)


def past_transforms(decoded: DataFrame, places: list[str], source: Source) -> DataFrame:
    """Rows through the user's transforms; what could not be decoded goes past them, so that none is filtered away."""
    from pyspark.sql import functions as F

    if not source.transforms:
        return decoded
    changed = decoded.where(F.col(DEAD).isNull())
    for change in source.transforms:
        changed = change(changed)
    lost = [name for name in places if name not in changed.columns]
    if lost:
        raise DefinitionError(
            f"source {source.name!r}: a transform drops the columns {', '.join(lost)}, which say where each row stands. Use where(…) and "
            'withColumn(…), or keep them in the select: df.select("*", …).'
        )
    kinds = {field.name: field.dataType for field in changed.schema}
    kept = [field.name for field in decoded.schema if kinds.get(field.name) == field.dataType]
    dead = decoded.where(F.col(DEAD).isNotNull()).select(*map(quoted, kept))
    return changed.unionByName(dead, allowMissingColumns=True)


def quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
