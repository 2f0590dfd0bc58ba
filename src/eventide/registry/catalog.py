"""What the registry can say about schemas, seen from inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from eventide.registry import faults
from eventide.registry.compatibility import InvalidSchema, ParsedSchema, Reference
from eventide.registry.compatibility.avro import AvroSchema
from eventide.registry.identity import CONFLUENT_VERSION, Metadata, guid, lookup_key
from eventide.registry.names import GLOBAL_CONTEXT, Name, beside, java_order
from eventide.registry.parsing import KINDS, Parsing, formatted
from eventide.registry.records import Entry, Proposal, java_references
from eventide.registry.sight import EVERYTHING, Seen, Sight
from eventide.registry.store import Alike, Session

Config = dict[str, Any]
DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
_SHARED = ("normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityPolicy",
           "compatibilityGroup")  # fmt: skip


@dataclass(frozen=True)
class Canonical:
    """A proposal that parsed: its text is the one that would be stored."""

    proposal: Proposal
    parsed: ParsedSchema

    @cached_property
    def guid(self) -> str:
        """Its identity across subjects."""
        p = self.proposal
        return guid(p.text, p.references, p.metadata, p.rules)

    @cached_property
    def lookup(self) -> str:
        """Its identity within a subject."""
        p = self.proposal
        return lookup_key(p.kind, self.parsed.canonical, p.references, p.metadata, p.rules)

    @cached_property
    def written_out(self) -> str:
        """Its identity within a subject once its references are written out into it."""
        p = self.proposal
        text = self.parsed.resolved if isinstance(self.parsed, AvroSchema) else self.parsed.canonical
        return lookup_key(p.kind, text, (), p.metadata, p.rules)


class Guard(Protocol):
    """Somebody who is asked before a subject changes, inside the transaction that would change it."""

    def before_register(self, catalog: Catalog, canonical: Canonical) -> None:
        """Raise a fault if this new version may not be stored."""

    def before_reuse(self, catalog: Catalog, entry: Entry) -> None:
        """Raise a fault if this version, which is there already, may not be given to whoever registers it again."""

    def before_delete(self, catalog: Catalog, entries: Sequence[Entry]) -> None:
        """Raise a fault if these versions may not be deleted."""


class Catalog:
    """The registry as of one transaction: settings in scope, parsed schemas, and schemas that are the same."""

    def __init__(
        self,
        session: Session,
        parsing: Parsing,
        now: int,
        guards: Sequence[Guard] = (),
        sight: Sight = EVERYTHING,
        default_level: str = DEFAULT_LEVEL,
    ) -> None:
        self.default_level = default_level
        self.session = session
        self.sight = sight
        self.seen = Seen(session, sight)
        self.parsing = parsing
        self.now = now
        self._found: dict[tuple[str, str, str, bool, bool], Entry | None] = {}
        self.guards = guards

    def unguarded(self) -> Catalog:
        """The same catalog for a guard's own changes."""
        return Catalog(self.session, self.parsing, self.now, sight=self.sight, default_level=self.default_level)

    # settings in scope

    def config(self, subject: str) -> Config | None:
        """The settings of exactly this subject; the whole registry (the empty name) always has some."""
        own = self.session.config(subject)
        if own is not None:
            return {"compatibilityLevel": self.default_level, **own}
        name = Name.parse(subject)
        return {"compatibilityLevel": self.default_level} if not subject or name.context == GLOBAL_CONTEXT else None

    def config_in_scope(self, subject: str) -> Config:
        """The settings that apply to a subject: its own, its context's, the registry's, or the defaults."""
        if subject:
            own = self.config(subject)
            if own is not None:
                above = self.config("") or {}
                return {**{k: above[k] for k in _SHARED if k in above}, **own}
        for scope in self._scopes_above(subject):
            found = self.session.config(scope)
            if found is not None:
                return {"compatibilityLevel": self.default_level, **found}
        return {"compatibilityLevel": self.default_level}

    def mode(self, subject: str) -> str | None:
        """The mode of exactly this subject; the whole registry always has one."""
        own = self.session.mode(subject)
        if own is not None:
            return own
        name = Name.parse(subject)
        return DEFAULT_MODE if not subject or name.context == GLOBAL_CONTEXT else None

    def mode_in_scope(self, subject: str) -> str:
        """The mode that applies to a subject."""
        for scope in (subject, *self._scopes_above(subject)):
            found = self.session.mode(scope)
            if found is not None:
                return found
        return DEFAULT_MODE

    def _scopes_above(self, subject: str) -> tuple[str, str]:
        return Name.parse(subject).prefix, f":{GLOBAL_CONTEXT}:"

    def refuse_if_read_only(self, subject: str) -> None:
        """Raise the fault of a subject that may not be changed."""
        if self.mode_in_scope(subject).startswith("READONLY"):
            prefix = Name.parse(subject).prefix
            raise faults.not_permitted(f"Subject {subject or 'null'} in context {prefix} is in read-only mode")

    # schemas

    def canonical(self, proposal: Proposal, *, strict: bool, normalize: bool) -> Canonical:
        """Parse a proposal and give it the text, references and type under which it would be stored.

        Raises:
            Fault: 42201, in Confluent's words.
        """
        source = proposal.text or ""
        if proposal.kind not in KINDS:
            raise faults.invalid_schema(f"Invalid schema type {proposal.kind}")
        try:
            for reference in proposal.references:
                target = beside(proposal.subject, reference.subject)
                if not self.sight.sees(target):  # as if it were not there
                    raise _no_reference(target, reference.version)
            references, texts = self._resolve(proposal.subject, proposal.references, live_only=strict)
            parsed = self.parsing.parse(proposal.kind, source, texts, strict=strict)
            if strict and self.config_in_scope(proposal.subject).get("validateFields"):
                _refuse_marked_names(parsed)
            text = parsed.canonical
            importing = self.mode_in_scope(proposal.subject) in ("IMPORT", "FORWARD")
            if normalize and not importing:
                text = parsed.normalized
                by_target = sorted(set(references), key=lambda r: (java_order(r.subject), r.version, references.index(r)))
                references = tuple(by_target)
                parsed = self.parsing.parse(proposal.kind, text, texts, strict=False)
        except MissingReference as error:
            raise faults.missing_reference(_complaint(proposal, str(error))) from None
        except InvalidSchema as error:
            raise faults.invalid_schema(_complaint(proposal, str(error))) from None
        return Canonical(replace(proposal, text=text, references=references), parsed)

    def parsed(self, entry: Entry) -> ParsedSchema:
        """The schema of a stored version."""
        _, texts = self._resolve(entry.subject, entry.references, live_only=False)
        return self.parsing.parse(entry.kind, entry.text, texts, strict=False)

    def in_format(self, entry: Entry, wanted: str) -> Entry:
        """A stored version with its text in the format a client asked for."""
        if not wanted.strip():
            return entry
        _, texts = self._resolve(entry.subject, entry.references, live_only=False)
        parsed = self.parsing.parse(entry.kind, entry.text, texts, strict=False)
        return entry.with_text(formatted(parsed, wanted.strip().lower()))

    def _resolve(
        self, subject: str, references: tuple[Reference, ...], *, live_only: bool
    ) -> tuple[tuple[Reference, ...], dict[str, str]]:
        texts: dict[str, str] = {}
        return self._resolve_into(subject, references, texts, set(), live_only=live_only), texts

    def _resolve_into(
        self, subject: str, references: tuple[Reference, ...], texts: dict[str, str], seen: set[str], *, live_only: bool
    ) -> tuple[Reference, ...]:
        found: list[Reference] = []
        for reference in references:
            target = beside(subject, reference.subject)
            if not self.sight.sees(target):
                raise faults.denied(self.sight.who, "read", target)
            if reference.version == -1:
                entry = self.session.latest(target)
            else:
                entry = self.session.entry(target, reference.version, deleted=not live_only)
            if entry is None:
                raise _no_reference(target, reference.version)
            found.append(replace(reference, version=entry.version))
            if reference.name not in seen:
                seen.add(reference.name)
                self._resolve_into(entry.subject, entry.references, texts, seen, live_only=live_only)
                texts[reference.name] = entry.text
        return tuple(found)

    def same(self, canonical: Canonical, *, deleted: bool, latest_only: bool = False) -> Entry | None:
        """The version of the subject that already is this schema; asked twice, it is looked for once."""
        key = (canonical.proposal.subject, canonical.guid, canonical.lookup, deleted, latest_only)
        if key not in self._found:
            self._found[key] = self._same(canonical, deleted=deleted, latest_only=latest_only)
        return self._found[key]

    def _same(self, canonical: Canonical, *, deleted: bool, latest_only: bool) -> Entry | None:
        proposal = canonical.proposal
        if not latest_only:
            held = self.held(canonical, deleted=deleted)
            if held is not None:
                return held
        candidates = self.session.same_in_subject(proposal.subject, self._content(canonical))
        if latest_only:
            latest = self.session.latest(proposal.subject)
            candidates = [c for c in candidates if latest is not None and c.version == latest.version]
        for entry in candidates:
            if (deleted or not entry.deleted) and _version_marks_agree(proposal.metadata, entry):
                return entry
        return None

    def held(self, canonical: Canonical, *, deleted: bool) -> Entry | None:
        """The version under which the subject holds exactly this content."""
        proposal = canonical.proposal
        context = Name.parse(proposal.subject).context
        schema_id = self.id_of(canonical)
        if schema_id is None:
            return None
        for subject, version in self.session.holders(context, schema_id):
            if subject == proposal.subject:
                entry = self.session.entry(subject, version, deleted=True)
                if entry is None or (entry.deleted and not deleted):
                    return None
                return self.as_entry(canonical, version, schema_id)
        return None

    def id_of(self, canonical: Canonical) -> int | None:
        """The id that this content was last given in its context."""
        return self.session.id_of(self._content(canonical))

    @staticmethod
    def _content(canonical: Canonical) -> Alike:
        proposal = canonical.proposal
        written_out = None if proposal.references else canonical.written_out
        return Alike(Name.parse(proposal.subject).context, canonical.guid, canonical.lookup, written_out)

    @staticmethod
    def as_entry(canonical: Canonical, version: int, schema_id: int, ts: int | None = None) -> Entry:
        """The canonical proposal as the version and id it has or is about to get."""
        p = canonical.proposal
        return Entry(
            subject=p.subject,
            version=version,
            id=schema_id,
            guid=canonical.guid,
            kind=p.kind,
            text=p.text or "",
            references=p.references,
            metadata=p.metadata,
            rules=p.rules,
            ts=ts,
        )


