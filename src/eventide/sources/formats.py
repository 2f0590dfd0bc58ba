"""How a record's bytes become columns."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.errors import DefinitionError


@dataclass(frozen=True)
class Format:
    """A record format: its kind, and its columns as Spark DDL where the format does not carry them."""

    kind: str
    schema: str | None = None


def json(schema: str) -> Format:
    """JSON objects with these columns, as Spark DDL.

    >>> json("event_time timestamp, bank string, paise bigint").kind
    'json'
    """
    if not isinstance(schema, str) or not schema.strip():
        raise DefinitionError(
            f'json({schema!r}): give the columns as Spark DDL, such as json("event_time timestamp, paise bigint").'
        )
    return Format("json", schema)


def raw() -> Format:
    """The record as it is: columns `key` and `value` (bytes), for a transform to read."""
    return Format("raw", "key binary, value binary")


def ddl_columns(schema: str) -> tuple[str, ...]:
    """The names in a DDL text, without asking Spark.

    >>> ddl_columns("a bigint, m map<string, int>, `b c` struct<x: int, y: int>")
    ('a', 'm', 'b c')
    """
    names, depth, start = [], 0, 0
    for index, mark in enumerate(schema + ","):
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and depth == 0:
            field = schema[start:index].strip()
            names.append(field[1 : field.index("`", 1)] if field.startswith("`") else field.replace(":", " ").split()[0])
            start = index + 1
    return tuple(names)
