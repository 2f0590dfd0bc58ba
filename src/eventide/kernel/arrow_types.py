"""Arrow types as Spark and the sinks take them: Polars gives the large variants of text, bytes and lists."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds


def small(kind: pa.DataType) -> pa.DataType:
    """The same type without its large variants, at any depth.

    >>> small(pa.large_list(pa.struct([("key", pa.large_string())])))
    ListType(list<item: struct<key: string>>)
    """
    if kinds.is_large_string(kind):
        return pa.string()
    if kinds.is_large_binary(kind):
        return pa.binary()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return pa.list_(small(kind.value_type))
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(small(field.type)) for field in kind])
    return kind


def small_schema(schema: pa.Schema) -> pa.Schema:
    """A schema of small types."""
    return pa.schema([field.with_type(small(field.type)) for field in schema])
