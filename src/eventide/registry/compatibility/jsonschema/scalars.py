"""What changed in a string, a number, an enum or a const, and in the plain bounds of objects and arrays."""

from __future__ import annotations

from eventide.registry.compatibility.jsonschema.changes import Change
from eventide.registry.compatibility.jsonschema.shape import Shape

_STRING = (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH"))
_NUMBER = (
    ("maximum", "MAXIMUM"),
    ("minimum", "MINIMUM"),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
)


def scalars(original: Shape, update: Shape) -> list[Change]:
    """The changes between two shapes of one form that have no schemas inside."""
    if original.form == "string":
        return bounds(_STRING, original, update) + _pattern(original, update)
    if original.form == "number":
        return bounds(_NUMBER, original, update) + _number(original, update)
    if original.form == "enum":
        return _enum(original, update)
    if original.form == "const" and original.facts["value"] != update.facts["value"]:
        return [("ENUM_ARRAY_CHANGED", ("const",))]
    return []


def bounds(keywords: tuple[tuple[str, str], ...], original: Shape, update: Shape) -> list[Change]:
    """Which bounds were added, removed, increased or decreased."""
    changes: list[Change] = []
    for keyword, name in keywords:
        before, after = original.facts.get(keyword), update.facts.get(keyword)
        if before == after:
            continue
        if before is None:
            what = "ADDED"
        elif after is None:
            what = "REMOVED"
        else:
            what = "INCREASED" if before < after else "DECREASED"
        changes.append((f"{name}_{what}", (keyword,)))
    return changes


def _pattern(original: Shape, update: Shape) -> list[Change]:
    before, after = original.facts.get("pattern"), update.facts.get("pattern")
    if before == after:
        return []
    what = "ADDED" if before is None else "REMOVED" if after is None else "CHANGED"
    return [(f"PATTERN_{what}", ("pattern",))]


def _number(original: Shape, update: Shape) -> list[Change]:
    changes: list[Change] = []
    before, after = original.facts.get("multipleOf"), update.facts.get("multipleOf")
    if before != after:
        if before is None:
            what = "ADDED"
        elif after is None:
            what = "REMOVED"
        elif after % before == 0:
            what = "EXPANDED"
        elif before % after == 0:
            what = "REDUCED"
        else:
            what = "CHANGED"
        changes.append((f"MULTIPLE_OF_{what}", ("multipleOf",)))
    before, after = original.facts.get("integer", False), update.facts.get("integer", False)
    if before != after:
        changes.append(("TYPE_EXTENDED" if before else "TYPE_NARROWED", ()))
    return changes


def _enum(original: Shape, update: Shape) -> list[Change]:
    before, after = original.facts["values"], update.facts["values"]
    if before == after:
        return []
    what = "EXTENDED" if after >= before else "NARROWED" if before >= after else "CHANGED"
    return [(f"ENUM_ARRAY_{what}", ("enum",))]
