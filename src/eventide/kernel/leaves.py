"""Changes to the plain values inside a column, however deep its lists and structs hold them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

Change = Callable[[pl.Expr], pl.Expr]
Applies = Callable[[pl.DataType], bool]


def changed(value: pl.Expr, kind: pl.DataType, applies: Applies, change: Change) -> pl.Expr:
    """A column with every plain value of some types changed, a map then as its entries; other columns cost nothing.

    >>> frame = pl.DataFrame({"x": [[1.5, None], None]})
    >>> frame.select(changed(pl.col("x"), frame.schema["x"], lambda kind: kind.is_float(), lambda leaf: leaf * 2))["x"].to_list()
    [[3.0, None], None]
    """
    if not holds(kind, applies):
        return value
    if isinstance(kind, pl.Map):
        return changed(value.cast(entries(kind)), entries(kind), applies, change)
    if isinstance(kind, pl.List):
        return value.list.eval(changed(pl.element(), _typed(kind.inner), applies, change))
    if isinstance(kind, pl.Struct):
        parts = [changed(value.struct.field(f.name), _typed(f.dtype), applies, change).alias(f.name) for f in kind.fields]
        return pl.when(value.is_not_null()).then(pl.struct(parts))
    return change(value)


def any_leaf(value: pl.Expr, kind: pl.DataType, applies: Applies, test: Change) -> pl.Expr:
    """Whether some plain value in a column, of some types, passes a test.

    >>> frame = pl.DataFrame({"x": [[1.5, None], None]})
    >>> frame.select(any_leaf(pl.col("x"), frame.schema["x"], lambda kind: kind.is_float(), lambda leaf: leaf > 1))["x"].to_list()
    [True, False]
    """
    if not holds(kind, applies):
        return pl.lit(False)
    if isinstance(kind, pl.Map):
        return any_leaf(value.cast(entries(kind)), entries(kind), applies, test)
    if isinstance(kind, pl.List):
        return value.list.eval(any_leaf(pl.element(), _typed(kind.inner), applies, test)).list.any().fill_null(False)
    if isinstance(kind, pl.Struct):
        parts = [(value.struct.field(f.name), _typed(f.dtype)) for f in kind.fields if holds(_typed(f.dtype), applies)]
        return pl.any_horizontal(any_leaf(part, of, applies, test) for part, of in parts).fill_null(False)
    return test(value).fill_null(False)


def entries(kind: pl.Map) -> pl.List:
    """A map as the list of its keys and values."""
    return pl.List(pl.Struct({"key": _typed(kind.key), "value": _typed(kind.value)}))


def holds(kind: pl.DataType, applies: Applies) -> bool:
    """Whether a type has plain values of some types in it."""
    if isinstance(kind, pl.List):
        return holds(_typed(kind.inner), applies)
    if isinstance(kind, pl.Map):
        return holds(_typed(kind.key), applies) or holds(_typed(kind.value), applies)
    if isinstance(kind, pl.Struct):
        return any(holds(_typed(field.dtype), applies) for field in kind.fields)
    return applies(kind)


def _typed(kind: object) -> pl.DataType:
    typed = kind() if isinstance(kind, type) else kind
    assert isinstance(typed, pl.DataType)
    return typed
