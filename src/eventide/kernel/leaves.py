"""Changes to the plain values inside a column, however deep its lists and structs hold them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

Change = Callable[[pl.Expr], pl.Expr]
Applies = Callable[[pl.DataType], bool]


def changed(value: pl.Expr, kind: pl.DataType, applies: Applies, change: Change) -> pl.Expr:
    """A column with every plain value of some types changed; other columns cost nothing.

    >>> frame = pl.DataFrame({"x": [[1.5, None], None]})
    >>> frame.select(changed(pl.col("x"), frame.schema["x"], lambda kind: kind.is_float(), lambda leaf: leaf * 2))["x"].to_list()
    [[3.0, None], None]
    """
    if not holds(kind, applies):
        return value
    if isinstance(kind, pl.List):
        return value.list.eval(changed(pl.element(), _typed(kind.inner), applies, change))
    if isinstance(kind, pl.Struct):
        parts = [changed(value.struct.field(f.name), _typed(f.dtype), applies, change).alias(f.name) for f in kind.fields]
        return pl.when(value.is_not_null()).then(pl.struct(parts))
    return change(value)


def holds(kind: pl.DataType, applies: Applies) -> bool:
    """Whether a type has plain values of some types in it."""
    if isinstance(kind, pl.List):
        return holds(_typed(kind.inner), applies)
    if isinstance(kind, pl.Struct):
        return any(holds(_typed(field.dtype), applies) for field in kind.fields)
    return applies(kind)


def _typed(kind: object) -> pl.DataType:
    typed = kind() if isinstance(kind, type) else kind
    assert isinstance(typed, pl.DataType)
    return typed
