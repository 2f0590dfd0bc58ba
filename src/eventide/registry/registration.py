"""Registering a schema: found again, refused with the reasons, or given the next version and an id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eventide.registry import faults
from eventide.registry.catalog import Canonical, Catalog, Config
from eventide.registry.checking import is_strict, reasons_against
from eventide.registry.governance.policy import refuse_by_policy
from eventide.registry.identity import CONFLUENT_VERSION, merge_metadata, merge_rules, with_version
from eventide.registry.names import Name
from eventide.registry.records import Entry, Proposal


def find_registered(catalog: Catalog, proposal: Proposal, *, normalize: bool) -> Entry | None:
    """The version that a registration would give back because it is already there; nothing is written."""
    config = catalog.config_in_scope(proposal.subject)
    if _has_defaults(config) or proposal.is_empty:
        return None
    normalize = normalize or bool(config.get("normalize"))
    canonical = catalog.canonical(proposal, strict=False, normalize=normalize)
    latest_only = proposal.version == -1
    existing = catalog.same(canonical, deleted=False, latest_only=latest_only)
    if existing is None:
        return None
    if proposal.version == 0 or latest_only:
        return existing if proposal.id < 0 or proposal.id == existing.id else None
    if existing.id == proposal.id:
        if existing.version == proposal.version:
            return existing
        older = catalog.session.entry(proposal.subject, proposal.version)
        if older is not None and older.id == existing.id and older.guid == existing.guid:
            return older
    return None


def refuse_reuse(catalog: Catalog, entry: Entry) -> None:
    """Raise the fault of a guard that does not want a version to be written with again."""
    for guard in catalog.guards:
        guard.before_reuse(catalog, entry)


def register(
    catalog: Catalog, proposal: Proposal, *, normalize: bool, against: Sequence[Entry] | None = None
) -> tuple[Entry, bool]:
    """Register a schema; gives its version, and whether that is new.

    It must be compatible with the versions that its level asks for or, where `against` is given, with those alone.

    Raises:
        Fault: why it is refused.
    """
    existing = find_registered(catalog, proposal, normalize=normalize)
    if existing is not None:
        refuse_reuse(catalog, existing)
        return existing, False
    session, subject = catalog.session, proposal.subject
    mode = _permitted_mode(catalog, proposal)
    importing = mode in ("IMPORT", "FORWARD")
    config = catalog.config_in_scope(subject)
    normalize = normalize or bool(config.get("normalize"))
    next_version = session.last_version(subject) + 1
    if not importing:
        proposal = _completed(catalog, config, proposal, next_version)
    if proposal.is_empty:
        raise faults.invalid_schema("Empty schema")
    strict = proposal.id < 0 and is_strict(config)
    canonical = catalog.canonical(proposal, strict=strict, normalize=normalize)
    schema_id = proposal.id

    context = Name.parse(subject).context
    known_id = catalog.id_of(canonical)
    if known_id is not None and schema_id in (-1, known_id) and session.holders(context, known_id):
        held = catalog.held(canonical, deleted=False)
        if proposal.version == 0 and held is not None:
            refuse_reuse(catalog, held)
            return held, False
        schema_id = known_id
    if proposal.version == 0:
        again = catalog.same(canonical, deleted=False)
        if again is not None and schema_id in (-1, again.id):
            refuse_reuse(catalog, again)
            return again, False
    for guard in catalog.guards:  # first, because they know better than the level why it must not be
        guard.before_register(catalog, canonical)
    if not importing:
        reasons = reasons_against(catalog, config, canonical, against)
        if reasons:
            raise faults.incompatible(subject, reasons)
    refuse_by_policy(session, proposal)
    version = proposal.version if proposal.version > 0 else next_version
    if version != next_version and not importing:
        raise faults.invalid_schema("Version is not one more than previous version")
    return _store(catalog, canonical, version, schema_id), True


def _store(catalog: Catalog, canonical: Canonical, version: int, schema_id: int) -> Entry:
    session, subject = catalog.session, canonical.proposal.subject
    name = Name.parse(subject)
    new_id = schema_id < 0
    if new_id:
        schema_id = session.next_id(name.context)
    else:
        there = session.schema(name.context, schema_id)
        if there is not None and there.guid != canonical.guid:
            raise faults.not_permitted(f"Overwrite new schema with id {schema_id} in context {name.prefix} is not permitted.")
    entry = catalog.as_entry(canonical, version, schema_id, catalog.now)
    written_out = canonical.written_out if canonical.proposal.references else None
    session.put_version(entry, lookup=canonical.lookup, resolved=written_out, new_id=new_id)
    for earlier in [] if new_id else session.deleted_versions_of(subject, schema_id):
        # The schema came back: its soft deleted versions are replaced, unless somebody refers to them by number.
        if earlier < version and not session.referrers(subject, earlier, deleted=True):
            gone = session.entry(subject, earlier, deleted=True)
            if gone is not None:
                session.hard_delete(gone)
    return entry


def _permitted_mode(catalog: Catalog, proposal: Proposal) -> str:
    subject = proposal.subject
    prefix = Name.parse(subject).prefix
    catalog.refuse_if_read_only(subject)
    mode = catalog.mode_in_scope(subject)
    if proposal.id >= 0 and mode not in ("IMPORT", "FORWARD"):
        raise faults.not_permitted(f"Subject {subject} in context {prefix} is not in import mode")
    if proposal.id < 0 and mode != "READWRITE":
        raise faults.not_permitted(f"Subject {subject} in context {prefix} is not in read-write mode")
    return mode


def _has_defaults(config: Config) -> bool:
    return any(config.get(k) for k in ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"))


def _completed(catalog: Catalog, config: Config, proposal: Proposal, next_version: int) -> Proposal:
    """The proposal with what it left out taken from the latest version and from the settings."""
    previous = catalog.session.latest(proposal.subject)
    if proposal.is_empty:
        if previous is None:
            raise faults.invalid_schema("Empty schema")
        proposal = replace(proposal, text=previous.text, kind=previous.kind, references=previous.references)
    return with_inherited(config, proposal, previous, next_version)


def with_inherited(config: Config, proposal: Proposal, previous: Entry | None, next_version: int | None) -> Proposal:
    """The proposal with the metadata and rules of the version before it and those that the settings add."""
    metadata, rules = proposal.metadata, proposal.rules
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rules = previous.rules if rules is None else rules
    metadata = merge_metadata(merge_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata"))
    rules = merge_rules(merge_rules(config.get("defaultRuleSet"), rules), config.get("overrideRuleSet"))
    marked = metadata is not None and CONFLUENT_VERSION in metadata.get("properties", {})
    if next_version is not None and (proposal.version != 0 or marked):
        metadata = with_version(metadata, next_version)
    return replace(proposal, metadata=metadata, rules=rules)
