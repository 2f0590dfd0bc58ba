"""Emitted against complete, window by window: the corrections, and how much of each the late rows explain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from eventide.definition.output import Output
from eventide.errors import DefinitionError
from eventide.kernel.kinds import KINDS
from eventide.model.aggregate import Aggregate
from eventide.model.time import MIN_TIME, show_instant
from eventide.model.window import Sliding
from eventide.reconcile.exact import combined, is_exact, quoted, totals_of

SKETCHED = frozenset(name for name, kind in KINDS.items() if kind.approximate)
PERIODS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
DAY = 86_400_000_000
ROWS = "eventide_rows"
"""How many rows a window has, in a replay."""
BILLIONTH = 1e-9
ROUNDED = 1e-12
"""Of the sum of all magnitudes, by which sums of floats that cancel each other may differ when they are added in another order."""


def extremes_of(name: str) -> tuple[str, str]:
    """Where a replay keeps the least and the greatest of the values that a sum adds."""
    return f"eventide_least_{name}", f"eventide_most_{name}"


def adds(what: Aggregate) -> bool:
    """Whether a correction can be added to it; of all others, and of those that count some rows only, the corrected value is kept."""
    return what.where is None and what.kind in ("count", "sum")


def folds(what: Aggregate) -> bool:
    """Whether late rows alone can be folded into it."""
    return adds(what) or (what.where is None and what.kind in ("min", "max"))


@dataclass(frozen=True)
class Scope:
    """Which windows are compared: those that can change no more, within whole days."""

    horizon: int
    """Windows that end at or before this are final."""
    first_day: int | None = None
    last_day: int | None = None

    def of(self, frame: Any) -> Any:
        """The rows of a frame whose windows are in scope, with the day that each window begins on."""
        from pyspark.sql import functions as F

        start = F.unix_micros("window_start")
        day = ((start - F.pmod(start, F.lit(DAY))) / F.lit(DAY)).cast("long")
        kept = frame.withColumn("window_day", day).where(F.unix_micros("window_end") <= F.lit(max(self.horizon, MIN_TIME)))
        if self.first_day is not None:
            kept = kept.where(F.col("window_day") >= self.first_day)
        if self.last_day is not None:
            kept = kept.where(F.col("window_day") <= self.last_day)
        return kept


def late_by_window(rows: Any, output: Output, *, taken: Callable[[Aggregate], bool] = adds) -> Any:
    """What late rows add to each window and key."""
    from pyspark.sql import functions as F

    makers: dict[str, Callable[[Any], Any]] = {"count": F.count, "sum": partial(_summed, rows), "min": F.min, "max": F.max}
    floats = {what.column for _, what in output.aggregation.aggregates if what.column and is_float(rows, what.column)}
    sums = [
        (
            _most(F.col(quoted(what.column)))
            if what.kind == "max" and what.column in floats
            else makers[what.kind](F.col(quoted(what.column)) if what.column else F.lit(1))
        ).alias(name)
        for name, what in output.aggregation.aggregates
        if taken(what)
    ]
    keys = output.aggregation.keys
    return rows.groupBy("window_start", "window_end", *map(quoted, keys)).agg(*sums, F.count("*").alias("late_rows"))


def _summed(rows: Any, column: Any) -> Any:
    """Whole numbers as decimals: what comes late may be more than fits their type, and the whole may fit again."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegralType

    kind = rows.select(column.alias("__it")).schema["__it"].dataType
    return F.sum(column.cast("decimal(38,0)") if isinstance(kind, IntegralType) else column)


def by_period(frame: Any, output: Output, by: str, extra: tuple[str, ...] = ()) -> Any:
    """Windows added up to minutes, hours or days."""
    from pyspark.sql import functions as F

    span, window = PERIODS[by], output.aggregation.window
    if not isinstance(window, Sliding) or window.slide != window.size or span % window.size or window.offset:
        raise DefinitionError(f"corrections by {by} need tumbling windows that divide a {by}; these are {window}.")
    wrong = [name for name, what in output.aggregation.aggregates if not adds(what)]
    if wrong:
        raise DefinitionError(f"corrections by {by} are sums, and {', '.join(wrong)} cannot be added up. Correct by window.")
    start = F.unix_micros("window_start") - F.pmod(F.unix_micros("window_start"), F.lit(span))
    cut = frame.withColumns({"window_start": F.timestamp_micros(start), "window_end": F.timestamp_micros(start + F.lit(span))})
    names = [name for name, _ in output.aggregation.aggregates if name in frame.columns]
    sums = [F.sum(quoted(name)).alias(name) for name in (*names, *extra)]
    keys = [quoted(key) for key in output.aggregation.keys]
    identity = F.concat_ws(":", start.cast("string"), (start + F.lit(span)).cast("string"), _key_text(output))
    return cut.withColumn("window_id", identity).groupBy("window_id", "window_start", "window_end", *keys).agg(*sums)


