"""Reads an Avro schema as Java's parser does: the same names, the same forward references, the same refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from eventide.registry.compatibility import json_text
from eventide.registry.compatibility.avro import text
from eventide.registry.compatibility.avro.default import is_valid
from eventide.registry.compatibility.avro.node import NAMED, PRIMITIVES, Field, Node, qualified, sign, split
from eventide.registry.compatibility.schema import InvalidSchema

_RESERVED = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"),
)
_ENUM_RESERVED = _RESERVED | {"default"}
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_STRICT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JAVA_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)")
_MAX_INT = 2**31 - 1
_BARE = {name: Node(name) for name in PRIMITIVES}  # never changed, so one of each is enough


def read(schema: str, references: Iterable[str] = (), *, strict: bool = True) -> tuple[Node, frozenset[str], bool]:
    """The root type of the text, the full names that the references define, and whether types may lead to themselves.

    `strict` is how a new schema is read: defaults must fit their fields and names must be plain ASCII. What is
    already registered is read with ``strict=False``.
    """
    parser = _Parser(strict=strict)
    known = [parser.read(reference) for reference in references]
    root = parser.read(schema)
    parser.resolve()
    return parser.resolved(root), frozenset(parser.resolved(node).full for node in known), bool(parser.owed)


class _Parser:
    """One reading: the types named so far, and the names that are still owed a type."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._types: dict[str, Node] = {}
        self.owed: dict[str, Node] = {}
        self._unions: list[Node] = []
        self._holders: list[Node] = []
        self._records: list[Node] = []

    def read(self, schema: str) -> Node:
        return self._node(json_text.read(schema, comments=True), None)

    def resolved(self, node: Node) -> Node:
        return self._types[node.full] if node.kind == "?" else node

    def resolve(self) -> None:
        """Put the type in the place of every name that stood for it."""
        for name in self.owed:
            if name not in self._types:
                raise InvalidSchema(f"Undefined schema: {name}")
        if not self.owed:
            return
        for record in self._records:
            for field in record.fields:
                field.type = self.resolved(field.type)
        for holder in self._holders:
            holder.item = self.resolved(holder.item)
        for union in self._unions:
            union.branches = [self.resolved(branch) for branch in union.branches]
            self._refuse_ambiguous(union)

    # One frame per level of nesting, so that the depth which json_text allows fits every stack.
    def _node(self, value: Any, space: str | None) -> Node:
        if isinstance(value, str):
            return self._find(value, space)
        if isinstance(value, dict):
            kind = value.get("type")
            if not isinstance(kind, str):
                raise InvalidSchema(f"No type: {json_text.write(value)}")
            if kind in PRIMITIVES:
                return self._with_props(Node(kind), value)
            if kind == "array" or kind == "map":
                key = "items" if kind == "array" else "values"
                if key not in value:
                    raise InvalidSchema(f"{kind.title()} has no {key} type: {json_text.write(value)}")
                node = Node(kind)
                node.item = self._node(value[key], space)
                self._holders.append(node)
                return self._with_props(sign(node), value)
            if kind == "error" or kind in NAMED:
                return self._named(kind, value, space)
            known = self._types.get(qualified(kind, space) if "." not in kind else kind) or self._types.get(kind)
            if known is not None:  # a name in the place of a type: {"type": "E"} is E
                return known
            raise InvalidSchema(
                'A schema "type" MUST be a primitive type or one of "enum", "fixed", "record", "error", "array" or "map".'
            )
        if isinstance(value, list):
            node = Node("union")
            node.branches = [self._node(branch, space) for branch in value]
            self._refuse_ambiguous(node)
            self._unions.append(node)
            return sign(node)
        raise InvalidSchema(f"Schema not yet supported: {json_text.write(value)}")

    def _find(self, name: str, space: str | None) -> Node:
        if name in _BARE:
            return _BARE[name]
        full = qualified(name, space) if "." not in name else name
        found = self._types.get(full) or self._types.get(name)
        if found is None:
            found = self.owed.get(full)
            if found is None:
                found = self.owed[full] = Node("?").named(*split(full, None))
        return found

    def _named(self, kind: str, value: dict[str, Any], space: str | None) -> Node:
        given = value.get("namespace")
        if not isinstance(value.get("name"), str):
            raise InvalidSchema(f"No name in schema: {json_text.write(value)}")
        name, space = split(value["name"], given if isinstance(given, str) else space)
        self._refuse_name(name)
        node = Node("record" if kind == "error" else kind).named(name, space)
        if node.full in PRIMITIVES:
            raise InvalidSchema(f"Schemas may not be named after primitives: {node.full}")
        node.is_error = kind == "error"
        node.doc = _text(value, "doc")
        if kind == "enum":
            self._fill_enum(node, value)
        elif kind == "fixed":
            self._fill_fixed(node, value)
        else:
            self._fill_record(node, value)
        self._with_props(node, value)
        aliases = [split(alias, node.space) for alias in _aliases(value)]
        for alias, _ in aliases:
            self._refuse_name(alias)
        node.aliases = tuple(dict.fromkeys(qualified(*alias) for alias in aliases))
        self._define(node)
        return sign(node)

    def _fill_record(self, node: Node, value: dict[str, Any]) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Record has no fields: {json_text.write(value)}")
        self._records.append(node)
        for given in fields:
            name = given.get("name") if isinstance(given, dict) else None
            if not isinstance(name, str):
                raise InvalidSchema(f"No field name: {json_text.write(given)}")
            if "type" not in given:
                raise InvalidSchema(f"No field type: {json_text.write(given)}")
            field = Field(name, self._node(given["type"], node.space), _props(given, _FIELD_RESERVED))
            self._fill_field(field, given)
            node.fields.append(field)
        for position, field in enumerate(node.fields):
            other = node.fields_by_name.setdefault(field.name, field)
            if other is not field:
                first = node.fields.index(other)
                raise InvalidSchema(
                    f"Duplicate field {field.name} in record {node.full}: {field.name} type:{_upper(field.type)} "
                    f"pos:{position} and {field.name} type:{_upper(other.type)} pos:{first}."
                )

    def _fill_field(self, field: Field, given: dict[str, Any]) -> None:
        self._refuse_name(field.name)
        field.doc = _text(given, "doc")
        if "order" in given:
            order = given["order"]
            if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
                raise InvalidSchema(f"No enum constant org.apache.avro.Schema.Field.Order.{str(order).upper()}")
            field.order = order.lower()
        if "default" in given:
            field.default, field.has_default = given["default"], True
            if field.type.kind in ("float", "double") and isinstance(field.default, str):
                field.default = _double(field.default)
            if self._strict and not is_valid(field.type, field.default):
                wrong = f"{json_text.write(field.default)} not a {text.canonical(field.type)}"
                raise InvalidSchema(f"Invalid default for field {field.name}: {wrong}")
        field.aliases = _aliases(given)

    def _fill_enum(self, node: Node, value: dict[str, Any]) -> None:
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"Enum has no symbols: {json_text.write(value)}")
        seen: set[str] = set()
        for symbol in symbols:
            self._refuse_name(symbol if isinstance(symbol, str) else None)
            if symbol in seen:
                raise InvalidSchema(f"Duplicate enum symbol: {symbol}")
            seen.add(symbol)
        node.symbols = symbols
        node.default = _text(value, "default")
        if node.default is not None and node.default not in seen:
            listed = ", ".join(symbols)
            raise InvalidSchema(f"The Enum Default: {node.default} is not in the enum symbol set: [{listed}]")

    def _fill_fixed(self, node: Node, value: dict[str, Any]) -> None:
        size = value.get("size")
        if type(size) is not int or abs(size) > _MAX_INT:
            raise InvalidSchema(f"Invalid or no size: {json_text.write(value)}")
        if size < 0:
            raise InvalidSchema(f"Malformed data. Length is negative: {size}")
        node.size = size

    def _define(self, node: Node) -> None:
        if self._strict:
            for part in (node.space or "").split(".") if node.space else ():
                complaint = self._complaint(part)
                if complaint:
                    raise InvalidSchema(f'Namespace part "{part}" is invalid: {complaint}')
        first = self._types.setdefault(node.full, node)
        if first is not node and not _same(first, node, set()):
            raise InvalidSchema(f"Can't redefine: {node.full}")

    def _with_props(self, node: Node, value: dict[str, Any]) -> Node:
        node.props = _props(value, _ENUM_RESERVED if node.kind == "enum" else _RESERVED)
        return node

    def _refuse_ambiguous(self, union: Node) -> None:
        seen: set[str] = set()
        for branch in union.branches:
            if branch.kind == "union":
                raise InvalidSchema(f"Nested union: {text.canonical(union)}")
            if branch.full in seen:
                raise InvalidSchema(f"Duplicate in union:{branch.full}")
            seen.add(branch.full)

    def _refuse_name(self, name: str | None) -> None:
        complaint = self._complaint(name)
        if complaint:
            raise InvalidSchema(complaint)

    def _complaint(self, name: str | None) -> str | None:
        if name is None:
            return "Null name"
        if not name:
            return "Empty name"
        if _STRICT_NAME.fullmatch(name):
            return None
        first = name[0] if self._strict else name[0] if not name[0].isalpha() else "_"
        if not (first == "_" or (first.isascii() and first.isalpha())):
            return f"Illegal initial character: {name}"
        if self._strict or not all(letter.isalnum() or letter == "_" for letter in name):
            return f"Illegal character in: {name}"
        return None


