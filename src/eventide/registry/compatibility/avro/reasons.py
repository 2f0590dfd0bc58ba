"""Sentences for what resolution found: Confluent's line, ours with reader and writer, and how to mend it."""

from __future__ import annotations

from eventide.registry.compatibility.avro.resolution import Clash
from eventide.registry.compatibility.schema import Incompatibility

# Confluent's descriptions; the first %s is the side that reads, the second the side that wrote.
_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{path}' in the {reader} schema does not match with the {writer} schema"
    ),
    "TYPE_MISMATCH": ("The type (path '{path}') of a field in the {reader} schema does not match with the {writer} schema"),
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": ("The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} schema"),
    "MISSING_UNION_BRANCH": (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the {writer} schema"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{info}' at path '{path}' in the {reader} schema has no default value and is missing in the {writer} schema"
    ),
}
_SENTENCES = {
    "FIXED_SIZE_MISMATCH": (
        "At {path} the reader (the {reader} schema) expects {left.size} bytes of {left.full}; the writer (the {writer} "
        "schema) writes {right.size}."
    ),
    "TYPE_MISMATCH": (
        "At {path} the reader (the {reader} schema) expects {left.full}; the writer (the {writer} schema) writes {right.full}."
    ),
    "NAME_MISMATCH": (
        "At {path} the reader (the {reader} schema) calls the type {left.full}; the writer (the {writer} schema) calls "
        "it {right.full}."
    ),
    "MISSING_ENUM_SYMBOLS": (
        "At {path} the reader (the {reader} schema) does not know the symbols {info} of {left.full} that the writer "
        "(the {writer} schema) may write."
    ),
    "MISSING_UNION_BRANCH": (
        "At {path} the union of the reader (the {reader} schema) has no branch for a type that the writer (the "
        "{writer} schema) may write: {info}."
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The reader (the {reader} schema) has the field '{info}' at {path} without a default; the writer (the {writer} "
        "schema) does not write it."
    ),
}
_FIXES = {
    "FIXED_SIZE_MISMATCH": "Keep the size of {left.full} at {right.size}, or add a field of a new type beside it.",
    "TYPE_MISMATCH": (
        "Keep the type, or widen it (int → long → float → double, string ↔ bytes, a type → a union with it); for any "
        "other type add a new field with a default."
    ),
    "NAME_MISMATCH": 'Keep the name, or give {left.full} the alias "{right.full}".',
    "MISSING_ENUM_SYMBOLS": "Keep the symbols {info}, or give the enum {left.full} a default.",
    "MISSING_UNION_BRANCH": "Keep the missing branch in the union of the {reader} schema.",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "Give the field '{info}' a default in the {reader} schema, or an alias that names the writer's field."
    ),
}


def explain(clash: Clash, side: str) -> Incompatibility:
    """The reason as people and clients read it; `side` says whether the new or the old schema reads."""
    kind, path, info, left, right = clash
    facts = {
        "path": "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path),
        "reader": side,
        "writer": "old" if side == "new" else "new",
        "info": info,
        "left": left,
        "right": right,
    }
    description = _DESCRIPTIONS[kind].format(**facts)
    return Incompatibility(
        kind=kind,
        path=str(facts["path"]),
        reader=side,
        message=_SENTENCES[kind].format(**facts),
        fix=_FIXES[kind].format(**facts),
        verbose=f"{{errorType:'{kind}', description:'{description}', additionalInfo:'{info}'}}",
    )
