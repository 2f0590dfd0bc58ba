"""How a record's bytes become columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from eventide.errors import DefinitionError
from eventide.redaction import without_secrets


@without_secrets
@dataclass(frozen=True)
class Format:
    """A record format: its kind, and its columns as Spark DDL where the format does not carry them."""

    kind: str
    schema: str | None = None
    registry: str | None = None
    subject: str | None = None
    reader: str | None = None
    on_unreadable: str = "dead_letter"
    on_registry_down: str = "stop"
    auth: tuple[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.on_unreadable not in ("dead_letter", "stop"):
            raise DefinitionError(f'on_unreadable is {self.on_unreadable!r}; it must be "dead_letter" or "stop".')
        if self.on_registry_down not in ("dead_letter", "stop"):
            raise DefinitionError(f'on_registry_down is {self.on_registry_down!r}; it must be "stop" or "dead_letter".')


def avro(
    registry: str,
    *,
    subject: str | None = None,
    reader: str | None = None,
    on_unreadable: str = "dead_letter",
    on_registry_down: str = "stop",
    auth: tuple[str, str] | None = None,
) -> Format:
    """Avro records with a schema id in front, each read by the schema it was written with.

    The columns are those of `reader` (Avro schema text), or of the latest version of `subject` when the run starts.

    >>> avro("http://localhost:8081", subject="payments-value").kind
    'avro'
    """
    if subject is None and reader is None:
        raise DefinitionError(
            'avro(…): say which columns to read: subject="payments-value" (its latest version), or reader="{…}".'
        )
    return Format("avro", None, registry, subject, reader, on_unreadable, on_registry_down, auth)


def protobuf(
    registry: str,
    schema: str,
    *,
    on_unreadable: str = "dead_letter",
    on_registry_down: str = "stop",
    auth: tuple[str, str] | None = None,
) -> Format:
    """Protobuf messages with a schema id in front; `schema` names the fields to read as Spark DDL."""
    return Format("protobuf", schema, registry, None, None, on_unreadable, on_registry_down, auth)


def json(
    schema: str,
    *,
    registry: str | None = None,
    on_unreadable: str = "dead_letter",
    on_registry_down: str = "stop",
    auth: tuple[str, str] | None = None,
) -> Format:
    """JSON objects with these columns, as Spark DDL; with a registry, records that carry a schema id and are checked by it.

    >>> json("event_time timestamp, bank string, paise bigint").kind
    'json'
    """
    if not isinstance(schema, str) or not schema.strip():
        raise DefinitionError(
            f'json({schema!r}): give the columns as Spark DDL, such as json("event_time timestamp, paise bigint").'
        )
    return Format("json", schema, registry, None, None, on_unreadable, on_registry_down, auth)


def raw() -> Format:
    """The record as it is: columns `key` and `value` (bytes), for a transform to read."""
    return Format("raw", "key binary, value binary")


def ddl_columns(schema: str) -> tuple[str, ...]:
    """The names in a DDL text, without asking Spark.

    >>> ddl_columns("a bigint, m map<string, int>, `b c` struct<x: int, y: int>")
    ('a', 'm', 'b c')
    """
    return tuple(name for name, _ in _ddl_fields(schema))


def ddl_types(schema: str) -> dict[str, str]:
    """The columns of a DDL text, each with its type as it is written.

    >>> ddl_types("a bigint, m map<string, int>, `b c`: string NOT NULL")
    {'a': 'bigint', 'm': 'map<string, int>', 'b c': 'string'}
    """
    return {name: re.split(r"\s+(?:not\s+null|comment\b)", rest, flags=re.IGNORECASE)[0] for name, rest in _ddl_fields(schema)}


def _ddl_fields(schema: str) -> list[tuple[str, str]]:
    """Each name with all that is written after it."""
    found, depth, start = [], 0, 0
    for index, mark in enumerate(schema + ","):
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and depth == 0:
            field = schema[start:index].strip()
            if field.startswith("`"):
                end = field.index("`", 1)
                name, rest = field[1:end], field[end + 1 :]
            else:
                name = field.replace(":", " ").split()[0]
                rest = field[len(name) :]
            found.append((name, rest.lstrip(": ").strip()))
            start = index + 1
    return found
