"""Sentences for what changed between two JSON Schemas: Confluent's line, ours, and how to mend it."""

from __future__ import annotations

from eventide.registry.compatibility.jsonschema.changes import Path
from eventide.registry.compatibility.schema import Incompatibility

# Confluent's descriptions by group of changes; {0} is the side that reads, {1} the side that wrote.
_PRESENT = "The keyword at path '{path}' in the {0} schema is not present in the {1} schema"
_MORE = "The value at path '{path}' in the {0} schema is more than its value in the {1} schema"
_LESS = "The value at path '{path}' in the {0} schema is less than its value in the {1} schema"
_OTHER = "The value at path '{path}' is different between the {0} and {1} schema"
_FEWER = "An array or combined type at path '{path}' has fewer elements in the {0} schema than the {1} schema"
_LONGER = "An array or combined type at path '{path}' has more elements in the {0} schema than the {1} schema"
_TYPE = "A type at path '{path}' is different between the {0} schema and the {1} schema"
_OPEN = (
    "The {0} schema has an open content model and has a property or item at path '{path}' which is missing in the {1} schema"
)
_UNOPEN = (
    "The {0} schema has an unopen content model and has a required property at path '{path}' which is missing in the {1} schema"
)
_CLOSED = "The {0} has a closed content model and is missing a property or item present at path '{path}' in the {1} schema"
_UNCOVERED_GONE = (
    "A property or item is missing in the {0} schema but present at path '{path}' in the {1} schema and is not covered "
    "by its partially open content model"
)
_UNCOVERED_NEW = (
    "The {0} schema has a property or item at path '{path}' which is missing in the {1} schema and is not covered by "
    "its partially open content model"
)

# Confluent's description and our advice, by how the name of the change ends; the longest ending that fits decides.
_ENDINGS: dict[str, tuple[str, str]] = {
    "_ADDED": (_PRESENT, "Leave the keyword out of the {0} schema: data that was written without it would be refused."),
    "_INCREASED": (_MORE, "Keep the value, or lower it."),
    "_DECREASED": (_LESS, "Keep the value, or raise it."),
    "_EXPANDED": (_MORE, "Keep the value, or take a divisor of it."),
    "_CHANGED": (_TYPE, "Keep the type, or widen it: number for integer, anyOf with the old type in it."),
    "_NARROWED": (_FEWER, "Keep every alternative of the {1} schema."),
    "_EXTENDED": (_LONGER, "Do not ask for more than the {1} schema did."),
    "PROPERTIES_REMOVED": (_PRESENT, "Keep additional properties allowed: the {1} schema allowed them."),
    "ITEMS_REMOVED": (_PRESENT, "Keep additional items allowed: the {1} schema allowed them."),
    "PATTERN_CHANGED": (_OTHER, "Keep the pattern, or leave it out."),
    "MULTIPLE_OF_CHANGED": (_OTHER, "Keep the value, or take a divisor of it."),
    "DEPENDENCY_ARRAY_CHANGED": (_OTHER, "Ask for no property that the {1} schema did not ask for."),
    "TYPE_NARROWED": (_TYPE, "Keep the wider type."),
    "SUM_TYPE_NARROWED": (_FEWER, "Keep every alternative of the {1} schema."),
    "ADDED_TO_OPEN_CONTENT_MODEL": (
        _OPEN,
        "The {1} schema lets any value stand there already. Close its content model with additionalProperties: false "
        "before properties are added, or give the property an empty schema.",
    ),
    "ADDED_TO_UNOPEN_CONTENT_MODEL": (_UNOPEN, "Make the property optional, or give it a default."),
    "REMOVED_FROM_CLOSED_CONTENT_MODEL": (_CLOSED, "Keep it, or open the content model of the {0} schema."),
    "REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        _UNCOVERED_GONE,
        "Keep it, or let additionalProperties of the {0} schema allow what it held.",
    ),
    "ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        _UNCOVERED_NEW,
        "Give it a schema that allows everything additionalProperties of the {1} schema allowed.",
    ),
    "REQUIRED_ATTRIBUTE_ADDED": (_PRESENT, "Leave the property optional, or give it a default."),
    "SCHEMA_ADDED": ("", "Leave the schema out: the {1} schema allowed any value there."),
}
_LONGEST_FIRST = sorted(_ENDINGS, key=len, reverse=True)


def explain(kind: str, path: Path, side: str) -> Incompatibility:
    """The reason as people and clients read it; `side` says whether the new or the old schema reads."""
    place = "#/" + "/".join(path)
    other = "old" if side == "new" else "new"
    description, advice = next(_ENDINGS[ending] for ending in _LONGEST_FIRST if kind.endswith(ending))
    words = description.format(side, other, path=place)
    changed = kind.replace("_", " ").capitalize()
    return Incompatibility(
        kind=kind,
        path=place,
        reader=side,
        message=f"{changed} at {place}: the reader (the {side} schema) would refuse what the writer (the {other} "
        "schema) may have written.",
        fix=advice.format(side, other),
        verbose=f'{{errorType:"{kind}", description:"{words}\'}}',
    )


def too_complex(side: str) -> Incompatibility:
    """The reason given when two schemas cannot be compared in bounded time."""
    message = "The reader and the writer refer to so many schemas inside each other that they cannot be compared."
    fix = "Split the schema, or name its alternatives in fewer oneOf and anyOf."
    verbose = '{errorType:"TOO_COMPLEX", description:"The schemas are too complex to be compared\'}'
    return Incompatibility("TOO_COMPLEX", "#/", side, message, fix, verbose)
