"""A data contract as a document: what it says of a subject, and how it is written and read."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eventide.errors import EventideError
from eventide.registry.contract.fields import fields_of, json_schema_of

VERSION = "v3.0.2"
_OWNER = ("team", "domain", "contact", "on_call")
_LARGEST = 10_000_000
Document = dict[str, Any]


class ContractRefused(EventideError):
    """The document is no contract that could be kept, with the reason."""


@dataclass(frozen=True)
class Parts:
    """What a contract says of a subject: its schema, its owner and what is promised."""

    subject: str
    kind: str
    text: str
    references: list[dict[str, Any]] = field(default_factory=list)
    version: int | None = None
    owner: dict[str, str] | None = None
    promises: list[dict[str, Any]] = field(default_factory=list)
    """The `slaProperties`, as the standard has them."""


def build(parts: Parts, texts: dict[str, str]) -> Document:
    """The contract of a subject; `texts` are the schemas that its own refers to, by name."""
    owner = {name: (parts.owner or {}).get(name) or "" for name in _OWNER}
    kept = {
        "eventideSubject": parts.subject, "eventideSchemaType": parts.kind, "eventideSchema": parts.text,
        "eventideReferences": parts.references, "eventideContact": owner["contact"], "eventideOnCall": owner["on_call"],
    }  # fmt: skip
    document: Document = {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": parts.subject,
        "name": parts.subject,
        "version": str(parts.version or 1),
        "status": "active",
        "domain": owner["domain"],
        "schema": [_object(parts, texts)],
        "team": [{"username": owner["team"], "role": "owner"}] if owner["team"] else [],
        "slaProperties": parts.promises,
        "customProperties": [{"property": name, "value": value} for name, value in kept.items() if value],
    }
    return {name: value for name, value in document.items() if value}


def _object(parts: Parts, texts: dict[str, str]) -> dict[str, Any]:
    properties = fields_of(parts.kind, parts.text, texts)
    return {"name": parts.subject, "physicalType": "topic", "logicalType": "object", "properties": properties}


def take_apart(document: Document, subject: str | None, texts: dict[str, str] | None = None) -> Parts:
    """What a contract says, of the subject that it names or the one given.

    One that was exported has its schema in it. If its list of properties says something else by now, it is refused: one of the two
    would otherwise be passed over. One from elsewhere gets the JSON Schema of its properties.

    Raises:
        ContractRefused: with the reason.
    """
    if document.get("kind") != "DataContract" or not str(document.get("apiVersion", "")).startswith("v3."):
        raise ContractRefused("this is no contract of the Open Data Contract Standard v3: kind: DataContract, apiVersion: v3.…")
    objects = document.get("schema") or []
    if not isinstance(objects, list) or len(objects) != 1 or not isinstance(objects[0], dict):
        raise ContractRefused("a subject holds one schema, and this contract's `schema` has not exactly one object in it")
    kept = _custom(document)
    name = subject or kept.get("eventideSubject") or document.get("name") or objects[0].get("name")
    if not name:
        raise ContractRefused("the contract names no subject; give --subject")
    owner = {"team": _owning_team(document), "domain": str(document.get("domain") or ""),
             "contact": str(kept.get("eventideContact") or ""), "on_call": str(kept.get("eventideOnCall") or "")}  # fmt: skip
    parts = Parts(
        subject=str(name), kind=str(kept.get("eventideSchemaType") or "JSON"), text=str(kept.get("eventideSchema") or ""),
        references=list(kept.get("eventideReferences") or ()), owner=owner if owner["team"] else None,
        promises=list(document.get("slaProperties") or ()),
    )  # fmt: skip
    properties = objects[0].get("properties") or []
    if not parts.text:
        return _described(parts, properties)
    if properties != fields_of(parts.kind, parts.text, texts or {}):
        raise ContractRefused(
            "its list of properties and the schema in it (customProperties, eventideSchema) no longer say the same. Change the schema "
            "in the registry and export again; or take eventideSchema out, and a JSON Schema is made of the properties."
        )
    return parts


def _described(parts: Parts, properties: Sequence[dict[str, Any]]) -> Parts:
    try:
        text = json_schema_of(parts.subject, list(properties))
    except (ValueError, KeyError, TypeError) as error:
        raise ContractRefused(f"no schema can be made of its properties: {error}") from error
    return Parts(parts.subject, "JSON", text, owner=parts.owner, promises=parts.promises)


def _custom(document: Document) -> dict[str, Any]:
    given = document.get("customProperties") or []
    return {str(each.get("property")): each.get("value") for each in given if isinstance(each, dict)}


def _owning_team(document: Document) -> str:
    given = document.get("team") or []
    if isinstance(given, dict):  # as version 3.1 of the standard has it
        return str(given.get("name") or "")
    owners = [each for each in given if isinstance(each, dict) and each.get("role") == "owner"]
    return str(owners[0].get("username") or owners[0].get("name") or "") if owners else ""


def write(document: Document) -> str:
    """The document as YAML, in the order in which people read it."""
    text: str = _yaml().safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text


def read(text: str) -> Document:
    """The document behind YAML or JSON.

    Raises:
        ContractRefused: it is neither, or far too large.
    """
    yaml = _yaml()
    if len(text) > _LARGEST:
        raise ContractRefused(f"the file has {len(text)} characters; a contract has {_LARGEST} at most")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ContractRefused(f"the file is neither YAML nor JSON: {error}") from error
    if not isinstance(found, dict):
        raise ContractRefused("the file holds no contract: at its top there must be names and values")
    return found


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ModuleNotFoundError as error:
        raise ContractRefused(
            "contracts are YAML, and PyYAML is not installed here: pip install 'eventide[registry]'"
        ) from error
