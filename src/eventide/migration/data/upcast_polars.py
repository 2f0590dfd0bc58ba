"""The adapter over Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.migration.data.leaves import typed, with_value
from eventide.migration.plan.expression import paths_in
from eventide.migration.plan.shape import Leaf
from eventide.migration.plan.shape.leaf import trees

if TYPE_CHECKING:
    from eventide.migration.data.upcast import Upcast

_TYPES: dict[str, pl.DataType] = {
    "int": pl.Int32(), "long": pl.Int64(), "float": pl.Float32(), "double": pl.Float64(), "string": pl.String(),
    "boolean": pl.Boolean(), "date": pl.Date(), "timestamp": pl.Datetime("us", "UTC"), "bytes": pl.Binary(),
}  # fmt: skip


def polars_upcast(how: Upcast, frame: Any) -> Any:
    """One shape, whichever the frame has; as lazy as the frame is."""
    lazy = frame.lazy()
    going: set[str] = set()
    for mapping in how.mappings:
        wanted, expressions, others = how.sides(mapping)
        schema = dict(lazy.collect_schema())
        read = {p for sql in expressions.values() for p in paths_in(sql)}
        lazy = lazy.with_columns(typed(p, schema, how.leaves.get(p)).alias(f"__read {p}") for p in sorted(read))
        flat = {p: f"__read {p}" for p in read}
        for path in wanted:
            lazy = with_value(lazy, f"__made {path}", expressions[path], flat)
        for top, leaves in trees(wanted).items():
            lazy = lazy.with_columns(_column(top, leaves, schema, how.leaves))
        lazy = lazy.drop([*(f"__read {p}" for p in read), *(f"__made {p}" for p in wanted)])
        going |= {p.partition(".")[0] for p in others} - {p.partition(".")[0] for p in wanted}
    if not how.keep:
        lazy = lazy.drop(sorted(going), strict=False)
    return lazy.collect() if isinstance(frame, pl.DataFrame) else lazy


def _column(top: str, leaves: list[str], schema: dict[str, Any], types: Any) -> pl.Expr:
    """A whole column: as it was read where it has a value, and made from the other shape where it has none."""
    dtype = schema.get(top)
    if leaves == [top]:
        made = _as(pl.col(f"__made {top}"), dtype, types.get(top))
        return made.alias(top) if dtype in (None, pl.Null) else pl.coalesce(top, made).alias(top)
    inner = {f.name: f.dtype for f in dtype.fields} if isinstance(dtype, pl.Struct) else {}
    parts = [
        _as(pl.col(f"__made {path}"), inner.get(path.partition(".")[2]), types.get(path)).alias(path.partition(".")[2])
        for path in leaves
    ]
    known = {path.partition(".")[2] for path in leaves}
    order = list(inner) if inner else [path.partition(".")[2] for path in leaves]
    by_name = dict(zip([path.partition(".")[2] for path in leaves], parts, strict=True))
    fields = [by_name[n] if n in known else pl.lit(None, dtype=inner[n]).alias(n) for n in order]
    made = pl.struct(fields)
    nothing = pl.all_horizontal(pl.col(f"__made {path}").is_null() for path in leaves)
    made = pl.when(~nothing).then(made)
    return made.alias(top) if not inner else pl.when(pl.col(top).is_not_null()).then(pl.col(top)).otherwise(made).alias(top)


def _as(made: pl.Expr, dtype: Any, leaf: Leaf | None) -> pl.Expr:
    """A computed value in the type of the column it goes into, or of the schema where there is no such column yet."""
    wanted = dtype if dtype not in (None, pl.Null) else _TYPES.get(leaf.type) if leaf is not None else None
    if wanted is None or wanted == pl.String:
        return made.cast(pl.String) if wanted is not None else made
    if isinstance(wanted, pl.Datetime) and wanted.time_zone is not None:
        return made.cast(pl.Datetime(wanted.time_unit)).dt.replace_time_zone("UTC").dt.convert_time_zone(wanted.time_zone)
    return made.cast(wanted, strict=False)
