"""An outside table as it is compared: its columns and times are looked at first, and what cannot be compared is refused by name."""

from __future__ import annotations

from typing import Any

from eventide.definition.output import Output
from eventide.errors import DefinitionError
from eventide.model.time import show_instant
from eventide.model.window import Sliding
from eventide.pipeline import Pipeline
from eventide.reconcile.exact import quoted

NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})


def results(frame: Any, pipeline: Pipeline, output: Output, shown: Any) -> Any:
    """Results by window with their bounds as instants; `shown` are ours, whose columns they must have."""
    from pyspark.sql import functions as F

    window, keys = pipeline.aggregation.window, list(output.aggregation.keys)
    assert isinstance(window, Sliding)  # others are refused before
    need_columns(
        frame, [*keys, *(name for name, _ in output.aggregation.aggregates)], "the outside table", "results by window need"
    )
    need_kinds(frame, shown, [*keys, *(name for name, _ in output.aggregation.aggregates)])
    start = _instant(frame, "window_start")
    end = (
        _instant(frame, "window_end")
        if "window_end" in frame.columns
        else F.timestamp_micros(F.unix_micros(start) + F.lit(window.size))
    )
    bounded = frame.withColumns({"window_start": start, "window_end": end})
    _refuse_other_windows(bounded, window)
    _refuse_twice(bounded, keys)
    return bounded


def need_columns(frame: Any, names: list[str], whose: str, why: str) -> None:
    """Stop where columns are missing."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DefinitionError(
            f"{whose} has no column {', '.join(map(repr, missing))}, which {why}. Its columns are {', '.join(frame.columns)}. Nothing was written."
        )


def need_kinds(frame: Any, shown: Any, names: list[str]) -> None:
    """Stop where the values of a column cannot be compared: Spark would guess, and take a text that is no number for an error or for null."""
    for name in names:
        theirs, ours = frame.schema[name].dataType, shown.schema[name].dataType
        if theirs != ours and not {theirs.typeName(), ours.typeName()} <= NUMBERS:
            raise DefinitionError(
                f"the column {name!r} is {theirs.simpleString()} in the outside table and {ours.simpleString()} here: they cannot be compared. Cast it: "
                f'frame.withColumn({name!r}, F.col({name!r}).cast("{ours.simpleString()}")). Nothing was written.'
            )


def _instant(frame: Any, name: str) -> Any:
    """A timestamp as an instant: one without a zone is in UTC, whatever zone the session has."""
    from pyspark.sql import functions as F

    kind = frame.schema[name].dataType.typeName()
    if kind == "timestamp":
        return F.col(name)
    if kind == "timestamp_ntz":
        return F.concat(F.col(name).cast("string"), F.lit("Z")).cast("timestamp")
    raise DefinitionError(
        f"the column {name!r} of the outside table is {frame.schema[name].dataType.simpleString()}; it must be a timestamp (one without a zone is read as UTC). "
        "Nothing was written."
    )


def _refuse_other_windows(frame: Any, window: Sliding) -> None:
    """Rows without a window would be left out, and windows of another grid found wrong one and all."""
    from pyspark.sql import functions as F

    start, end = F.unix_micros("window_start"), F.unix_micros("window_end")
    nowhere = start.isNull() | end.isNull()
    other = (F.pmod(start - F.lit(window.offset), F.lit(window.slide)) != 0) | (end - start != F.lit(window.size))
    counted = frame.agg(
        F.count(F.when(nowhere, 1)).alias("nowhere"), F.min(F.when(other, F.struct(start, end))).alias("other")
    ).first()
    if counted["nowhere"]:
        raise DefinitionError(
            f"{counted['nowhere']:,} rows of the outside table have no window_start or no window_end: nobody can tell which windows they are of. "
            "Leave them out, or say their windows. Nothing was written."
        )
    if counted["other"] is not None:
        first, last = (show_instant(bound) for bound in counted["other"])
        raise DefinitionError(
            f"the outside table has a window from {first} to {last}, and the pipeline has {window}: those are other windows. Aggregate the outside "
            "table by the same ones, or give its rows instead. Nothing was written."
        )


def _refuse_twice(frame: Any, keys: list[str]) -> None:
    from pyspark.sql import functions as F

    grouped = frame.groupBy("window_start", *map(quoted, keys)).agg(F.count("*").alias("__times"))
    twice = (
        grouped.where("__times > 1")
        .select(F.unix_micros("window_start").alias("__start"), "__times", *map(quoted, keys))
        .first()
    )
    if twice is not None:
        of = ", ".join(f"{key}={twice[key]!r}" for key in keys)
        raise DefinitionError(
            f"the outside table says {twice['__times']} results for the window from {show_instant(twice['__start'])}{f' of {of}' if of else ''}: which of "
            "them counts is not known. Aggregate it by window and key first. Nothing was written."
        )
