"""The adapter over Spark DataFrames: the mapping's SQL, evaluated by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventide.migration.plan.expression import forgiving
from eventide.migration.plan.shape import Leaf
from eventide.migration.plan.shape.leaf import trees

if TYPE_CHECKING:
    from eventide.migration.data.upcast import Upcast

_TYPES = {"long": "bigint"}
_PLAIN = frozenset({"int", "float", "double", "string", "boolean", "date", "timestamp"})


def spark_upcast(how: Upcast, frame: Any) -> Any:
    """One shape, whichever the DataFrame has."""
    from pyspark.sql import functions as F

    going: set[str] = set()
    for mapping in how.mappings:
        wanted, expressions, others = how.sides(mapping)
        if not {p.partition(".")[0] for p in others} & set(frame.columns):
            continue  # only one shape is left, and it is the wanted one
        for top, leaves in trees(wanted).items():
            if leaves == [top]:
                made = _as(F.expr(forgiving(expressions[top])), how.leaves.get(top))
            else:
                parts = {p.partition(".")[2]: _as(F.expr(forgiving(expressions[p])), how.leaves.get(p)) for p in leaves}
                nothing = F.coalesce(*(part.cast("string") for part in parts.values())).isNull()
                made = F.when(~nothing, F.struct(*(part.alias(name) for name, part in parts.items())))
            if top in frame.columns:
                made = F.coalesce(F.col(top), made.cast(frame.schema[top].dataType))
            frame = frame.withColumn(top, made)
        going |= {p.partition(".")[0] for p in others} - {p.partition(".")[0] for p in wanted}
    return frame if how.keep else frame.drop(*going)


def _as(made: Any, leaf: Leaf | None) -> Any:
    kind = _TYPES.get(leaf.type, leaf.type) if leaf is not None else ""
    return made.cast(kind) if kind in _PLAIN or kind == "bigint" else made