def _key_text(output: Output) -> Any:
    from pyspark.sql import functions as F

    keys = output.aggregation.keys
    return F.to_json(F.struct(*map(quoted, keys)), {"ignoreNullFields": "false"}) if keys else F.lit("{}")


def corrections(base: Any, truth: Any, late: Any | None, output: Output, run_id: str) -> Any:
    """One row for each window and key whose emitted values are not the complete ones."""
    from pyspark.sql import functions as F

    keys = output.aggregation.keys
    on = ["window_start", "window_end", *keys]
    b, t = base.alias("b"), truth.alias("t")
    same = [F.col(f"b.{quoted(name)}").eqNullSafe(F.col(f"t.{quoted(name)}")) for name in on]
    joined, rows = _with_late_rows(b.join(t, every(same), "full_outer"), late, on)
    identity = "window_id" if "window_id" in truth.columns else None
    window_id = F.coalesce(F.col("b.window_id"), F.col(f"t.{identity}") if identity else _window_id(output, on))
    columns = [
        window_id.alias("window_id"),
        *[F.coalesce(F.col(f"b.{quoted(n)}"), F.col(f"t.{quoted(n)}")).alias(n) for n in on],
    ]
    changed = F.lit(False)
    for name, what in output.aggregation.aggregates:
        was, now = F.col(f"b.{quoted(name)}"), F.col(f"t.{quoted(name)}")
        columns.append(was.alias(f"{name}_base"))
        floating = is_float(truth, name) or is_float(base, name)
        if adds(what):
            columns.append(
                _gap(now, was, (truth.schema[name].dataType, base.schema[name].dataType)).alias(f"{name}_correction")
            )
        columns.append(now.alias(f"{name}_corrected"))
        if floating and what.kind not in SKETCHED:
            # Late rows make a window another one, however little they add; without them a difference may be rounding.
            near = _close(now, was, _magnitude(truth, name))
            changed = changed | (~now.eqNullSafe(was) & (~near | (rows > 0)))
        elif what.kind not in SKETCHED or late is None:
            changed = changed | ~now.eqNullSafe(was)
    # Of the same rows two sketches may say a little different things: only late rows make such a window wrong.
    if late is not None and any(what.kind in SKETCHED for _, what in output.aggregation.aggregates):
        changed = changed | (rows > 0)
    found = joined.where(changed | F.col("b.window_start").isNull() | F.col("t.window_start").isNull())
    return found.select(*columns, rows.alias("rows"), F.lit(run_id).alias("run_id")).where(F.col("window_id").isNotNull())


def _gap(now: Any, was: Any, kinds: tuple[Any, Any]) -> Any:
    """What is to be added; null where nothing can be: to an infinity, to what is no number, or beyond the type."""
    from pyspark.sql import functions as F

    if all(map(is_exact, kinds)):
        return combined(now, was, kinds, -1)
    return F.when(was.isNull() | _is_finite(was), F.coalesce(now, F.lit(0)) - F.coalesce(was, F.lit(0)))


def refuse_too_large(found: Any, output: Output) -> None:
    """Stop where a correction of whole numbers or decimals has no room in its type: as a null it would be taken for none."""
    from functools import reduce

    from pyspark.sql import functions as F

    named = {f"{name}_correction": name for name, what in output.aggregation.aggregates if adds(what)}
    exact = [column for column in named if is_exact(found.schema[column].dataType)]
    if not exact:
        return
    row = found.where(reduce(lambda one, other: one | other, [F.col(quoted(column)).isNull() for column in exact])).first()
    if row is not None:
        column = next(column for column in exact if row[column] is None)
        name = named[column]
        raise too_large(name, found.schema[column].dataType, row["window_id"], row[f"{name}_base"], row[f"{name}_corrected"])


def too_large(name: str, kind: Any, window_id: str, was: Any, now: Any) -> DefinitionError:
    """What is said of a correction that its type cannot hold."""
    start, _, rest = window_id.partition(":")
    return DefinitionError(
        f"the correction of {name!r} in the window from {show_instant(int(start))} ({rest.partition(':')[2]}) leaves {kind.simpleString()}: "
        f"{was} was emitted, and {now} is complete. Leave its day out (since, until), or sum a decimal column. Nothing was written."
    )


