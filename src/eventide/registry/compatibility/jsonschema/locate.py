"""Finds what a ``$ref`` points at: in the document itself, in a referenced schema, or in a draft's own meta-schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from eventide.registry.compatibility import json_text
from eventide.registry.compatibility.schema import InvalidSchema

_NOWHERE = "mem://input"


class Document:
    """One JSON text: the value, the address it is known by, and what carries an id or anchor in it."""

    def __init__(self, address: str, value: Any, id_keyword: str) -> None:
        self.address = address
        self.value = _bridge_definitions(value)
        self.marked: dict[str, Any] = {}
        self._mark(id_keyword)

    def _mark(self, id_keyword: str) -> None:
        waiting: list[tuple[Any, str]] = [(self.value, self.address)]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, dict):
                given = value.get(id_keyword)
                if isinstance(given, str):
                    self.marked.setdefault(given, value)
                    base = join(base, given)
                    self.marked.setdefault(base, value)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    anchor = value.get(keyword)
                    if isinstance(anchor, str):
                        self.marked.setdefault(f"{urldefrag(base)[0]}#{anchor}", value)
                waiting += [(item, base) for item in value.values() if isinstance(item, (dict, list))]
            elif isinstance(value, list):
                waiting += [(item, base) for item in value if isinstance(item, (dict, list))]


class Library:
    """The documents that references may lead to."""

    def __init__(self, root: Any, references: Mapping[str, str], id_keyword: str) -> None:
        given = root.get(id_keyword) if isinstance(root, dict) else None
        base = given if isinstance(given, str) else ""
        self.root = Document(base, root, id_keyword)
        self._documents: dict[str, Document] = {}
        for name, text in references.items():
            document = Document(join(base, name), json_text.read(text), id_keyword)
            for address in (name, "./" + name, document.address, urljoin(_NOWHERE + "/", name)):
                self._documents.setdefault(_strip(address), document)

    def find(self, ref: str, document: Document, base: str) -> tuple[Any, Document, str]:
        """What the ref points at, the document it is in, and its absolute address.

        Raises:
            InvalidSchema: it points at nothing that is here; nothing is ever fetched.
        """
        address = join(base, ref)
        marked = document.marked.get(address, document.marked.get(ref))
        if marked is not None:
            return marked, document, f"{id(document)}:{address}"
        place, fragment = urldefrag(address)
        target = document
        if not ref.startswith("#") and _strip(place) not in (_strip(document.address), ""):
            target = self._document(_strip(place), ref)
        elif not ref.startswith("#") and not place:
            target = self._document(_strip(ref.partition("#")[0]), ref)
        marked = target.marked.get(f"{target.address}#{fragment}") if fragment and fragment[0] != "/" else None
        value = marked if marked is not None else _follow(target.value, fragment, ref)
        return value, target, f"{id(target)}:#{fragment}"

    def _document(self, place: str, ref: str) -> Document:
        found = self._documents.get(place) or self._documents.get(_strip(ref.partition("#")[0]))
        if found is None:
            value = _meta_schemas().get(place)
            if value is None:
                raise InvalidSchema(f"$ref {ref!r} leads to no schema that is referenced here")
            found = self._documents[place] = Document(place, value, "$id")
        return found


def join(base: str, ref: str) -> str:
    """The ref as an absolute address, as far as the base allows."""
    if ref.startswith("#"):
        return urldefrag(base)[0] + ref
    try:
        return urljoin(base, ref) if base else ref
    except ValueError as error:
        raise InvalidSchema(f"{ref!r} is no URI reference: {error}") from None


def _strip(address: str) -> str:
    return address.rstrip("#")


def _follow(value: Any, fragment: str, ref: str) -> Any:
    if fragment and not fragment.startswith("/"):
        raise InvalidSchema(f"$ref {ref!r} names an anchor that is not there")
    for part in fragment.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise InvalidSchema(f"$ref {ref!r} points at nothing: there is no {key!r}")
    return value


def _bridge_definitions(value: Any) -> Any:
    """``#/$defs/X`` also finds what stands under ``definitions``, as it does in Confluent's service."""
    if not isinstance(value, dict):
        return value
    source, target = value.get("definitions"), value.get("$defs", {})
    if not isinstance(source, dict) or not source or not isinstance(target, dict):
        return value
    return {**value, "$defs": {**source, **target}}


@lru_cache(maxsize=1)
def _meta_schemas() -> dict[str, Any]:
    from jsonschema_specifications import REGISTRY

    found: dict[str, Any] = {}
    for address in REGISTRY:
        contents = REGISTRY.contents(address)
        for scheme in ("http", "https"):
            found[_strip(f"{scheme}:{address.partition(':')[2]}")] = contents
    return found
