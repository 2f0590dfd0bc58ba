"""Texts of a given form written as ISO 8601, which is then read as ever: whatever ISO refuses, a form cannot say."""

from __future__ import annotations

import polars as pl

from eventide.definition.time_forms import TimeForm

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
FIRST_SHORT_YEAR = 69
"""Years of two digits begin in 1969, as POSIX has it."""


def iso_texts(texts: pl.Series, form: TimeForm) -> pl.Series:
    """What the texts say, as ISO 8601; null where they are not of the form.

    >>> from eventide.definition.time_forms import time_form
    >>> iso_texts(pl.Series(["1/2/2026 9:05", "tomorrow"]), time_form("%d/%m/%Y %H:%M")).to_list()
    ['2026-02-01T09:05:00.0', None]
    """
    found = texts.alias("text").to_frame().select(pl.col("text").str.extract_groups(form.pattern)).unnest("text")
    if "seconds" in form.parts:
        return found.select(_of_seconds(form)).to_series()
    found = found.with_columns(_day(form).alias("iso_day"))
    if "weekday" in form.parts:
        day = pl.col("iso_day").str.to_date("%Y-%m-%d", strict=False)
        found = found.with_columns(pl.when(day.dt.weekday() == _number("weekday", WEEKDAYS)).then(pl.col("iso_day")))
    clock = [
        _hour(form),
        pl.lit(":"),
        _digits("minute", form),
        pl.lit(":"),
        _digits("second", form),
        pl.lit("."),
        _fraction(form),
    ]
    zone = [pl.col("zone")] if "zone" in form.parts else []
    return found.select(pl.concat_str([pl.col("iso_day"), pl.lit("T"), *clock, *zone]).alias("iso")).to_series()


def _of_seconds(form: TimeForm) -> pl.Expr:
    """Seconds since 1970, as the instant that they are."""
    whole = pl.col("seconds").cast(pl.Int64, strict=False)
    back = pl.col("seconds").str.starts_with("-") & (_fraction(form).str.strip_chars_end("0") != "")
    # Below zero a fraction leads away from the second that is written.
    in_range = pl.when(~back & whole.is_between(-62_135_596_800, 253_402_300_799)).then(whole)
    day = pl.from_epoch(in_range, time_unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S")
    return pl.concat_str([day, pl.lit("."), _fraction(form), pl.lit("Z")])


def _day(form: TimeForm) -> pl.Expr:
    year = pl.col("year") if "year" in form.parts else _long_year()
    if "day_of_year" in form.parts:
        nth = pl.col("day_of_year").cast(pl.Int64)
        first = pl.concat_str([year, pl.lit("-01-01")]).str.to_date("%Y-%m-%d", strict=False)
        day = first + pl.duration(days=nth - 1)
        return pl.when(day.dt.year() == first.dt.year()).then(day.dt.strftime("%Y-%m-%d"))
    month = _padded(_number("month_name", MONTHS).cast(pl.String)) if "month_name" in form.parts else _digits("month", form)
    return pl.concat_str([year, month, _digits("day", form)], separator="-")


def _long_year() -> pl.Expr:
    early = pl.col("short_year").cast(pl.Int64) >= FIRST_SHORT_YEAR
    return pl.concat_str([pl.when(early).then(pl.lit("19")).otherwise(pl.lit("20")), pl.col("short_year")])


def _number(name: str, words: list[str]) -> pl.Expr:
    """The number of a month or a weekday by its name, whole or in three letters."""
    numbers = {word: nth for nth, word in enumerate(words, 1)} | {word[:3]: nth for nth, word in enumerate(words, 1)}
    return pl.col(name).str.to_lowercase().replace_strict(numbers, default=None, return_dtype=pl.Int64)


def _hour(form: TimeForm) -> pl.Expr:
    if "hour_of_12" not in form.parts:
        return _digits("hour", form)
    hour = pl.col("hour_of_12").cast(pl.Int64)
    noon = pl.when(pl.col("half").str.to_lowercase() == "pm").then(12).otherwise(0)
    return _padded(pl.when(hour.is_between(1, 12)).then(hour % 12 + noon).cast(pl.String))


def _digits(part: str, form: TimeForm) -> pl.Expr:
    """A part in two digits, or none of it where the form leaves it out."""
    return _padded(pl.col(part)) if part in form.parts else pl.lit("00")


def _padded(number: pl.Expr) -> pl.Expr:
    return number.str.zfill(2)


def _fraction(form: TimeForm) -> pl.Expr:
    return pl.col("fraction").fill_null("0") if "fraction" in form.parts else pl.lit("0")
