"""How texts say points in time: ISO 8601, or a form that the user gives; texts without a zone are in the source's zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventide.definition.time_forms import time_form
from eventide.engine.feeds.calendar import undated
from eventide.engine.feeds.formed_times import iso_texts

ZONED = r"..........(Z|[+-]\d\d(:?\d\d)?)$"
"""How a text ends that names its zone; a day alone ends in two digits too, and is shorter."""
FINER = r"(\.\d{6})0+($|Z|[+-])"
"""Digits below a microsecond that say nothing."""
COMMON = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEW = 32
"""So few values are taken one by one, more in two halves."""


@dataclass(frozen=True)
class Times:
    """The zone of texts and timestamps that name none, and the form of texts (None: ISO 8601)."""

    zone: str = "UTC"
    form: str | None = None

    @property
    def plain(self) -> bool:
        """Whether texts are ISO 8601, and in UTC where they name no zone."""
        return self.zone == "UTC" and self.form is None

    def instants(self, texts: pl.Series) -> pl.Series:
        """Texts as instants; null where they are none, or could mean two, or are finer than a microsecond.

        >>> Times("Asia/Kolkata").instants(pl.Series(["2026-01-01T05:30:00", "2026-01-01T00:00:00Z", "01/02/2026"])).dt.epoch("s").to_list()
        [1767225600, 1767225600, None]
        """
        read = self._read(texts)
        return _dated(read)

    def _read(self, texts: pl.Series) -> pl.Series:
        if self.form is not None:
            texts = iso_texts(texts, time_form(self.form))
        column = texts.to_arrow().cast(pa.string())
        first = next((text for text in texts.head(FEW) if text is not None), "")
        zone = "UTC" if re.search(ZONED, first, re.ASCII) else None  # of all texts or of none, as a rule
        try:
            read = _series(pc.cast(column, pa.timestamp("us", zone)))
            return read if zone else self.placed(read)
        except pa.ArrowInvalid:
            pass
        column = pc.replace_substring_regex(column, FINER, r"\1\2")
        zoned = pc.match_substring_regex(column, ZONED).fill_null(False)
        said = in_halves(pc.if_else(zoned, column, None), lambda part: pc.cast(part, pa.timestamp("us", "UTC")))
        local = in_halves(pc.if_else(zoned, None, column), lambda part: pc.cast(part, pa.timestamp("us")))
        return pl.select(pl.coalesce(pl.lit(_series(said)), pl.lit(self.placed(_series(local))))).to_series()

    def instant(self, text: str) -> int | None:
        """One text as microseconds since 1970."""
        common = COMMON.fullmatch(text) if self.form is None else None
        if (
            common is not None
        ):  # by hand what `instants` would say of it too: a column of one text costs a hundred times as much
            try:
                said = datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
                return (said.days * 86_400 + said.seconds) * 1_000_000 + said.microseconds
            except (ValueError, OverflowError):
                return None
        found = self.instants(pl.Series([text], dtype=pl.String)).dt.epoch("us")[0]
        return None if found is None else int(found)

    def placed(self, local: pl.Series) -> pl.Series:
        """Times without a zone as instants; null for an hour that a change of clocks repeats or leaves out, and beyond the calendar."""
        if self.zone == "UTC":
            return local.dt.replace_time_zone("UTC")
        zoned = _dated(local).dt.replace_time_zone(self.zone, ambiguous="null", non_existent="null")
        return zoned.dt.convert_time_zone("UTC")


ISO = Times()


def _dated(instants: pl.Series) -> pl.Series:
    """Instants, null where they lie in no year; texts can name the year 0."""
    outside = undated(instants)
    return (
        pl.select(pl.when(~pl.lit(outside)).then(pl.lit(instants))).to_series().alias(instants.name)
        if outside.any()
        else instants
    )


def in_halves(values: pa.Array[Any], cast: Callable[[pa.Array[Any]], pa.Array[Any]]) -> pa.Array[Any]:
    """An Arrow array cast at once where it can be, null where it cannot; a bad value costs a few casts of its neighbours, not of all."""
    try:
        return cast(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(values) > 1:
            half = len(values) // 2
            return pa.concat_arrays([in_halves(values[:half], cast), in_halves(values[half:], cast)])
    return pa.nulls(1, cast(values[:0]).type)


def _series(column: pa.Array[Any]) -> pl.Series:
    found = pl.from_arrow(column)
    assert isinstance(found, pl.Series)
    return found
