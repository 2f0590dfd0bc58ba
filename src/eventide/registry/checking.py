"""Checking a schema against the versions of a subject at its level, in the words that clients know."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.registry.catalog import Canonical, Catalog, Config
from eventide.registry.compatibility import Incompatibility
from eventide.registry.compatibility.levels import conflict
from eventide.registry.compatibility.schema import DIFFERENT_TYPES
from eventide.registry.records import Entry

_SHOWN_CHARACTERS = 10 * 1024


def reasons_against(
    catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None = None
) -> list[str]:
    """Why the schema may not follow the versions of its subject; none at all means that it may."""
    clash = find_clash(catalog, config, canonical, versions)
    if clash is None:
        return []
    earlier, reasons = clash
    level = config["compatibilityLevel"]
    lines = [reason.verbose for reason in reasons]
    if DIFFERENT_TYPES not in lines:
        by_new = any(reason.reader == "new" for reason in reasons)
        # With FULL the old schema is shown after what the new one cannot read, so not if that is nothing.
        if by_new or not level.startswith("FULL"):
            lines += [f"{{oldSchemaVersion: {earlier.version}}}", _shown(earlier.text)]
    validate = "true" if config.get("validateFields") else "false"
    return [*lines, f"{{validateFields: '{validate}', compatibility: '{level}'}}"]


def find_clash(
    catalog: Catalog, config: Config, canonical: Canonical, versions: Sequence[Entry] | None = None
) -> tuple[Entry, list[Incompatibility]] | None:
    """The version that the schema clashes with at the level of these settings, and every reason."""
    level = config["compatibilityLevel"]
    if level == "NONE":
        return None
    for entry in _compared(catalog, config, canonical, versions):
        _, reasons = conflict(level, canonical.parsed, [catalog.parsed(entry)])
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
