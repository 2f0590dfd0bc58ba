"""Emitted against complete, window by window: the corrections, and how much of each the late rows explain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventide.definition.output import Output
from eventide.errors import DefinitionError
from eventide.kernel.kinds import KINDS
from eventide.model.aggregate import Aggregate
from eventide.model.time import MIN_TIME
from eventide.model.window import Sliding

SKETCHED = frozenset(name for name, kind in KINDS.items() if kind.approximate)
PERIODS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
DAY = 86_400_000_000


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

        day = F.floor(F.unix_micros("window_start") / F.lit(DAY)).cast("long")
        kept = frame.withColumn("window_day", day).where(F.unix_micros("window_end") <= F.lit(max(self.horizon, MIN_TIME)))
        if self.first_day is not None:
            kept = kept.where(F.col("window_day") >= self.first_day)
        if self.last_day is not None:
            kept = kept.where(F.col("window_day") <= self.last_day)
        return kept


def late_by_window(rows: Any, output: Output, *, taken: Callable[[Aggregate], bool] = adds) -> Any:
    """What late rows add to each window and key."""
    from pyspark.sql import functions as F

    makers = {"count": F.count, "sum": F.sum, "min": F.min, "max": F.max}
    sums = [
        makers[what.kind](F.col(quoted(what.column)) if what.column else F.lit(1)).alias(name)
        for name, what in output.aggregation.aggregates
        if taken(what)
    ]
    keys = output.aggregation.keys
    return rows.groupBy("window_start", "window_end", *map(quoted, keys)).agg(*sums, F.count("*").alias("late_rows"))


def by_period(frame: Any, output: Output, by: str, extra: tuple[str, ...] = ()) -> Any:
    """Windows added up to minutes, hours or days."""
    from pyspark.sql import functions as F

    span, window = PERIODS[by], output.aggregation.window
    if not isinstance(window, Sliding) or window.slide != window.size or span % window.size or window.offset:
        raise DefinitionError(f"corrections by {by} need tumbling windows that divide a {by}; these are {window}.")
    wrong = [name for name, what in output.aggregation.aggregates if not adds(what)]
    if wrong:
        raise DefinitionError(f"corrections by {by} are sums, and {', '.join(wrong)} cannot be added up. Correct by window.")
    start = F.floor(F.unix_micros("window_start") / F.lit(span)).cast("long") * F.lit(span)
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
    joined = b.join(t, every(same), "full_outer")
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
        if adds(what):
            gap = F.coalesce(now, F.lit(0)) - F.coalesce(was, F.lit(0))
            columns += [gap.alias(f"{name}_correction"), now.alias(f"{name}_corrected")]
            # From null to a sum of zero is a change too.
            changed = changed | (now.isNull() != was.isNull()) | (~_close(now, was) if _is_float(truth, name) else gap != 0)
        else:
            columns.append(now.alias(f"{name}_corrected"))
            if what.kind not in SKETCHED or late is None:
                changed = changed | ~(_close(now, was) if _is_float(truth, name) else now.eqNullSafe(was))
    if late is None:
        rows = F.lit(0).cast("long")
    else:
        x = late.select(*[F.col(quoted(n)) for n in on], F.col("late_rows")).alias("x")
        place = {n: F.coalesce(F.col(f"b.{quoted(n)}"), F.col(f"t.{quoted(n)}")) for n in on}
        joined = joined.join(x, every([place[n].eqNullSafe(F.col(f"x.{quoted(n)}")) for n in on]), "left")
        rows = F.coalesce(F.col("x.late_rows"), F.lit(0)).cast("long")
        # Of the same rows two sketches may say a little different things: only late rows make such a window wrong.
        if any(what.kind in SKETCHED for _, what in output.aggregation.aggregates):
            changed = changed | (rows > 0)
    found = joined.where(changed | F.col("b.window_start").isNull() | F.col("t.window_start").isNull())
    return found.select(*columns, rows.alias("rows"), F.lit(run_id).alias("run_id")).where(F.col("window_id").isNotNull())


def _window_id(output: Output, on: list[str]) -> Any:
    from pyspark.sql import functions as F

    bounds = [F.unix_micros(F.col(f"t.{n}")).cast("string") for n in on[:2]]
    keys = [F.col(f"t.{quoted(k)}").alias(k) for k in output.aggregation.keys]
    text = F.to_json(F.struct(*keys), {"ignoreNullFields": "false"}) if keys else F.lit("{}")
    return F.concat_ws(":", *bounds, text)


def _is_float(frame: Any, name: str) -> bool:
    return frame.schema[name].dataType.typeName() in ("double", "float")


def _close(now: Any, was: Any) -> Any:
    """Floating-point results taken in another order agree within a billionth; null is null, and not a number is not one."""
    from pyspark.sql import functions as F

    near = F.abs(now - was) <= F.greatest(F.abs(now), F.abs(was)) * F.lit(1e-9)
    return now.eqNullSafe(was) | F.coalesce(near, F.lit(False))


def every(conditions: list[Any]) -> Any:
    """All of some conditions."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it.

    >>> quoted("order.id")
    '`order.id`'
    """
    return "`" + name.replace("`", "``") + "`"


def totals(frame: Any, output: Output, rows: str | None = None) -> dict[str, Any]:
    """The sum of every additive aggregate over all windows, and of the rows where they are counted."""
    from pyspark.sql import functions as F

    names = [name for name, what in output.aggregation.aggregates if adds(what) and name in frame.columns]
    wanted = [F.sum(quoted(name)).alias(name) for name in names]
    if rows is not None:
        wanted.append(F.sum(rows).alias("__rows"))
    if not wanted:
        return {}
    row = frame.agg(*wanted).first()
    return {name: row[name] or 0 for name in (*names, *(["__rows"] if rows else []))}
