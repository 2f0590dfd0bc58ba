"""Arrow types as Spark and the sinks take them: Polars gives the large variants of text, bytes and lists."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

SIGNED: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""Neither Spark nor most databases know numbers without a sign."""


def small(kind: pa.DataType) -> pa.DataType:
    """The same type without its large variants, whole numbers with a sign in a type that holds them all; at any depth.

    >>> small(pa.large_list(pa.struct([("key", pa.large_string())])))
    ListType(list<item: struct<key: string>>)
    """
    if kinds.is_large_string(kind):
        return pa.string()
    if kinds.is_large_binary(kind):
        return pa.binary()
    if kinds.is_unsigned_integer(kind):
        return SIGNED[kind]
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return pa.list_(small(kind.value_type))
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(small(field.type)) for field in kind])
    return kind


def small_schema(schema: pa.Schema) -> pa.Schema:
    """A schema of small types."""
    return pa.schema([field.with_type(small(field.type)) for field in schema])
