"""What makes two schemas the same: the guid across subjects, the lookup key within one."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from eventide.registry.compatibility import Reference
from eventide.registry.names import java_order

_REMEMBERED_LENGTH = 50_000
CONFLUENT_VERSION = "confluent:version"
RESERVED = "confluent:reserved"
"""The property of the metadata that lists names which no field may have."""
Metadata = dict[str, Any]
RuleSet = dict[str, Any]


def guid(
    text: str | None,
    references: Sequence[Reference] = (),
    metadata: Metadata | None = None,
    rules: RuleSet | None = None,
) -> str:
    """The MD5 of text, references, metadata and rules, written as a UUID: the same in every registry.

    >>> guid("{}")
    '99914b93-2bd3-7a50-b983-c5e7c90ae93b'
    """
    digest = hashlib.md5(usedforsecurity=False)
    if text is not None:
        digest.update(text.encode("utf-8", "surrogatepass"))
    for reference in references:
        digest.update(reference.name.encode("utf-8", "surrogatepass"))
        digest.update(reference.subject.encode("utf-8", "surrogatepass"))
        digest.update(struct.pack(">i", reference.version))
    if metadata is not None:
        digest.update(b"\x01")
        for word in _metadata_words(metadata):
            digest.update(word.encode("utf-8", "surrogatepass"))
    if rules is not None:
        digest.update(b"\x01")
        for part in _rule_parts(rules):
            digest.update(part)
    return str(uuid.UUID(bytes=digest.digest()))


def _metadata_words(metadata: Metadata) -> list[str]:
    words: list[str] = []
    for key, values in metadata.get("tags", {}).items():
        words += [key, *values]
    for key, value in metadata.get("properties", {}).items():
        words += [key, value]
    return words + list(metadata.get("sensitive", ()))


def _rule_parts(rules: RuleSet) -> list[bytes]:
    parts: list[str] = []
    flags: list[bytes] = []
    for family in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rules.get(family) or ():
            parts = [str(rule[k]) for k in ("name", "doc", "kind", "mode", "type") if rule.get(k) is not None]
            parts += [str(tag) for tag in rule.get("tags") or ()]
            for key, value in (rule.get("params") or {}).items():
                parts += [str(key), str(value)]
            parts += [str(rule[k]) for k in ("expr", "onSuccess", "onFailure") if rule.get(k) is not None]
            flags += [part.encode("utf-8", "surrogatepass") for part in parts]
            if rule.get("disabled"):
                flags.append(b"\x01")
    if rules.get("enableAt") is not None:
        flags.append(str(rules["enableAt"]).encode("utf-8", "surrogatepass"))
    return flags


@lru_cache(maxsize=2048)
def _in_one_order(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def lookup_key(kind: str, text: str, references: Sequence[Reference], metadata: Metadata | None, rules: RuleSet | None) -> str:
    """Equal for schemas that are the same within a subject: key order and `confluent:version` do not count."""
    if kind == "AVRO":
        text = _in_one_order(text) if len(text) <= _REMEMBERED_LENGTH else _in_one_order.__wrapped__(text)
    return "|".join((kind, guid(text, references, without_version(metadata), rules)))


def without_version(metadata: Metadata | None) -> Metadata | None:
    """The metadata as it was before the registry wrote a version number into it."""
    if metadata is None or CONFLUENT_VERSION not in metadata.get("properties", {}):
        return metadata
    rest = {k: v for k, v in metadata["properties"].items() if k != CONFLUENT_VERSION}
    other = {k: v for k, v in metadata.items() if k != "properties"}
    return tidy_metadata({**other, "properties": rest}) or None


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """The metadata with the version number that the schema is about to get."""
    base = metadata or {}
    return tidy_metadata({**base, "properties": {**base.get("properties", {}), CONFLUENT_VERSION: str(version)}})


def tidy_metadata(metadata: Mapping[str, Any]) -> Metadata:
    """Metadata in its one spelling: sorted, and without what is empty."""
    tags = {k: sorted(set(v), key=java_order) for k, v in (metadata.get("tags") or {}).items()}
    properties = dict(metadata.get("properties") or {})
    sensitive = sorted(set(metadata.get("sensitive") or ()), key=java_order)
    tidy: Metadata = {}
    if tags:
        tidy["tags"] = {k: tags[k] for k in sorted(tags, key=java_order)}
    if properties:
        tidy["properties"] = {k: properties[k] for k in sorted(properties, key=java_order)}
    if sensitive:
        tidy["sensitive"] = sensitive
    return tidy


def merge_metadata(base: Metadata | None, over: Metadata | None) -> Metadata | None:
    """`base` with everything that `over` says put on top."""
    if base is None or over is None:
        return over if base is None else base
    return tidy_metadata(
        {
            "tags": {**base.get("tags", {}), **over.get("tags", {})},
            "properties": {**base.get("properties", {}), **over.get("properties", {})},
            "sensitive": [*base.get("sensitive", ()), *over.get("sensitive", ())],
        }
    )


def merge_rules(base: RuleSet | None, over: RuleSet | None) -> RuleSet | None:
    """`base` with the rules of `over` added; a rule of the same name is replaced."""
    if base is None or over is None:
        return over if base is None else base
    merged: RuleSet = {}
    for family in ("migrationRules", "domainRules", "encodingRules"):
        new = over.get(family) or []
        names = {rule.get("name") for rule in new}
        rules = [rule for rule in base.get(family) or [] if rule.get("name") not in names] + new
        if rules:
            merged[family] = rules
    enable = over.get("enableAt") or base.get("enableAt")
    return {**merged, "enableAt": enable} if enable else merged
