"""The drift check for any Spark DataFrame: the kind of every row as a column, by Spark SQL inside the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventide.migration.data.drift import AGREE, DIFFER, NAMES, NEITHER, NEW_ONLY, OLD_ONLY, DriftReport
from eventide.migration.plan.expression import forgiving
from eventide.migration.plan.mapping import Mapping


def with_kind(frame: Any, mappings: Sequence[Mapping], column: str = "drift") -> Any:
    """The DataFrame with one more column: 0 neither, 1 agree, 2 new only, 3 old only, 4 differ; the worst of all mappings.

    To count it in a streaming query of your own, observe it: `with_kind(df, …).observe("drift", *counts())`.
    """
    from pyspark.sql import functions as F

    kinds = [_kind(m) for m in mappings if m.new]
    worst = F.greatest(*kinds) if len(kinds) > 1 else kinds[0] if kinds else F.lit(NEITHER)
    return frame.withColumn(column, worst.cast("tinyint"))


def counts(column: str = "drift") -> list[Any]:
    """An aggregate for each kind, for `agg` or `observe`."""
    from pyspark.sql import functions as F

    return [F.count_if(F.col(column) == kind).alias(name) for kind, name in enumerate(NAMES)]


def spark_drift(frame: Any, mappings: Sequence[Mapping], *, key: Sequence[str] = (), most: int = 20) -> DriftReport:
    """Check a whole DataFrame: one pass for the counts, and a second one for examples only if there are any."""
    from pyspark.sql import functions as F

    judged = with_kind(frame, mappings, "__kind")
    row = judged.agg(*counts("__kind")).collect()[0]
    found = {name: int(row[name]) for name in NAMES}
    if found["differ"] + found["old_only"] + found["new_only"] == 0:
        return DriftReport(found)
    shown = dict.fromkeys([*key, *(p for m in mappings for p in (*m.old, *m.new))])
    expected = [F.expr(forgiving(sql)).alias(f"expected {path}") for m in mappings for path, sql in m.backward.items()]
    columns = [F.col(path).cast("string").alias(path) for path in shown]
    bad = judged.where(F.col("__kind") > AGREE).select("__kind", *columns, *expected).limit(most).collect()
    examples = tuple(
        {"kind": NAMES[r["__kind"]], **{k: _plain(v) for k, v in r.asDict().items() if k != "__kind"}} for r in bad
    )
    return DriftReport(found, examples)


def _kind(mapping: Mapping) -> Any:
    from pyspark.sql import functions as F

    old = F.coalesce(*(F.col(p).cast("string") for p in mapping.old)).isNotNull()
    new = F.coalesce(*(F.col(p).cast("string") for p in mapping.new)).isNotNull()
    same = F.lit(True)
    for path in mapping.old:
        same = same & F.col(path).eqNullSafe(F.expr(forgiving(mapping.backward[path])))
    return (
        F.when(~old & ~new, F.lit(NEITHER))
        .when(~new, F.lit(OLD_ONLY))
        .when(~old, F.lit(NEW_ONLY))
        .when(same, F.lit(AGREE))
        .otherwise(F.lit(DIFFER))
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
