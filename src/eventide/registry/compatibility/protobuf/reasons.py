"""Sentences for what changed between two .proto files: Confluent's line, ours, and how to mend it."""

from __future__ import annotations

from eventide.registry.compatibility.protobuf.diff import Path
from eventide.registry.compatibility.schema import Incompatibility

# Confluent's description and our advice; {0} is the side that reads, {1} the side that wrote.
_WORDS = {
    "PACKAGE_CHANGED": (
        "The package at '{path}' in the {0} schema does not match the package in the {1} schema",
        "Keep the package, or register the schema under a subject of its own.",
    ),
    "MESSAGE_REMOVED": (
        "The {0} schema is missing a MESSAGE type at path '{path}' in the {1} schema",
        "Keep the message in the {0} schema; mark it deprecated instead.",
    ),
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {0} schema does not match the {1} schema",
        "Keep the type and add a field with a new number for the other one.",
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{path}' in the {0} schema does not match its kind in the {1} schema",
        "Stay within the group: int32, int64, uint32, uint64, bool and enums; sint32 and sint64; fixed32 and sfixed32; "
        "fixed64 and sfixed64; string and bytes. For any other type add a field with a new number.",
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{path}' in the {0} schema does not match its type in the {1} schema",
        "Keep the message type, and change it only in compatible ways.",
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{path}' in the {0} schema does not match its label in the {1} schema",
        "Keep the label; a repeated number is packed and reads as something else.",
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field  at path '{path}' in the {0} schema is missing in the {1} schema",
        "Make the field optional.",
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The {0} schema is missing a required field at path: '{path}' in the {1} schema",
        "Make the field optional first, and remove it when no reader asks for it.",
    ),
    "ONEOF_FIELD_REMOVED": (
        "The {0} schema is missing a oneof field at path '{path}' in the {1} schema",
        "Keep the field in its oneof; mark it deprecated instead.",
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{path}' in the {0} schema are outside a oneof in the {1} schema",
        "Leave the fields outside: data may have set several of them. Move one at most, into a new oneof.",
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{path}' in the {0} schema is outside an existing oneof in the {1} schema",
        "Leave the field outside the oneof, or add a field with a new number inside it.",
    ),
}


def explain(kind: str, path: Path, side: str) -> Incompatibility:
    """The reason as people and clients read it; `side` says whether the new or the old schema reads."""
    place = "#/" + "/".join(path)
    other = "old" if side == "new" else "new"
    description, advice = _WORDS[kind]
    words = description.format(side, other, path=place)
    return Incompatibility(
        kind=kind,
        path=place,
        reader=side,
        message=f"{words}: the {side} schema is the reader, the {other} schema the writer.",
        fix=advice.format(side, other),
        verbose=f'{{errorType:"{kind}", description:"{words}"}}',
    )
