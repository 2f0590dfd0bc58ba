"""Avro schemas as text: Java's own key order, the normalised form, the parsing canonical form and its fingerprint."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility import json_text
from eventide.registry.compatibility.avro.node import NAMED, PRIMITIVES, Field, Node, shown

_EMPTY = 0xC15D213AA4D7A795
_TIMES = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    **{f"{kind}timestamp-{unit}": "long" for kind in ("", "local-") for unit in ("millis", "micros", "nanos")},
    "big-decimal": "bytes",
}


def canonical(node: Node, known: frozenset[str] = frozenset()) -> str:
    """The text that Java's ``Schema.toString`` gives: docs kept, known names not written out again."""
    return json_text.write(as_json(node, known))


def as_json(node: Node, known: frozenset[str] = frozenset()) -> Any:
    """The schema as a JSON value in Java's key order."""
    return _json(node, set(known), None)


def normalized(node: Node, known: frozenset[str] = frozenset()) -> str:
    """The canonical text with properties and aliases in order and empty docs left out."""
    return json_text.write(_json(node, set(known), None, tidy=True))


def parsing_form(node: Node) -> str:
    """The parsing canonical form of the Avro specification: only what changes how bytes are read."""
    parts: list[str] = []
    _parsing_form(node, set(), parts)
    return "".join(parts)


def fingerprint(text: str) -> int:
    """CRC-64-AVRO of a parsing canonical form.

    >>> hex(fingerprint('"string"'))
    '0x8f014872634503c7'
    """
    value = _EMPTY
    for byte in text.encode():
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
        table.append(value)
    return tuple(table)


_TABLE = _table()


def _json(node: Node, known: set[str], space: str | None, *, tidy: bool = False) -> Any:
    kind = node.kind
    props = _tidy_props(node) if tidy else node.props
    if kind in PRIMITIVES:
        return {"type": kind, **props} if props else kind
    if kind == "union":
        return [_json(branch, known, space, tidy=tidy) for branch in node.branches]
    if kind == "array" or kind == "map":
        item = _json(node.item, known, space, tidy=tidy)
        return {"type": kind, "items" if kind == "array" else "values": item, **props}
    if node.full in known or kind == "?":
        return shown(node.full, space)
    known.add(node.full)
    value: dict[str, Any] = {"type": "error" if node.is_error else kind, "name": node.name}
    if node.space != space:
        value["namespace"] = node.space or ""
    if node.doc is not None and (node.doc or not tidy):
        value["doc"] = node.doc
    if kind == "record":
        value["fields"] = [_field(field, known, node.space, tidy=tidy) for field in node.fields]
    elif kind == "fixed":
        value["size"] = node.size
    else:
        value["symbols"] = node.symbols
        if node.default is not None:
            value["default"] = node.default
    value.update(props)
    if node.aliases:
        aliases = sorted(node.aliases) if tidy else node.aliases
        value["aliases"] = [shown(alias, node.space) for alias in aliases]
    return value


def _field(field: Field, known: set[str], space: str | None, *, tidy: bool) -> dict[str, Any]:
    value: dict[str, Any] = {"name": field.name, "type": _json(field.type, known, space, tidy=tidy)}
    if field.doc is not None:
        value["doc"] = field.doc
    if field.has_default:
        value["default"] = _tidy_default(field.type, field.default) if tidy else field.default
    if field.order != "ascending":
        value["order"] = field.order
    if field.aliases:
        value["aliases"] = sorted(field.aliases) if tidy else list(field.aliases)
    value.update(json_text.sort(field.props) if tidy else field.props)
    return value


def _tidy_default(node: Node, value: Any) -> Any:
    """The default as its type has it: 1 is 1.0 for a double. Of a union, the first branch decides."""
    if node.kind == "union" and node.branches:
        node = node.branches[0]
    if node.kind in ("float", "double") and type(value) is int:
        return float(value)
    if node.kind == "array" and isinstance(value, list):
        return [_tidy_default(node.item, item) for item in value]
    if isinstance(value, dict) and node.kind in ("map", "record"):
        types = {field.name: field.type for field in node.fields}
        return {key: _tidy_default(types.get(key, node.item), value[key]) for key in sorted(value)}
    return json_text.sort(value)


def _tidy_props(node: Node) -> dict[str, Any]:
    props = dict(sorted((key, json_text.sort(value)) for key, value in node.props.items()))
    if not _is_logical(node):
        return props
    first = ["logicalType"]
    if props["logicalType"] == "decimal":
        first += ["precision"] + (["scale"] if props.get("scale") else [])
    return {key: props[key] for key in first} | props


def _is_logical(node: Node) -> bool:
    """Whether Java takes the logical type for one; what it does not understand is a property like any other."""
    logical = node.props.get("logicalType")
    if logical == "uuid":
        return node.kind == "string" or (node.kind == "fixed" and node.size == 16)
    if logical == "duration":
        return node.kind == "fixed" and node.size == 12
    if logical == "decimal" and node.kind in ("bytes", "fixed"):
        precision, scale = node.props.get("precision"), node.props.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
            return False
        return node.kind == "bytes" or precision <= len(str(2 ** (8 * min(node.size, 4096) - 1) - 1)) - 1
    return isinstance(logical, str) and _TIMES.get(logical) == node.kind


def _parsing_form(node: Node, known: set[str], parts: list[str]) -> None:
    kind = node.kind
    if kind in PRIMITIVES:
        parts.append(f'"{kind}"')
    elif kind == "union":
        mark = "["
        for branch in node.branches:
            parts.append(mark)
            _parsing_form(branch, known, parts)
            mark = ","
        parts.append("]" if node.branches else "[]")
    elif kind not in NAMED:
        parts.append('{"type":"array","items":' if kind == "array" else '{"type":"map","values":')
        _parsing_form(node.item, known, parts)
        parts.append("}")
    elif node.full in known:
        parts.append(f'"{node.full}"')
    else:
        known.add(node.full)
        parts.append(f'{{"name":"{node.full}","type":"{kind}"')
        if kind == "enum":
            parts.append(',"symbols":[' + ",".join(f'"{symbol}"' for symbol in node.symbols) + "]}")
        elif kind == "fixed":
            parts.append(f',"size":{node.size}}}')
        else:
            mark = ',"fields":['
            for field in node.fields:
                parts.append(f'{mark}{{"name":"{field.name}","type":')
                _parsing_form(field.type, known, parts)
                parts.append("}")
                mark = ","
            parts.append("]}" if node.fields else ',"fields":[]}')