def _with_late_rows(joined: Any, late: Any | None, on: list[str]) -> tuple[Any, Any]:
    """Windows of both sides, and how many late rows each has."""
    from pyspark.sql import functions as F

    if late is None:
        return joined, F.lit(0).cast("long")
    x = late.select(*[F.col(quoted(n)) for n in on], F.col("late_rows")).alias("x")
    place = {n: F.coalesce(F.col(f"b.{quoted(n)}"), F.col(f"t.{quoted(n)}")) for n in on}
    both = joined.join(x, every([place[n].eqNullSafe(F.col(f"x.{quoted(n)}")) for n in on]), "left")
    return both, F.coalesce(F.col("x.late_rows"), F.lit(0)).cast("long")


def _window_id(output: Output, on: list[str]) -> Any:
    from pyspark.sql import functions as F

    bounds = [F.unix_micros(F.col(f"t.{n}")).cast("string") for n in on[:2]]
    keys = [F.col(f"t.{quoted(k)}").alias(k) for k in output.aggregation.keys]
    text = F.to_json(F.struct(*keys), {"ignoreNullFields": "false"}) if keys else F.lit("{}")
    return F.concat_ws(":", *bounds, text)


def is_float(frame: Any, name: str) -> bool:
    """Whether a column has floats."""
    return frame.schema[name].dataType.typeName() in ("double", "float")


def _close(now: Any, was: Any, magnitude: Any) -> Any:
    """Floats added in another order agree within a billionth, or a trillionth of what was added; null, NaN and infinities only with themselves."""
    from pyspark.sql import functions as F

    apart = F.abs(now - was)
    allowed = F.greatest(F.greatest(F.abs(now), F.abs(was)) * F.lit(BILLIONTH), magnitude * F.lit(ROUNDED))
    # To Spark NaN lies above infinity and equals itself.
    return now.eqNullSafe(was) | F.coalesce((apart < F.lit(math.inf)) & (apart <= allowed), F.lit(False))


def _magnitude(truth: Any, name: str) -> Any:
    """At least the sum of the magnitudes of all values that a sum was made of; 0 where nobody knows them."""
    from pyspark.sql import functions as F

    least, most = extremes_of(name)
    if ROWS not in truth.columns or least not in truth.columns:
        return F.lit(0.0)
    largest = F.greatest(F.abs(F.col(quoted(least))), F.abs(F.col(quoted(most))))
    return F.coalesce(F.col(ROWS) * largest, F.lit(0.0))


def _is_finite(value: Any) -> Any:
    from pyspark.sql import functions as F

    return F.abs(value) < F.lit(math.inf)


def greatest(one: Any, other: Any) -> Any:
    """The greater of two floats: a number where there is one, although to Spark NaN lies above all."""
    from pyspark.sql import functions as F

    return F.coalesce(F.greatest(_number(one), _number(other)), one, other)


def _most(values: Any) -> Any:
    from pyspark.sql import functions as F

    return F.coalesce(F.max(_number(values)), F.max(values))


def _number(value: Any) -> Any:
    from pyspark.sql import functions as F

    return F.when(~F.isnan(value), value)


def every(conditions: list[Any]) -> Any:
    """All of some conditions."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def totals(frame: Any, output: Output, rows: str | None = None) -> dict[str, Any]:
    """The sum of every additive aggregate over all windows, and of the rows where they are counted."""
    from pyspark.sql import functions as F

    columns = {name: name for name in _additive(frame, output)}
    return totals_of(frame, columns, {"__rows": F.sum(rows)} if rows is not None else {})


def rounding(frame: Any, output: Output) -> dict[str, float]:
    """By how much the totals of floats may differ when they are added in another order."""
    from pyspark.sql import functions as F

    floats = [name for name in _additive(frame, output) if is_float(frame, name)]
    if not floats:
        return {}
    sums = [
        (F.sum(F.abs(quoted(name))) * F.lit(BILLIONTH) + F.sum(_magnitude(frame, name)) * F.lit(ROUNDED)).alias(name)
        for name in floats
    ]
    row = frame.agg(*sums).first()
    return {name: row[name] or 0.0 for name in floats}


def _additive(frame: Any, output: Output) -> list[str]:
    return [name for name, what in output.aggregation.aggregates if adds(what) and name in frame.columns]
