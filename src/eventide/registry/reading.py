"""Answers to questions: by version, by id, by guid, by content, by prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from eventide.registry import faults
from eventide.registry.catalog import Catalog
from eventide.registry.names import DEFAULT_CONTEXT, EVERY_CONTEXT, Name, beside, java_order
from eventide.registry.records import Entry, Proposal
from eventide.registry.registration import with_inherited

T = TypeVar("T")


def version(catalog: Catalog, subject: str, number: int, *, deleted: bool) -> Entry:
    """One version of a subject (-1 is the latest); a subject without a context is also sought in the others."""
    for name in _spellings(catalog, subject):
        entry = _version(catalog, name, number, deleted=deleted)
        if entry is not None:
            return entry
    if not catalog.seen.has_subject(subject, deleted=deleted):
        raise faults.subject_not_found(subject)
    raise faults.version_not_found(number)


def _version(catalog: Catalog, subject: str, number: int, *, deleted: bool) -> Entry | None:
    if number == -1:
        return catalog.seen.latest(subject)
    return catalog.seen.entry(subject, number, deleted=deleted)


def _spellings(catalog: Catalog, subject: str) -> Iterator[str]:
    """The subject as it was named, then in every context that may be seen."""
    yield subject
    name = Name.parse(subject)
    if name.context == DEFAULT_CONTEXT:
        yield from (str(Name(context, name.subject)) for context in catalog.seen.contexts()[1:])


def versions(catalog: Catalog, subject: str, *, deleted: bool, deleted_only: bool, as_negative: bool) -> list[int]:
    """The version numbers of a subject."""
    if not catalog.seen.has_subject(subject, deleted=deleted or deleted_only):
        raise faults.subject_not_found(subject)
    numbers = catalog.session.numbers(subject)
    if as_negative:
        return [-n if gone else n for n, gone in numbers]
    if deleted_only:
        return [n for n, gone in numbers if gone]
    return [n for n, gone in numbers if deleted or not gone]


def subjects(catalog: Catalog, prefix: str, *, deleted: bool, deleted_only: bool) -> list[str]:
    """The subjects that begin with a prefix, in order; `:*:` stands for every context."""
    context, start = split_prefix(prefix)
    found = catalog.seen.subjects(context, start)
    kept = [s for s, gone in found if (gone if deleted_only else deleted or not gone)]
    return sorted(kept, key=java_order)


def split_prefix(prefix: str) -> tuple[str | None, str]:
    """A prefix as the context it is in (none: all of them) and the beginning of the subjects' own names."""
    if prefix.startswith(EVERY_CONTEXT):
        return None, prefix[len(EVERY_CONTEXT) :]
    name = Name.parse(prefix)
    return name.context, name.subject


def look_up(catalog: Catalog, proposal: Proposal, *, normalize: bool, deleted: bool) -> Entry:
    """The version of a subject that is this schema."""
    for subject in _spellings(catalog, proposal.subject):
        with suppress(faults.MissingReferenceFault):
            found = _look_up(catalog, replace(proposal, subject=subject), normalize=normalize, deleted=deleted)
            if found is not None:
                return found
    if not catalog.seen.has_subject(proposal.subject, deleted=deleted):
        raise faults.subject_not_found(proposal.subject)
    raise faults.schema_not_found()


def _look_up(catalog: Catalog, proposal: Proposal, *, normalize: bool, deleted: bool) -> Entry | None:
    if proposal.is_empty:
        return None
    config = catalog.config_in_scope(proposal.subject)
    normalize = normalize or bool(config.get("normalize"))
    found = catalog.same(catalog.canonical(proposal, strict=False, normalize=normalize), deleted=deleted)
    if found is not None:
        return found
    previous = catalog.session.latest(proposal.subject)
    if previous is None:
        return None
    inherited = with_inherited(config, proposal, previous, None)
    if inherited == proposal:
        return None
    return catalog.same(catalog.canonical(inherited, strict=False, normalize=normalize), deleted=deleted)


def by_id(catalog: Catalog, schema_id: int, subject: str) -> Entry | None:
    """The schema behind an id, reported under a subject that holds it."""
    place = _place(catalog, schema_id, subject)
    if place is None:
        return None
    context, holder, number = place
    content = catalog.session.schema(context, schema_id)
    if content is None:
        return None
    row = catalog.session.entry(holder, number, deleted=True)
    ts, gone = (row.ts, row.deleted) if row is not None else (None, None)
    return replace(content, subject=holder, version=number, ts=ts, deleted=gone)


