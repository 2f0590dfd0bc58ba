"""The fields of a schema as a contract lists them, and the JSON Schema of a contract that brings no schema of its own."""

from __future__ import annotations

import json
from typing import Any

from eventide.registry.compatibility import parse
from eventide.registry.compatibility.protobuf.element import Field, Message

Property = dict[str, Any]
_AVRO = {
    **dict.fromkeys(("int", "long"), "integer"), **dict.fromkeys(("float", "double"), "number"), "boolean": "boolean",
    **dict.fromkeys(("string", "bytes", "fixed", "enum"), "string"), "array": "array", **dict.fromkeys(("map", "record"), "object"),
}  # fmt: skip
_AVRO_LOGICAL = {"decimal": "number", "date": "date", **{f"{kind}-{unit}": "date" for kind in ("timestamp", "local-timestamp")
                 for unit in ("millis", "micros", "nanos")}}  # fmt: skip
_PROTOBUF = {
    **{f"{sign}{kind}{size}": "integer" for sign in ("", "s", "u") for kind in ("int", "fixed") for size in (32, 64)},
    **dict.fromkeys(("float", "double"), "number"), "bool": "boolean", "string": "string", "bytes": "string",
    "google.protobuf.Timestamp": "date",
}  # fmt: skip
_DATES = ("date", "date-time")
_JSON = {"date": {"type": "string", "format": "date"}, "timestamp": {"type": "string", "format": "date-time"}}


def fields_of(kind: str, text: str, references: dict[str, str]) -> list[Property]:
    """The fields of a schema, in order; what the standard's types are too coarse for stands in `physicalType`."""
    if kind == "PROTOBUF":
        raw: Any = parse(kind, text, references, strict=False).raw
        messages = [type_ for type_ in raw.types if isinstance(type_, Message)]
        return [_of_protobuf(field) for field in _protobuf_fields(messages[0])] if messages else []
    shape: Any = parse(kind, text, references, strict=False).raw
    if kind == "JSON":
        return _of_object(shape) if isinstance(shape, dict) else []
    if not isinstance(shape, dict):
        return []
    names: dict[str, str] = {}
    return [_of_avro(field, names) for field in shape.get("fields", ())]


def _of_avro(field: dict[str, Any], names: dict[str, str]) -> Property:
    type_, required = field["type"], True
    if isinstance(type_, list):
        others = [branch for branch in type_ if branch != "null"]
        required = len(others) == len(type_)
        type_ = others[0] if len(others) == 1 else others
    found: Property = {"name": field["name"], **_avro_type(type_, names), "required": required}
    return {**found, "description": field["doc"]} if field.get("doc") else found


def _avro_type(type_: Any, names: dict[str, str]) -> Property:
    """A type as the standard has it; `names` are the named types met so far and what they are."""
    if isinstance(type_, list):
        return {"physicalType": json.dumps(type_)}
    named: dict[str, Any] = {"type": type_} if isinstance(type_, str) else type_
    word, logical = named["type"], named.get("logicalType")
    if not isinstance(word, str):
        return _avro_type(word, names)
    found: Property = {"physicalType": f"{word} ({logical})" if logical else word}
    if "name" in named:
        names[str(named["name"]).rpartition(".")[2]] = word
    told = _AVRO_LOGICAL.get(logical or "") or _AVRO.get(word) or _AVRO[names.get(word.rpartition(".")[2], "record")]
    found = {"logicalType": told, **found}
    if word == "record":
        found["properties"] = [_of_avro(inner, names) for inner in named["fields"]]
    elif word == "array":
        found["items"] = _avro_type(named["items"], names)
    return found


def _of_object(shape: dict[str, Any]) -> list[Property]:
    required = shape.get("required") or ()
    held = shape.get("properties")
    return [{"name": name, **_json_type(inner), "required": name in required} for name, inner in held.items()] if held else []


def _json_type(shape: Any) -> Property:
    if not isinstance(shape, dict):
        return {"physicalType": json.dumps(shape)}
    words = shape.get("type")
    others = [word for word in ([words] if isinstance(words, str) else words or ()) if word != "null"]
    found: Property = {"physicalType": json.dumps(words)} if words is not None else {}
    if len(others) == 1:
        is_date = others[0] == "string" and shape.get("format") in _DATES
        found = {"logicalType": "date" if is_date else others[0], **found}
        if is_date:
            found["physicalType"] = f"string ({shape['format']})"
        if others[0] == "object" and shape.get("properties"):
            found["properties"] = _of_object(shape)
        if others[0] == "array" and isinstance(shape.get("items"), dict):
            found["items"] = _json_type(shape["items"])
    return {**found, "description": shape["description"]} if isinstance(shape.get("description"), str) else found


def _protobuf_fields(message: Message) -> list[Field]:
    return sorted((*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)), key=lambda f: f.number)


def _of_protobuf(field: Field) -> Property:
    one = {"logicalType": _PROTOBUF.get(field.type, "object"), "physicalType": field.type}
    label = (field.label or "").lower()
    if label == "repeated":
        return {
            "name": field.name,
            "logicalType": "array",
            "physicalType": f"repeated {field.type}",
            "items": one,
            "required": False,
        }
    return {"name": field.name, **one, "required": label == "required"}


def json_schema_of(name: str, properties: list[Property]) -> str:
    """The JSON Schema that a contract's properties describe.

    Raises:
        ValueError: a type that JSON Schema has no word for, with the name of the property.
    """
    return json.dumps({"title": name, **_object(properties, "")})


def _object(properties: list[Property], path: str) -> dict[str, Any]:
    found = {str(each["name"]): _schema(each, f"{path}{each['name']}") for each in properties}
    required = [str(each["name"]) for each in properties if each.get("required")]
    return {"type": "object", "properties": found, **({"required": required} if required else {})}


def _schema(given: Property, path: str) -> dict[str, Any]:
    kind = given.get("logicalType")
    if kind == "object":
        made = _object(given.get("properties") or [], f"{path}.")
    elif kind == "array":
        made = {"type": "array", **({"items": _schema(given["items"], f"{path}[]")} if given.get("items") else {})}
    elif kind in ("string", "integer", "number", "boolean"):
        made = {"type": kind}
    elif kind in _JSON:
        made = dict(_JSON[str(kind)])
    elif kind is None:
        made = {}
    else:
        raise ValueError(f"{path} has the logicalType {kind!r}, which no JSON Schema can be made of")
    return {**made, "description": given["description"]} if given.get("description") else made