def _props(value: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: value[key] for key in value if key not in reserved}


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _aliases(value: dict[str, Any]) -> tuple[str, ...]:
    aliases = value.get("aliases", ())
    if not isinstance(aliases, (list, tuple)):
        raise InvalidSchema(f"aliases not an array: {json_text.write(value)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise InvalidSchema(f"alias not a string: {json_text.write(alias)}")
    return tuple(dict.fromkeys(aliases))


def _double(given: str) -> float:
    if not _JAVA_DOUBLE.fullmatch(given.strip()):
        raise InvalidSchema(f'For input string: "{given}"')
    return float(given.strip().rstrip("fFdD") if "N" not in given and "I" not in given else given)


def _upper(node: Node) -> str:
    return "RECORD" if node.kind == "?" else node.kind.upper()


def _same(one: Node, other: Node, seen: set[tuple[int, int]]) -> bool:
    """Java's equality of schemas: docs and aliases do not count."""
    pair = (id(one), id(other))
    if one is other or pair in seen:
        return True
    seen.add(pair)
    if "?" in (one.kind, other.kind):
        return one.full == other.full
    if (one.kind, one.full, one.props, one.symbols, one.size) != (
        other.kind,
        other.full,
        other.props,
        other.symbols,
        other.size,
    ):
        return False
    if len(one.branches) != len(other.branches) or len(one.fields) != len(other.fields):
        return False
    if one.kind in ("array", "map"):
        return _same(one.item, other.item, seen)
    return all(_same(a, b, seen) for a, b in zip(one.branches, other.branches, strict=True)) and all(
        (a.name, a.has_default, a.default, a.order, a.props) == (b.name, b.has_default, b.default, b.order, b.props)
        and _same(a.type, b.type, seen)
        for a, b in zip(one.fields, other.fields, strict=True)
    )