def _place(catalog: Catalog, schema_id: int, subject: str) -> tuple[str, str, int] | None:
    name = Name.parse(subject)
    holders = in_java_order(catalog.seen.holders(name.context, schema_id))
    if not name.subject:
        return (name.context, *holders[0]) if holders else None
    for holder, number in holders:
        if holder == subject:
            return name.context, holder, number
    if name.context != DEFAULT_CONTEXT:
        return None
    for context in catalog.seen.contexts()[1:]:
        for holder, number in catalog.seen.holders(context, schema_id):
            if holder == str(Name(context, name.subject)):
                return context, holder, number
    return (name.context, *holders[0]) if holders else None


def holders_of(catalog: Catalog, schema_id: int, subject: str, *, deleted: bool) -> list[tuple[str, int]]:
    """The subjects and versions that hold an id."""
    place = _place(catalog, schema_id, subject)
    if place is None:
        raise faults.schema_not_found()
    found = in_java_order(catalog.seen.holders(place[0], schema_id))
    rows = [(s, n, catalog.session.entry(s, n, deleted=True)) for s, n in found]
    return [(s, n) for s, n, row in rows if row is not None and (deleted or not row.deleted)]


def by_guid(catalog: Catalog, guid: str) -> Entry | None:
    """The schema behind a guid, in whichever context has it."""
    for context, schema_id in catalog.seen.ids_of(guid):
        found = by_id(catalog, schema_id, Name(context, "").prefix)
        if found is not None:
            return found
    return None


def with_metadata(catalog: Catalog, subject: str, wanted: dict[str, str], *, deleted: bool) -> Entry:
    """The latest version of a subject whose metadata properties have all these values."""
    for entry in reversed(catalog.seen.entries(subject, deleted=deleted)):
        if entry.metadata is None:
            continue
        if wanted.items() <= entry.metadata.get("properties", {}).items():
            return entry
    if not catalog.seen.has_subject(subject, deleted=deleted):
        raise faults.subject_not_found(subject)
    raise faults.schema_not_found()


def qualified(entry: Entry, reference_format: str) -> Entry:
    """A version with its references spelled with their context, if the client asked for that."""
    if reference_format != "qualified" or not entry.references or not Name.parse(entry.subject).prefix:
        return entry
    spelled = tuple(replace(r, subject=beside(entry.subject, r.subject)) for r in entry.references)
    return replace(entry, references=spelled)


def aliased(catalog: Catalog, subject: str) -> str:
    """The subject that a client means: the one its alias stands for, or itself.

    Whoever may read neither of the two is not told that there is an alias.
    """
    alias = (catalog.session.config(subject) or {}).get("alias")
    target = beside(subject, alias) if alias else subject
    return target if catalog.sight.sees(subject) or catalog.sight.sees(target) else subject


def aliases(catalog: Catalog, context: str | None, prefix: str) -> dict[str, list[str]]:
    """The subjects that an alias with this prefix stands for, each with its aliases; only those that may be read."""
    found: dict[str, list[str]] = {}
    for alias, config in sorted(catalog.session.configs().items(), key=lambda item: java_order(item[0])):
        name = Name.parse(alias)
        here = name.subject.startswith(prefix) and context in (None, name.context)
        target = beside(alias, config["alias"]) if config.get("alias") else ""
        if target and here and catalog.sight.sees(alias) and catalog.sight.sees(target):
            found.setdefault(target, []).append(alias)
    return found


def with_aliased(
    catalog: Catalog, entries: Sequence[Entry], names: dict[str, list[str]], *, latest_only: bool, deleted: bool
) -> list[Entry]:
    """The entries, and those of the subjects that only an alias leads to, by subject and version."""
    there = {entry.subject for entry in entries}
    more = [catalog.seen.entries(subject, deleted=deleted) for subject in names if subject not in there]
    added = [entry for versions in more for entry in (versions[-1:] if latest_only else versions)]
    return sorted((*entries, *added), key=lambda entry: (java_order(entry.subject), entry.version))


def page(items: Sequence[T], offset: int, limit: int) -> list[T]:
    """A part of a listing; without a limit above zero all of it."""
    start = max(offset, 0)
    return list(items[start:] if limit <= 0 else items[start : start + limit])


def in_java_order(holders: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Holders in the order of Java's hash map, which is the order clients of the other service see."""
    size = 16
    while len(holders) >= size * 3 // 4:
        size *= 2
    return sorted(holders, key=lambda holder: _java_hash(holder[0]) & (size - 1))


def _java_hash(text: str) -> int:
    units = java_order(text)
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
