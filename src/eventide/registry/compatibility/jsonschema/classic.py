"""Drafts 4, 6 and 7: keywords are gathered by the type they speak of; several forms side by side become an allOf."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility.java_order import in_java_order
from eventide.registry.compatibility.jsonschema.loader import (
    DRAFT_4,
    DRAFT_7,
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
from eventide.registry.compatibility.jsonschema.shape import Shape, combined
from eventide.registry.compatibility.schema import InvalidSchema

_ARRAY = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
_OBJECT = (
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
)
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING = ("minLength", "maxLength", "pattern", "format")
_FORMS = (("array", _ARRAY), ("object", _OBJECT), ("number", _NUMBER), ("string", _STRING))


class ClassicLoader(Loader):
    """Loads a schema of draft 4, 6 or 7."""

    def load_object(self, value: dict[str, Any], document: Document, base: str) -> Shape:
        """The shape of a schema that is an object; beside a ``$ref`` nothing else counts."""
        if "$ref" in value:
            shape = self.reference(value["$ref"], document, base)
            shape.source = f"$ref {value['$ref']}"
            return shape
        found = self._forms(value, document, base)
        if not found:
            shape = Shape("empty")
        elif len(found) == 1:
            shape = found[0]
        else:
            shape = combined("allOf", found)
        shape.source = value
        return self.describe(shape, value)

    def _forms(self, value: dict[str, Any], document: Document, base: str) -> list[Shape]:
        found: list[Shape] = []
        if "enum" in value:
            found.append(enumeration(value["enum"]))
        for criterion in in_java_order(key for key in ("allOf", "anyOf", "oneOf") if key in value):
            branches = listed(criterion, value[criterion])
            found.append(combined(criterion, [self.load(branch, document, base) for branch in branches]))
        if "not" in value:
            shape = Shape("not")
            shape.inner = self.load(value["not"], document, base)
            found.append(shape)
        if "const" in value and self.draft != DRAFT_4:
            found.append(constant(value["const"]))
        used: set[str] = set()
        if "type" in value:
            kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
            shapes = [self._typed(kind, value, document, base) for kind in kinds]
            found.append(any_type(value["type"], shapes) if isinstance(value["type"], list) else shapes[0])
            used = {"number" if kind == "integer" else kind for kind in kinds}
        for form, keywords in _FORMS:
            if form not in used and any(keyword in value for keyword in self._known(keywords)):
                found.append(self._of_form(Shape(form), value, document, base))
        if self.draft == DRAFT_7 and any(keyword in value for keyword in ("if", "then", "else")):
            for keyword in ("if", "then", "else"):
                if keyword in value:
                    self.load(value[keyword], document, base)
            found.append(Shape("conditional"))
        return found

    def _known(self, keywords: tuple[str, ...]) -> tuple[str, ...]:
        if self.draft != DRAFT_4:
            return keywords
        return tuple(keyword for keyword in keywords if keyword not in ("contains", "propertyNames"))

    def _typed(self, kind: Any, value: dict[str, Any], document: Document, base: str) -> Shape:
        shape = self._of_form(of_type(kind), value, document, base)
        shape.source = f"type {kind}"
        return shape

    def _of_form(self, shape: Shape, value: dict[str, Any], document: Document, base: str) -> Shape:
        if shape.form == "object":
            self._fill_object(shape, value, document, base)
        elif shape.form == "array":
            self._fill_array(shape, value, document, base)
        elif shape.form == "string":
            _fill(shape, value, _STRING)
        elif shape.form == "number":
            _fill(shape, value, ("minimum", "maximum", "multipleOf"))
            self._fill_exclusive(shape, value)
        return shape

    def _fill_exclusive(self, shape: Shape, value: dict[str, Any]) -> None:
        for keyword in ("exclusiveMinimum", "exclusiveMaximum"):
            if keyword not in value:
                continue
            given = value[keyword]
            if self.draft == DRAFT_4:
                if not isinstance(given, bool):
                    raise InvalidSchema(f"{keyword} must be a boolean in draft 4, not {given!r}")
            elif type(given) not in (int, float):
                raise InvalidSchema(f"{keyword} must be a number, not {given!r}")
            else:
                shape.facts[keyword] = given

    def _fill_object(self, shape: Shape, value: dict[str, Any], document: Document, base: str) -> None:
        _fill(shape, value, ("minProperties", "maxProperties"))
        given = schemas("properties", value.get("properties", {}))
        for name in in_java_order(given):
            shape.properties[name] = self.load(given[name], document, base)
        if "additionalProperties" in value:
            self._fill_additional(shape, value["additionalProperties"], document, base)
        shape.facts["required"] = names("required", value.get("required", []))
        for pattern, inner in schemas("patternProperties", value.get("patternProperties", {})).items():
            shape.patterns.append((pattern, self.load(inner, document, base)))
        dependencies: dict[str, frozenset[str]] = {}
        for name, dependency in schemas("dependencies", value.get("dependencies", {})).items():
            if isinstance(dependency, list):
                if dependency:
                    dependencies[name] = names("dependencies", dependency)
            else:
                shape.dependent[name] = self.load(dependency, document, base)
        shape.facts["dependencies"] = dependencies
        if self.draft != DRAFT_4 and "propertyNames" in value:
            self.load(value["propertyNames"], document, base)

    def _fill_array(self, shape: Shape, value: dict[str, Any], document: Document, base: str) -> None:
        _fill(shape, value, ("minItems", "maxItems", "uniqueItems"))
        items = value.get("items")
        if isinstance(items, list):
            shape.tuple_items = [self.load(item, document, base) for item in items]
        elif isinstance(items, bool) and self.draft == DRAFT_4 and self.strict:
            raise InvalidSchema("items must be a schema or a list of them in draft 4, not a boolean")
        elif "items" in value:
            shape.inner = self.load(items, document, base)
        if "additionalItems" in value:
            self._fill_additional(shape, value["additionalItems"], document, base)
            if shape.inner is not None:
                shape.additional = True
        if self.draft != DRAFT_4 and "contains" in value:
            self.load(value["contains"], document, base)

    def _fill_additional(self, shape: Shape, given: Any, document: Document, base: str) -> None:
        if isinstance(given, bool):
            shape.additional = given
        else:
            shape.additional_shape = self.load(given, document, base)


def _fill(shape: Shape, value: dict[str, Any], keywords: tuple[str, ...]) -> None:
    for keyword in keywords:
        if keyword in value:
            shape.facts[keyword] = plain(keyword, value[keyword])
