"""Checking a schema against the versions of a subject at its level, in the words that clients know."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.registry.catalog import Canonical, Catalog, Config
from eventide.registry.compatibility import Incompatibility
from eventide.registry.compatibility.levels import conflict
from eventide.registry.compatibility.schema import DIFFERENT_TYPES
from eventide.registry.identity import RESERVED, Metadata
from eventide.registry.records import Entry

MOST_PAIRS = 500_000
"""Pairs of inner JSON Schemas that one check may look at in all versions together: seconds of the one thread that writes."""
_SHOWN_CHARACTERS = 10 * 1024


def is_strict(config: Config) -> bool:
    """Is a new schema held to all the rules of its language, or (`validateNewSchemas`: false) read like a stored one?"""
    return config.get("validateNewSchemas") is not False


def reasons_against(
    catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None = None
) -> list[str]:
    """Why the schema may not follow the versions of its subject; none at all means that it may."""
    lines = [reason.verbose for reason in reserved_fields_against(catalog, config, canonical, versions)]
    level = config["compatibilityLevel"]
    clash = find_clash(catalog, config, canonical, versions)
    if clash is not None:
        earlier, reasons = clash
        lines += [reason.verbose for reason in reasons]
        if DIFFERENT_TYPES not in lines:
            by_new = any(reason.reader == "new" for reason in reasons)
            # With FULL the old schema is shown after what the new one cannot read, so not if that is nothing.
            if by_new or not level.startswith("FULL"):
                lines += [f"{{oldSchemaVersion: {earlier.version}}}", _shown(earlier.text)]
    if not lines:
        return []
    validate = "true" if config.get("validateFields") else "false"
    return [*lines, f"{{validateFields: '{validate}', compatibility: '{level}'}}"]


def reserved_fields_against(
    catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None = None
) -> list[Incompatibility]:
    """Where `validateFields` is set: reserved names that the schema takes up or no longer reserves, at any level."""
    if not config.get("validateFields"):
        return []
    previous = catalog.session.latest(canonical.proposal.subject) if versions is None else next(iter(versions[-1:]), None)
    reserved = _reserved(canonical.proposal.metadata)
    dropped = [name for name in _reserved(previous.metadata if previous else None) if name not in reserved]
    taken = [name for name in reserved if name in canonical.parsed.top_fields]
    return [
        *(_clash("RESERVED_FIELD_REMOVED", name, f"The new schema has reserved field {name} removed from its metadata which "
                 "is present in the old schema's metadata.", "Keep it in the property confluent:reserved of the metadata.")
          for name in dropped),
        *(_clash("RESERVED_FIELD_USED", name, f"The new schema has field that conflicts with the reserved field {name}.",
                 "Give the field another name.") for name in taken),
    ]  # fmt: skip


def _reserved(metadata: Metadata | None) -> list[str]:
    given = (metadata or {}).get("properties", {}).get(RESERVED, "")
    return list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))


def _clash(kind: str, name: str, message: str, fix: str) -> Incompatibility:
    return Incompatibility(kind, f"/{name}", "new", message, fix, message)


def find_clash(
    catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None = None
) -> tuple[Entry, list[Incompatibility]] | None:
    """The version that the schema clashes with at the level of these settings, and every reason."""
    level = config["compatibilityLevel"]
    if level == "NONE":
        return None
    lenient, shared = config.get("compatibilityPolicy") == "LENIENT", [MOST_PAIRS]
    for entry in _compared(catalog, config, canonical, versions):
        _, reasons = conflict(level, canonical.parsed, [catalog.parsed(entry)], lenient=lenient, shared=shared)
        if reasons:
            return entry, reasons
    return None


def _compared(catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None) -> Sequence[Entry]:
    """The versions to compare with, latest first: one unless the level is transitive, only those of its group."""
    transitive = config["compatibilityLevel"].endswith("_TRANSITIVE")
    group = config.get("compatibilityGroup")
    if versions is None:
        if not transitive and group is None:
            latest = catalog.session.latest(canonical.proposal.subject)
            return [] if latest is None else [latest]
        versions = catalog.session.entries(canonical.proposal.subject)
    newest_first = list(reversed(versions))
    if group is not None:
        own = (canonical.proposal.metadata or {}).get("properties", {}).get(group)
        newest_first = [e for e in newest_first if (e.metadata or {}).get("properties", {}).get(group) == own]
    return newest_first if transitive else newest_first[:1]


def _shown(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return f"{{oldSchema: '{text}'}}"
    return f"{{oldSchema: <truncated> '{text[:_SHOWN_CHARACTERS]}...'}}"
