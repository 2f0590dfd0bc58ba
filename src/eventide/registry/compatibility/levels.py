"""The seven levels: which of the old schemas a new one is compared with, and who reads whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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


def parse(kind: str, text: str, references: Mapping[str, str] | None = None) -> ParsedSchema:
    """Read the schema text of one kind; `references` maps each imported name to its text, transitively.

    Raises:
        InvalidSchema: the text is no schema of that kind.
    """
    raise InvalidSchema(f"Invalid schema type {kind}: {text[:0]}{references or ''}")


def check(reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
    """Every reason why `reader` cannot read what `writer` wrote; none at all means that it can.

    The reader is taken to be the new schema; `check_level` says "old" where it is the old one that reads.
    """
    if reader.kind != writer.kind:
        message = f"The reader is {reader.kind} and the writer is {writer.kind}."
        fix = "Register the other kind of schema under a subject of its own."
        return [Incompatibility("SCHEMA_TYPE_CHANGED", "/", "new", message, fix, DIFFERENT_TYPES)]
    return []


def check_level(level: str, new: ParsedSchema, old: Sequence[ParsedSchema]) -> list[Incompatibility]:
    """Every reason why `new` may not follow `old` (oldest first) at this level.

    BACKWARD: the new schema reads what the old one wrote; FORWARD: the old one reads what the new one writes; FULL:
    both. The plain levels look at the latest old schema only, the transitive ones at all of them, latest first.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no compatibility level; take one of {', '.join(LEVELS)}.")
    direction, _, transitive = level.partition("_")
    if direction == "NONE" or not old:
        return []
    reasons: list[Incompatibility] = []
    for earlier in reversed(old) if transitive else (old[-1],):
        if direction in ("BACKWARD", "FULL"):
            reasons += check(new, earlier)
        if direction in ("FORWARD", "FULL"):
            reasons += [replace(reason, reader="old") for reason in check(earlier, new)]
    return reasons
