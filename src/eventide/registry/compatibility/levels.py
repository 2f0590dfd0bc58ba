"""The seven levels: which of the old schemas a new one is compared with, and who reads whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from eventide.registry.compatibility import avro, jsonschema, protobuf
from eventide.registry.compatibility.schema import DIFFERENT_TYPES, Incompatibility, InvalidSchema, ParsedSchema

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
"""Every compatibility level, as clients spell them."""

_CACHED_LENGTH = 50_000  # longer texts are rare, and a few thousand of them would not fit the memory


def parse(kind: str, text: str, references: Mapping[str, str] = MappingProxyType({}), *, strict: bool = True) -> ParsedSchema:
    """Read the schema text of one kind; `references` maps each imported name to its text, transitively.

    `strict` is how a schema is read when it is registered or checked. One that is looked up, or was registered long
    ago, is read with ``strict=False``: then invalid Avro defaults pass, as they do in Confluent's service, and keywords of
    JSON Schema in the form of another draft.

    Raises:
        InvalidSchema: the text is no schema of that kind.
    """
    if len(text) > _CACHED_LENGTH:
        return _parse(kind, text, tuple(references.items()), strict)
    return _parse_cached(kind, text, tuple(references.items()), strict)


def _parse(kind: str, text: str, given: tuple[tuple[str, str], ...], strict: bool) -> ParsedSchema:
    references = dict(given)
    if kind == "AVRO":
        return avro.parse(text, references, strict=strict)
    if kind == "JSON":
        return jsonschema.parse(text, references, strict=strict)
    if kind == "PROTOBUF":
        return protobuf.parse(text, references, strict=strict)
    raise InvalidSchema(f"Invalid schema type {kind}")


_parse_cached = lru_cache(maxsize=4096)(_parse)


def check(reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
    """Every reason why `reader` cannot read what `writer` wrote; none at all means that it can.

    The reasons speak of the reader as the new schema and of the writer as the old one.
    """
    return _check(reader, writer, "new")


def check_level(level: str, new: ParsedSchema, old: Sequence[ParsedSchema]) -> list[Incompatibility]:
    """Every reason why `new` may not follow `old` (oldest first) at this level; `conflict` also says with which."""
    return conflict(level, new, old)[1]


def conflict(
    level: str, new: ParsedSchema, old: Sequence[ParsedSchema], *, lenient: bool = False, shared: list[int] | None = None
) -> tuple[ParsedSchema | None, list[Incompatibility]]:
    """The latest of the `old` schemas (oldest first) that `new` may not follow at this level, and why.

    BACKWARD: the new schema reads what the old one wrote; FORWARD: the old one reads what the new one writes; FULL:
    both. The plain levels look at the latest old schema only, the transitive ones go back to the first that clashes.
    `lenient` lets names come to open objects of a JSON Schema and leave closed ones; in the other kinds there is nothing
    of the sort. `shared` is what is left of the pairs of inner schemas that several calls may look at together.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no compatibility level; take one of {', '.join(LEVELS)}.")
    direction, _, transitive = level.partition("_")
    if direction == "NONE" or not old:
        return None, []
    for earlier in reversed(old) if transitive else (old[-1],):
        if earlier.kind != new.kind:
            return earlier, _check(new, earlier, "new", lenient, shared)
        reasons: list[Incompatibility] = []
        if direction != "BACKWARD":
            reasons += _check(earlier, new, "old", lenient, shared)
        if direction != "FORWARD":
            reasons += _check(new, earlier, "new", lenient, shared)
        if reasons:
            return earlier, reasons
    return None, []


def _check(
    reader: ParsedSchema, writer: ParsedSchema, side: str, lenient: bool = False, shared: list[int] | None = None
) -> list[Incompatibility]:
    if isinstance(reader, avro.AvroSchema) and isinstance(writer, avro.AvroSchema):
        return avro.check(reader, writer, side)
    if isinstance(reader, jsonschema.JsonSchema) and isinstance(writer, jsonschema.JsonSchema):
        return jsonschema.check(reader, writer, side, lenient=lenient, shared=shared)
    if isinstance(reader, protobuf.ProtobufSchema) and isinstance(writer, protobuf.ProtobufSchema):
        return protobuf.check(reader, writer, side)
    message = f"The reader is {reader.kind} and the writer is {writer.kind}."
    fix = "Register the other kind of schema under a subject of its own."
    return [Incompatibility("SCHEMA_TYPE_CHANGED", "/", side, message, fix, DIFFERENT_TYPES)]