class MissingReference(InvalidSchema):
    """A schema refers to one that is not there, or not for whoever asks."""


def _no_reference(subject: str, version: int) -> MissingReference:
    return MissingReference(f'No schema reference found for subject "{subject}" and version {version}')


def _refuse_marked_names(parsed: ParsedSchema) -> None:
    if parsed.kind == "JSON" and any(name.startswith("$$") for name in parsed.top_fields):
        raise InvalidSchema("#: Field names cannot start with $$ prefix")


def _version_marks_agree(metadata: Metadata | None, entry: Entry) -> bool:
    """A `confluent:version` in the proposal must be that of the stored version; none at all fits any."""
    mark = (metadata or {}).get("properties", {}).get(CONFLUENT_VERSION)
    if mark is None:
        return True
    stored = (entry.metadata or {}).get("properties", {}).get(CONFLUENT_VERSION, str(entry.version))
    return bool(mark == stored)


def _complaint(proposal: Proposal, detail: str) -> str:
    if proposal.kind == "JSON" and _is_json(proposal.text or ""):
        # A JSON schema that is JSON but no schema is found out one step later than the rest.
        return f"Invalid schema {proposal.described(parsed=True)}, details: {detail}"
    return (
        f"Invalid schema of type {proposal.kind}, details: Invalid schema {proposal.described(parsed=False)} "
        f"with refs {java_references(proposal.references)} of type {proposal.kind}, details: {detail}"
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
