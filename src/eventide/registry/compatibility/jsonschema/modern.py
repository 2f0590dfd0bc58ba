"""Drafts 2019-09 and 2020-12: every keyword is a shape of its own, and shapes of one form grow together in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventide.registry.compatibility.jsonschema.loader import (
    DRAFT_2020,
    Loader,
    any_type,
    constant,
    enumeration,
    listed,
    names,
    of_type,
    plain,
    schemas,
)
from eventide.registry.compatibility.jsonschema.locate import Document
from eventide.registry.compatibility.jsonschema.shape import Shape, combined, merge
from eventide.registry.compatibility.schema import InvalidSchema

_MERGING = ("array", "number", "object", "string")
_BOUNDS = {
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), "number"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties"), "object"),
}
_SILENT = ("format", "readOnly", "writeOnly", "deprecated")


class ModernLoader(Loader):
    """Loads a schema of draft 2019-09 or 2020-12."""

    def load_object(self, value: dict[str, Any], document: Document, base: str) -> Shape:
        result: Shape | None = None
        for part in self._parts(value, document, base):
            result = part if result is None else _grow(result, part)
        if result is None:
            result = Shape("empty")
        elif result.generated and result.criterion == "allOf" and len(result.branches) <= 1:
            result = _copy(result.branches[0]) if result.branches else Shape("empty")
        result.source = value
        return self.describe(result, value)

    def _parts(self, value: dict[str, Any], document: Document, base: str) -> Iterator[Shape]:
        for name, inner in schemas("properties", value.get("properties", {})).items():
            shape = Shape("object")
            shape.properties[name] = self.load(inner, document, base)
            yield shape
        for pattern, inner in schemas("patternProperties", value.get("patternProperties", {})).items():
            shape = Shape("object")
            shape.patterns.append((pattern, self.load(inner, document, base)))
            yield shape
        if "properties" in value and not value["properties"]:
            yield combined("allOf", [], generated=True)
        for keyword, given in value.items():
            part = self._part(keyword, given, value, document, base)
            if part is not None:
                yield part

    def _part(self, keyword: str, given: Any, value: dict[str, Any], document: Document, base: str) -> Shape | None:
        if keyword == "type":
            if isinstance(given, list):
                return any_type(given, [_signed(of_type(kind), f"type {kind}") for kind in given])
            return of_type(given)
        if keyword in _BOUNDS:
            return Shape(_BOUNDS[keyword], {keyword: plain(keyword, given)})
        if keyword in ("exclusiveMinimum", "exclusiveMaximum"):
            return Shape("number", {keyword: plain("minimum", given)})
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return _signed(self.reference(given, document, base), f"$ref {given}")
        if keyword == "enum":
            return enumeration(given)
        if keyword == "const":
            return constant(given)
        if keyword in ("allOf", "anyOf", "oneOf"):
            return self._combination(keyword, given, document, base)
        if keyword in ("not", "if"):
            shape = Shape("not" if keyword == "not" else "conditional")
            shape.inner = self.load(given, document, base)
            return shape
        if keyword in _SILENT:
            return combined("allOf", [], generated=True)
        part = self._object_part(keyword, given, document, base)
        return part or self._array_part(keyword, given, value, document, base)

    def _combination(self, criterion: str, given: Any, document: Document, base: str) -> Shape:
        branches: list[Shape] = []
        for branch in listed(criterion, given):
            branches += _flat(self.load(branch, document, base))
        return combined(criterion, branches)

    def _object_part(self, keyword: str, given: Any, document: Document, base: str) -> Shape | None:
        shape = Shape("object")
        if keyword == "required":
            shape.facts["required"] = names(keyword, given)
        elif keyword == "dependentRequired":
            pairs = schemas(keyword, given).items()
            shape.facts["dependencies"] = {name: names(keyword, needed) for name, needed in pairs if needed}
        elif keyword == "dependentSchemas":
            for name, inner in schemas(keyword, given).items():
                shape.dependent[name] = self.load(inner, document, base)
        elif keyword == "additionalProperties":
            _fill_additional(shape, self.load(given, document, base))
        elif keyword == "unevaluatedProperties":
            shape.unevaluated = self.load(given, document, base)
        elif keyword == "propertyNames":
            self.load(given, document, base)
        else:
            return None
        return shape

    def _array_part(self, keyword: str, given: Any, value: dict[str, Any], document: Document, base: str) -> Shape | None:
        shape = Shape("array")
        if keyword == "items" and isinstance(given, list) and self.draft == DRAFT_2020 and self.strict:
            raise InvalidSchema("items must be a schema in draft 2020-12; a list of them is called prefixItems")
        if keyword == "prefixItems" or (keyword == "items" and isinstance(given, list)):
            shape.tuple_items = [self.load(item, document, base) for item in listed(keyword, given)]
        elif keyword == "items" or (keyword == "additionalItems" and isinstance(value.get("items"), list)):
            inner = self.load(given, document, base)
            if keyword == "items" and not value.get("prefixItems") and inner.form not in ("true", "false"):
                shape.inner = inner
            else:
                _fill_additional(shape, inner)
        elif keyword == "unevaluatedItems":
            shape.unevaluated = self.load(given, document, base)
        elif keyword == "contains":
            self.load(given, document, base)
            shape.facts["minContains"] = value.get("minContains", 1)
            if "maxContains" in value:
                shape.facts["maxContains"] = value["maxContains"]
        else:
            return None
        return shape


def _fill_additional(shape: Shape, inner: Shape) -> None:
    if inner.form == "false":
        shape.additional = False
    elif inner.form != "true":
        shape.additional_shape = inner


def _grow(one: Shape, other: Shape) -> Shape:
    if one.form == other.form and one.form in _MERGING:
        return merge(one, other)
    for several, single in ((one, other), (other, one)):
        if (
            several.generated
            and several.criterion == "anyOf"
            and any(branch.form == single.form for branch in several.branches)
        ):
            return combined("anyOf", _accumulate([*several.branches, single]), generated=True)
    return combined("allOf", _accumulate(_flat(one) + _flat(other)), generated=True)


def _accumulate(shapes: list[Shape]) -> list[Shape]:
    found: list[Shape] = []
    for shape in shapes:
        for index, other in enumerate(found):
            if other.form == shape.form and shape.form in _MERGING:
                found[index] = _signed(merge(other, shape), other.source)
                break
        else:
            found.append(shape)
    return found


def _flat(shape: Shape) -> list[Shape]:
    return shape.branches if shape.generated and shape.criterion == "allOf" else [shape]


def _signed(shape: Shape, source: Any) -> Shape:
    shape.source = source
    return shape


def _copy(shape: Shape) -> Shape:
    """A shape that may be described without describing the one it was taken from."""
    copy = Shape(shape.form)
    for slot in Shape.__slots__:
        setattr(copy, slot, getattr(shape, slot))
    copy.facts = dict(shape.facts)
    return copy
