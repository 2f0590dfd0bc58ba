"""Avro: parsing, text and compatibility as Java's library has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from eventide.registry.compatibility.avro import text
from eventide.registry.compatibility.avro.node import Node
from eventide.registry.compatibility.avro.parser import read
from eventide.registry.compatibility.avro.reasons import explain
from eventide.registry.compatibility.avro.resolution import Ambiguous, clashes
from eventide.registry.compatibility.json_text import MAX_DEPTH, write
from eventide.registry.compatibility.schema import Incompatibility, InvalidSchema

__all__ = ["AvroSchema", "check", "parse"]

_TOO_DEEP = f"The types of this schema nest deeper than {MAX_DEPTH} levels once they are written out."


class AvroSchema:
    """An Avro schema that was read and understood."""

    kind = "AVRO"

    def __init__(self, root: Node, known: frozenset[str], recursive: bool) -> None:
        self.root = root
        self.recursive = recursive
        self._known = known
        self.canonical = text.canonical(root, known)

    @cached_property
    def normalized(self) -> str:
        """The canonical text with properties and aliases in order."""
        return text.normalized(self.root, self._known)

    @cached_property
    def raw(self) -> Any:
        """The schema as a JSON value, referenced types written out where they are first used."""
        return text.as_json(self.root)

    @cached_property
    def resolved(self) -> str:
        """The text with referenced types written out where they are first used."""
        return write(self.raw)

    @cached_property
    def parsing_form(self) -> str:
        """The parsing canonical form: only what changes how bytes are read."""
        return text.parsing_form(self.root)

    @cached_property
    def fingerprint(self) -> int:
        """CRC-64-AVRO of the parsing form."""
        return text.fingerprint(self.parsing_form)

    @property
    def top_fields(self) -> frozenset[str]:
        """The names of its fields, if it is a record."""
        return frozenset(field.name for field in self.root.fields) if self.root.kind == "record" else frozenset()

    def __repr__(self) -> str:
        return f"AvroSchema({self.canonical!r})"


def parse(schema: str, references: Mapping[str, str], *, strict: bool = True) -> AvroSchema:
    """Read an Avro schema; see `eventide.registry.compatibility.parse`."""
    try:
        parsed = AvroSchema(*read(schema, references.values(), strict=strict))
        parsed.canonical.encode()
    except RecursionError:
        raise InvalidSchema(_TOO_DEEP) from None
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"The schema has half of a surrogate pair at {error.start}.") from None
    return parsed


def check(reader: AvroSchema, writer: AvroSchema, side: str = "new") -> list[Incompatibility]:
    """Every reason why `reader` cannot read what `writer` wrote."""
    try:
        found = clashes(reader.root, writer.root, recursive=reader.recursive and writer.recursive)
    except Ambiguous as error:
        verbose = f"Unexpected exception during compatibility check: {error}"
        fix = "Take back the alias that names a field which the writer still has."
        return [Incompatibility("AMBIGUOUS_ALIAS", "/", side, f"{error}.", fix, verbose)]
    return [explain(clash, side) for clash in found] if found else []
