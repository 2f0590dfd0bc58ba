"""All subjects at once: latest version, level, mode and owner, without a question per subject."""

from __future__ import annotations

from typing import Any

from eventide.registry.catalog import DEFAULT_MODE, Catalog
from eventide.registry.names import GLOBAL_CONTEXT, Name, java_order
from eventide.registry.records import Json


def overview(catalog: Catalog, context: str | None, prefix: str, *, deleted: bool) -> list[Json]:
    """One line per subject, in order; five questions to the database however many subjects there are."""
    session = catalog.session
    latest = catalog.seen.listing(context, prefix, latest_only=True, deleted=None if deleted else 0, offset=0, limit=2**31)
    counts = session.version_counts(context, prefix)
    configs, modes, owners = session.configs(), session.modes(), session.owners()
    lines = []
    for entry in latest:
        config = _in_scope(configs, entry.subject, {})
        covering = [o for o in owners if entry.subject.startswith(o["prefix"])]
        lines.append(
            {
                "subject": entry.subject,
                "version": entry.version,
                "versions": counts.get(entry.subject, 0),
                "id": entry.id,
                "schemaType": entry.kind,
                "ts": entry.ts,
                "deleted": bool(entry.deleted),
                "compatibilityLevel": config.get("compatibilityLevel", catalog.default_level),
                "mode": _in_scope(modes, entry.subject, DEFAULT_MODE),
                "owner": max(covering, key=lambda o: len(o["prefix"]), default=None),
                "metadata": entry.metadata,
            }
        )
    return sorted(lines, key=lambda line: java_order(line["subject"]))


def _in_scope(settings: dict[str, Any], subject: str, default: Any) -> Any:
    for scope in (subject, Name.parse(subject).prefix, f":{GLOBAL_CONTEXT}:"):
        if scope in settings:
            return settings[scope]
    return default
