"""JSON Schema: parsing and Confluent's rules of compatibility, for drafts 4, 6, 7, 2019-09 and 2020-12."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from eventide.registry.compatibility import json_text
from eventide.registry.compatibility.jsonschema.changes import COMPATIBLE, LENIENT
from eventide.registry.compatibility.jsonschema.diff import TooComplex, differences
from eventide.registry.compatibility.jsonschema.draft import load
from eventide.registry.compatibility.jsonschema.reasons import explain, too_complex
from eventide.registry.compatibility.jsonschema.shape import Shape
from eventide.registry.compatibility.schema import Incompatibility, InvalidSchema

__all__ = ["JsonSchema", "check", "parse"]


class JsonSchema:
    """A JSON Schema that was read and understood."""

    kind = "JSON"

    def __init__(self, raw: Any, shape: Shape) -> None:
        self.raw = raw
        self.shape = shape
        self.canonical = json_text.write(raw)

    @cached_property
    def normalized(self) -> str:
        """The canonical text with the keys of every object in order."""
        return json_text.write(json_text.sort(self.raw))

    @property
    def top_fields(self) -> frozenset[str]:
        """The names of its properties."""
        properties = self.raw.get("properties") if isinstance(self.raw, dict) else None
        return frozenset(properties) if isinstance(properties, dict) else frozenset()

    def __repr__(self) -> str:
        return f"JsonSchema({self.canonical!r})"


def parse(schema: str, references: Mapping[str, str], *, strict: bool = True) -> JsonSchema:
    """Read a JSON Schema; see `eventide.registry.compatibility.parse`."""
    try:
        raw = json_text.read(schema)
        schema.encode()
    except (InvalidSchema, UnicodeEncodeError) as error:
        raise InvalidSchema("Invalid JSON schema", reason=str(error)) from None
    try:
        parsed = JsonSchema(raw, load(raw, references, strict=strict))
        parsed.canonical.encode()
    except InvalidSchema as error:
        raise InvalidSchema("Invalid JSON", reason=str(error)) from None
    except RecursionError:
        raise InvalidSchema("Invalid JSON", reason="the schemas in it nest too deep") from None
    except UnicodeEncodeError as error:
        raise InvalidSchema("Invalid JSON", reason=str(error)) from None
    return parsed


def check(
    reader: JsonSchema, writer: JsonSchema, side: str = "new", *, lenient: bool = False, shared: list[int] | None = None
) -> list[Incompatibility]:
    """Every reason why `reader` would refuse something that `writer` allows."""
    try:
        changes = differences(writer.shape, reader.shape, LENIENT if lenient else frozenset(), shared)
    except TooComplex:
        return [too_complex(side)]
    return [explain(kind, path, side) for kind, path in changes if kind not in COMPATIBLE]
