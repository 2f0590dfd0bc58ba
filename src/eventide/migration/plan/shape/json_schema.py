"""JSON Schema objects: leaves through nested properties, properties added and taken away."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.shape.addition import Addition
from eventide.migration.plan.shape.leaf import Leaf

_TYPES = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
_FORMATS = {"date": "date", "date-time": "timestamp"}
WANTED, GONE = "x-eventide-wanted", "x-eventide-gone"
_SAID_ELSEWHERE = frozenset({"type", "format", "description", "title", "default", "properties", "required", "examples"})


class JsonLanguage:
    """JSON Schemas whose root is an object."""

    def leaves(self, text: str) -> dict[str, Leaf]:
        """Every leaf by its path, in the order of the schema."""
        return {leaf.path: leaf for leaf in _walk(_root(text), "", False)}

    def missing(self, text: str, wanted: str) -> list[Addition]:
        """The properties that a schema lacks and another has; none of them is required."""
        return list(_missing(_root(text), _root(wanted), ""))

    def with_added(self, text: str, additions: Sequence[Addition]) -> str:
        """The schema with these properties, where it has not got them yet."""
        root = _root(text)
        for addition in additions:
            at = _object_at(root, addition.parent)
            if at is None:
                raise PlanRefused(f"There is no object {addition.parent!r} in the schema to add {addition.name!r} to.")
            properties = at.setdefault("properties", {})
            if addition.name not in properties or _is_gone(properties[addition.name]):
                properties[addition.name] = copy.deepcopy(addition.definition)
        return json.dumps(root)

    def without(self, text: str, paths: Sequence[str]) -> str:
        """The schema without these properties; those it has not got are no error."""
        return _changed(text, paths, lambda properties, name: properties.pop(name))

    def loosened(self, text: str, paths: Sequence[str]) -> str:
        """The schema with these properties no longer required."""
        return _changed(text, paths, lambda properties, name: None)

    def softened(self, addition: Addition) -> Addition | None:
        """The property without its type, which stands beside it for people and for us.

        Documents of an open object may hold anything under the new name already, so a level that looks backward takes
        the name but no type.
        """
        return Addition(addition.parent, addition.name, {WANTED: addition.definition})

    def retired(self, text: str, paths: Sequence[str]) -> str | None:
        """The schema with these properties holding anything or nothing: a closed object refuses names that it has not got."""
        return _changed(text, paths, lambda properties, name: properties.update({name: {"deprecated": True, GONE: True}}))

    def requires(self, text: str, path: str) -> bool:
        """Must every document of this schema have this property?"""
        parent, _, name = path.rpartition(".")
        at = _object_at(_root(text), parent)
        return at is not None and name in at.get("required", ())

    def tightened(self, text: str, wanted: Sequence[Addition]) -> str:
        """The schema with these properties typed and, where they were wanted so, required."""
        root = _root(text)
        for each in wanted:
            at = _object_at(root, each.parent)
            if at is not None and each.name in at.get("properties", {}):
                at["properties"][each.name] = copy.deepcopy(each.definition)
                if each.required and each.name not in at.get("required", ()):
                    at.setdefault("required", []).append(each.name)
        return json.dumps(root)

    def renamed(self, addition: Addition, name: str) -> Addition:
        """The same addition under another name."""
        return Addition(addition.parent, name, addition.definition)

    def field(self, text: str, path: str) -> Any:
        """The definition of one property as it stands, or none."""
        parent, _, name = path.rpartition(".")
        at = _object_at(_root(text), parent)
        return at.get("properties", {}).get(name) if at else None

    def remark(self, text: str, addition: Addition) -> str | None:
        """None: no property is required unless the schema says so."""
        return None


def _changed(text: str, paths: Sequence[str], change: Callable[[dict[str, Any], str], object]) -> str:
    """The schema with each of these properties changed and no longer required; those it has not got are no error."""
    root = _root(text)
    for path in paths:
        parent, _, name = path.rpartition(".")
        at = _object_at(root, parent)
        if at is not None and name in at.get("properties", {}):
            change(at["properties"], name)
            _require_no_more(at, name)
    return json.dumps(root)


def _is_gone(definition: Any) -> bool:
    return isinstance(definition, dict) and definition.get(GONE) is True


def _wanted(definition: Any) -> Any:
    """What a property is to hold, also where the schema cannot say so yet."""
    return definition.get(WANTED, definition) if isinstance(definition, dict) else definition


def _require_no_more(node: Any, name: str) -> None:
    """Draft 4 forbids an empty list, so the last name takes it along."""
    rest = [each for each in node.get("required", ()) if each != name]
    if rest:
        node["required"] = rest
    else:
        node.pop("required", None)


def _root(text: str) -> Any:
    root = json.loads(text)
    if not isinstance(root, dict) or "object" not in _types(root):
        raise PlanRefused("Only a schema whose root is an object can be migrated property by property.")
    return root


def _types(node: Any) -> list[str]:
    said = node.get("type", "object" if "properties" in node else None)
    return said if isinstance(said, list) else [said] if said else []


def _object_at(root: Any, path: str) -> Any | None:
    at: Any | None = root
    for part in path.split(".") if path else ():
        at = _wanted(at.get("properties", {}).get(part)) if isinstance(at, dict) else None
    return at if isinstance(at, dict) and (at is root or "object" in _types(at)) else None


def _walk(node: Any, prefix: str, optional: bool) -> Iterator[Leaf]:
    required = set(node.get("required", ()))
    for name, given in node.get("properties", {}).items():
        if _is_gone(given):
            continue
        each = _wanted(given)
        path, kinds = f"{prefix}{name}", _types(each) if isinstance(each, dict) else []
        loose = optional or name not in required or "null" in kinds
        if "object" in kinds and each.get("properties"):
            yield from _walk(each, f"{path}.", loose)
            continue
        body = each if isinstance(each, dict) else {}
        plain = [k for k in kinds if k != "null"]
        kind = _TYPES.get(plain[0], "other") if len(plain) == 1 else "other"
        if kind == "string":
            kind = _FORMATS.get(body.get("format", ""), kind)
        meaning = {k: v for k, v in body.items() if k not in _SAID_ELSEWHERE}
        definition = {k: body[k] for k in ("type", "format") if k in body}
        yield Leaf(path, kind, definition, loose, body.get("description", ""), (), meaning)


def _missing(mine: Any, theirs: Any, prefix: str) -> Iterator[Addition]:
    have = mine.get("properties", {})
    for name, each in theirs.get("properties", {}).items():
        if _is_gone(each):
            continue
        if name not in have or _is_gone(have[name]):
            yield Addition(prefix.rstrip("."), name, each)
        elif isinstance(each, dict) and "object" in _types(each) and isinstance(have[name], dict):
            yield from _missing(_wanted(have[name]), each, f"{prefix}{name}.")
