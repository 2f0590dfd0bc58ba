"""Avro records: leaves through nested records, fields added with a null default, fields taken away."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.shape.addition import Addition
from eventide.migration.plan.shape.leaf import Leaf

_PLAIN = ("int", "long", "float", "double", "string", "boolean", "bytes")
_LOGICAL = {"date": "date", "decimal": "decimal", "uuid": "string"}
_FIELD_KEYS = frozenset({"name", "type", "default", "doc", "aliases", "order"})
Names = dict[str, Any]


class AvroLanguage:
    """Avro schemas whose root is a record."""

    def leaves(self, text: str) -> dict[str, Leaf]:
        """Every leaf by its path, in the order of the schema."""
        root = _root(text)
        return {leaf.path: leaf for leaf in _walk(root, "", _names(root), (), False)}

    def missing(self, text: str, wanted: str) -> list[Addition]:
        """The fields that a schema lacks and another has, each nullable with null as its default unless it has one."""
        mine, theirs = _root(text), _root(wanted)
        return list(_missing(mine, theirs, "", _names(mine), _names(theirs)))

    def with_added(self, text: str, additions: Sequence[Addition]) -> str:
        """The schema with these fields at the end of their records, where it has not got them yet."""
        root = _root(text)
        names = _names(root)
        for addition in additions:
            record = _record_at(root, addition.parent, names)
            if record is None:
                raise PlanRefused(f"There is no record {addition.parent!r} in the schema to add {addition.name!r} to.")
            if all(f["name"] != addition.name for f in record["fields"]):
                record["fields"].append(copy.deepcopy(addition.definition))
        return json.dumps(root)

    def without(self, text: str, paths: Sequence[str]) -> str:
        """The schema without these fields; those it has not got are no error."""
        return _changed(text, paths, lambda field: None)

    def loosened(self, text: str, paths: Sequence[str]) -> str:
        """The schema with these fields optional, so that it reads records with and without them."""
        return _changed(text, paths, _loose)

    def softened(self, addition: Addition) -> Addition | None:
        """None: an optional field is as soft as it gets."""
        return None

    def retired(self, text: str, paths: Sequence[str]) -> str | None:
        """None: readers skip what they do not know."""
        return None

    def requires(self, text: str, path: str) -> bool:
        """Must every record of this schema have this field, neither null nor by default?"""
        definition = self.field(text, path)
        return definition is not None and "default" not in definition and not _without_null(definition["type"])[1]

    def tightened(self, text: str, wanted: Sequence[Addition]) -> str:
        """The schema with these fields as they were wanted from the first; those it has not got are no error."""
        for each in wanted:
            text = _changed(text, [each.path], lambda _, each=each: _without_aliases(each.definition))  # type: ignore[misc]
        return text

    def renamed(self, addition: Addition, name: str) -> Addition:
        """The same addition under another name."""
        return Addition(addition.parent, name, {**addition.definition, "name": name})

    def field(self, text: str, path: str) -> Any:
        """The definition of one field as it stands, or none."""
        root = _root(text)
        parent, _, name = path.rpartition(".")
        record = _record_at(root, parent, _names(root))
        return next((f for f in record["fields"] if f["name"] == name), None) if record else None

    def remark(self, text: str, addition: Addition) -> str | None:
        """Why the field is looser than it was wanted."""
        return f"{addition.path} is optional in the registry: records from before the dual write lack it"


def _root(text: str) -> Any:
    root = json.loads(text)
    if not isinstance(root, dict) or root.get("type") != "record":
        raise PlanRefused("Only a schema whose root is a record can be migrated field by field.")
    return root


def _names(node: Any, found: Names | None = None) -> Names:
    """Records by name, so that a field that only names its type can be followed."""
    found = {} if found is None else found
    if isinstance(node, list):
        for each in node:
            _names(each, found)
    elif isinstance(node, dict):
        if node.get("type") == "record":
            found[node["name"].rpartition(".")[2]] = node
            for each in node["fields"]:
                _names(each["type"], found)
        elif isinstance(node.get("type"), dict | list):
            _names(node["type"], found)
        for key in ("items", "values"):
            _names(node.get(key), found)
    return found


def _without_null(type_: Any) -> tuple[Any, bool]:
    if not isinstance(type_, list):
        return type_, False
    others = [branch for branch in type_ if branch != "null"]
    return (others[0] if len(others) == 1 else others), "null" in type_


def _as_record(type_: Any, names: Names) -> Any | None:
    inner, _ = _without_null(type_)
    if isinstance(inner, str):
        inner = names.get(inner.rpartition(".")[2])
    return inner if isinstance(inner, dict) and inner.get("type") == "record" else None


def _record_at(root: Any, path: str, names: Names) -> Any | None:
    record: Any | None = root
    for part in path.split(".") if path else ():
        found = next((f for f in record["fields"] if f["name"] == part), None) if record else None
        record = _as_record(found["type"], names) if found else None
    return record


def _walk(record: Any, prefix: str, names: Names, around: tuple[str, ...], optional: bool) -> Iterator[Leaf]:
    for each in record["fields"]:
        path = f"{prefix}{each['name']}"
        inner, nullable = _without_null(each["type"])
        nested = _as_record(each["type"], names)
        if nested is not None and nested["name"] not in around:
            yield from _walk(nested, f"{path}.", names, (*around, nested["name"]), optional or nullable)
            continue
        props = {**(inner if isinstance(inner, dict) else {}), **each}
        meaning = {k: v for k, v in props.items() if k not in _FIELD_KEYS and k not in ("logicalType", "precision", "scale")}
        yield Leaf(
            path,
            _plain(inner),
            inner,
            nullable or optional,
            each.get("doc", ""),
            tuple(each.get("aliases", ())),
            meaning if not isinstance(inner, dict) or inner.get("type") in _PLAIN else {},
        )


def _plain(type_: Any) -> str:
    if isinstance(type_, dict):
        logical = type_.get("logicalType", "")
        if logical.startswith(("timestamp", "local-timestamp")):
            return "timestamp"
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        return _plain(type_.get("type"))
    if type_ == "enum":
        return "string"
    return type_ if type_ in _PLAIN else "other"


def _missing(mine: Any, theirs: Any, prefix: str, my_names: Names, their_names: Names) -> Iterator[Addition]:
    have = {f["name"]: f for f in mine["fields"]}
    for each in theirs["fields"]:
        path = f"{prefix}{each['name']}"
        if each["name"] not in have:
            yield Addition(prefix.rstrip("."), each["name"], _optional(each))
            continue
        inside, around = _as_record(have[each["name"]]["type"], my_names), _as_record(each["type"], their_names)
        if inside is not None and around is not None:
            yield from _missing(inside, around, f"{path}.", my_names, their_names)


def _changed(text: str, paths: Sequence[str], change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
    """The schema with each of these fields changed, or left out where the change gives none; those it has not got are no error."""
    root = _root(text)
    names = _names(root)
    for path in paths:
        parent, _, name = path.rpartition(".")
        record = _record_at(root, parent, names)
        if record is not None:
            fields = [change(field) if field["name"] == name else field for field in record["fields"]]
            record["fields"] = [field for field in fields if field is not None]
    return json.dumps(root)


def _loose(definition: Any) -> Any:
    inner = definition["type"] if isinstance(definition["type"], list) else [definition["type"]]
    return {**definition, "type": ["null", *(branch for branch in inner if branch != "null")], "default": None}


def _optional(definition: Any) -> Any:
    """The field as readers of records without it can take it; an alias would make them read the old one into it."""
    kept = _without_aliases(definition)
    return kept if "default" in kept else _loose(kept)


def _without_aliases(definition: Any) -> Any:
    return {k: v for k, v in definition.items() if k != "aliases"}
