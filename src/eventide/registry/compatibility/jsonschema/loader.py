"""Turns a JSON Schema into shapes: what the drafts share; `classic` and `modern` have what they do not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from eventide.registry.compatibility.jsonschema.locate import Document, Library, join
from eventide.registry.compatibility.jsonschema.shape import Shape, combined
from eventide.registry.compatibility.schema import InvalidSchema

DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019, DRAFT_2020 = 4, 6, 7, 2019, 2020
_DRAFTS = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_INTEGERS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "multipleOf")


def draft_of(root: Any) -> int:
    """The draft that the document declares; 7 if it declares none that is known."""
    given = root.get("$schema") if isinstance(root, dict) else None
    if not isinstance(given, str):
        return DRAFT_7
    return _DRAFTS.get(given.rstrip("#").partition("://")[2], DRAFT_7)


class Loader:
    """What both ways of loading share: the shapes of references, and keywords checked for the kind of their value."""

    def __init__(self, draft: int, library: Library, strict: bool) -> None:
        self.draft = draft
        self.strict = strict
        self._library = library
        self._targets: dict[str, Shape] = {}
        self._waiting: list[tuple[Shape, Any, Document, str]] = []
        self._references = 0

    def load_all(self, root: Document) -> Shape:
        """The shape of the document; what references lead to is loaded after it, so that no chain of them goes deep."""
        shape = self.load(root.value, root, root.address)
        while self._waiting:
            knot, value, document, base = self._waiting.pop()
            knot.inner = self.load(value, document, base)
        return shape

    def load(self, value: Any, document: Document, base: str) -> Shape:
        """The shape of one schema in a document."""
        if isinstance(value, bool):
            return Shape("true" if value else "false")
        if not isinstance(value, dict):
            raise InvalidSchema(f"{value!r} is no schema")
        given = value.get("id" if self.draft == DRAFT_4 else "$id")
        if isinstance(given, str) and "$ref" not in value:
            base = join(base, given)
        references = self._references
        shape = self.load_object(value, document, base)
        if references == self._references:
            shape.self_contained = self.draft
        return shape

    def load_object(self, value: dict[str, Any], document: Document, base: str) -> Shape:
        """The shape of a schema that is an object."""
        raise NotImplementedError

    def reference(self, ref: Any, document: Document, base: str) -> Shape:
        """A shape that stands for another one; the other is loaded once, and later."""
        self._references += 1
        value, target, address = self._library.find(_string("$ref", ref), document, base)
        knot = self._targets.get(address)
        if knot is None:
            knot = self._targets[address] = Shape("ref")
            scope = base if target is document else target.address
            self._waiting.append((knot, value, target, scope))
        shape = Shape("ref")
        shape.inner = knot
        return shape

    def describe(self, shape: Shape, value: dict[str, Any]) -> Shape:
        """The shape with id, title, description and default."""
        for slot, keyword in (
            ("id", "id" if self.draft == DRAFT_4 else "$id"),
            ("title", "title"),
            ("description", "description"),
        ):
            if keyword in value:
                setattr(shape, slot, _string(keyword, value[keyword]))
        if "default" in value:
            shape.default = value["default"]
        if "connect.type" in value:
            shape.facts["connect.type"] = value["connect.type"]
        return shape


def of_type(name: Any) -> Shape:
    """The bare shape of a ``type``."""
    if name not in _TYPES:
        raise InvalidSchema(f"unknown type: [{name}]")
    return Shape("number", {"integer": True}) if name == "integer" else Shape(name)


def enumeration(value: Any) -> Shape:
    """The shape of an ``enum``."""
    if not isinstance(value, list):
        raise InvalidSchema("enum must be an array")
    return Shape("enum", {"values": frozenset(freeze(item) for item in value)})


def constant(value: Any) -> Shape:
    """The shape of a ``const``."""
    return Shape("const", {"value": freeze(value)})


def freeze(value: Any) -> Any:
    """A JSON value that can be a member of a set; true is not 1."""
    if isinstance(value, dict):
        return ("object", frozenset((key, freeze(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(freeze(item) for item in value))
    return (type(value).__name__, value)


def plain(keyword: str, value: Any) -> Any:
    """The value of a bound or pattern, refused if it is of the wrong kind."""
    if keyword in _INTEGERS:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not int:
            raise InvalidSchema(f"{keyword} must be an integer, not {value!r}")
    elif keyword in _NUMBERS:
        if type(value) not in (int, float):
            raise InvalidSchema(f"{keyword} must be a number, not {value!r}")
        if keyword == "multipleOf":
            if not value:
                raise InvalidSchema("multipleOf should not be 0")
            return Decimal(str(value))
    elif keyword in ("pattern", "format"):
        return _string(keyword, value)
    elif keyword == "uniqueItems" and not isinstance(value, bool):
        raise InvalidSchema(f"{keyword} must be a boolean, not {value!r}")
    return value


def names(keyword: str, value: Any) -> frozenset[str]:
    """A list of property names."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidSchema(f"{keyword} must be an array of strings")
    return frozenset(value)


def schemas(keyword: str, value: Any) -> dict[str, Any]:
    """An object whose values are schemas."""
    if not isinstance(value, dict):
        raise InvalidSchema(f"{keyword} must be an object")
    return value


def listed(keyword: str, value: Any) -> list[Any]:
    """An array of schemas."""
    if not isinstance(value, list):
        raise InvalidSchema(f"{keyword} must be an array")
    return value


def any_type(value: Any, shapes: list[Shape]) -> Shape:
    """The shape of several types at once."""
    return combined("anyOf", shapes, generated=isinstance(value, list))


def _string(keyword: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidSchema(f"{keyword} must be a string, not {value!r}")
    return value
