"""What the registry keeps and what it is asked to keep, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eventide.registry.compatibility import Reference
from eventide.registry.identity import Metadata, RuleSet, guid

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A schema as a client sent it: not parsed, not stored."""

    subject: str
    text: str | None
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rules: RuleSet | None = None
    version: int = 0
    id: int = -1

    @property
    def is_empty(self) -> bool:
        """Did the client leave the schema itself out?"""
        return self.text is None or not self.text.strip()

    def described(self, *, parsed: bool) -> str:
        """The proposal as the service's error messages spell it; numbers are known only once it parsed."""
        numbers = f"version={self.version},id={self.id}" if parsed else "version=null,id=null"
        metadata = "null" if self.metadata is None else _java_metadata(self.metadata)
        own = guid(self.text, self.references, self.metadata, self.rules)
        return (
            f"{{subject={self.subject},{numbers},guid={own},schemaType={self.kind},"
            f"references={java_references(self.references)},metadata={metadata},ruleSet=null,"
            f"schema={self.text},schemaTags=null,ts=null,deleted=null}}"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one subject, as it is stored."""

    subject: str
    version: int
    id: int
    guid: str
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rules: RuleSet | None = None
    ts: int | None = None
    deleted: bool | None = None

    def with_text(self, text: str) -> Entry:
        """The same entry in another format; its guid stays that of the stored text."""
        return replace(self, text=text)

    def content(self) -> Json:
        """What every answer about a schema has: type, references, metadata, rules and the text."""
        body: Json = {"guid": self.guid, "schemaType": self.kind}
        if self.references:
            body["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in self.references]
        if self.metadata is not None:
            body["metadata"] = self.metadata
        if self.rules is not None:
            body["ruleSet"] = self.rules
        body["schema"] = self.text
        return body

    def as_registered(self) -> Json:
        """The answer to a registration."""
        return {"id": self.id, "version": self.version, **self.content()}

    def as_version(self) -> Json:
        """The answer to a question about a version."""
        return {"subject": self.subject, "version": self.version, "id": self.id, **self.content(), **self._times()}

    def as_schema(self, max_id: int | None = None) -> Json:
        """The answer to a question about an id."""
        body: Json = {"subject": self.subject, "version": self.version, **self.content()}
        if max_id is not None:
            body["maxId"] = max_id
        return {**body, **self._times()}

    def _times(self) -> Json:
        times: Json = {}
        if self.ts is not None:
            times["ts"] = self.ts
        if self.deleted is not None:
            times["deleted"] = self.deleted
        return times


def java_references(references: tuple[Reference, ...]) -> str:
    """References as the service's error messages spell them."""
    each = [f"{{name='{r.name}', subject='{r.subject}', version={r.version}}}" for r in references]
    return "[" + ", ".join(each) + "]"


def _java_metadata(metadata: Metadata) -> str:
    tags = ", ".join(f"{k}=[{', '.join(v)}]" for k, v in metadata.get("tags", {}).items())
    properties = ", ".join(f"{k}={v}" for k, v in metadata.get("properties", {}).items())
    sensitive = ", ".join(metadata.get("sensitive", ()))
    return f"Metadata{{tags={{{tags}}}, properties={{{properties}}}, sensitive=[{sensitive}]}}"
