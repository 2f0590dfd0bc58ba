"""Gathering the facts of one migration from the registry's tables and its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.mapping import touches
from eventide.migration.plan.planning import contracted, expanded
from eventide.migration.plan.shape import language
from eventide.migration.rollout.consumer import Consumer, Seen, Standing, State, standing
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.tables import MigrationTables
from eventide.registry.catalog import Catalog
from eventide.registry.checking import reasons_against
from eventide.registry.faults import Fault
from eventide.registry.records import Entry, Proposal

Who = tuple[str, str]


def gather(catalog: Catalog, migration: Migration) -> Facts:
    """Everything that the gates of a migration may ask, as of one transaction."""
    tables = MigrationTables(catalog.session)
    latest = catalog.session.latest(migration.subject)
    counts, retention = tables.drift(migration.name)
    usage = catalog.session.usage(client=None, context=None, schema_id=None, subject=migration.subject, since=None)
    old_decodes = [int(u["last_seen"]) for u in usage if u["id"] in migration.old_ids]
    return Facts(
        level=str(catalog.config_in_scope(migration.subject)["compatibilityLevel"]),
        expanded_reasons=_expanded_reasons(catalog, migration, latest),
        contracted_reasons=_contracted_reasons(catalog, migration, latest),
        missing_paths=_missing(migration, latest),
        conflicts=conflicts(migration, tables.migrations(migration.subject)),
        standings=standings(catalog, migration),
        drift=counts,
        retention=replace(retention, last_old_decode_at=max(old_decodes, default=None)),
    )


def conflicts(migration: Migration, others: list[Migration]) -> tuple[str, ...]:
    """The other open migrations that touch the same fields and came first, each with the fields.

    Of two that are only planned the later waits for the earlier, not each for the other.
    """
    found = []
    mine = (*migration.plan.old, *migration.plan.new)
    for other in others:
        if other.name == migration.name or not other.phase.is_open:
            continue
        if other.phase is Phase.PLAN and (other.created_at, other.name) > (migration.created_at, migration.name):
            continue
        shared = [path for path in (*other.plan.old, *other.plan.new) if touches(path, mine)]
        if shared:
            found.append(f"{other.name} (in {other.phase}, over {', '.join(shared)})")
    return tuple(found)


def strays(catalog: Catalog, migration: Migration) -> list[dict[str, Any]]:
    """Who read records of the old shape after the contract, and by which id: somebody still writes it, or replays it."""
    if migration.phase is not Phase.CONTRACTED:
        return []
    usage = catalog.session.usage(
        client=None, context=None, schema_id=None, subject=migration.subject, since=migration.entered_at + 1
    )
    kept = ("client", "environment", "id", "last_seen")
    return [{name: line[name] for name in kept} for line in usage if line["id"] in migration.old_ids]


def since_expanded(catalog: Catalog, migration: Migration) -> list[Entry]:
    """The versions from the one that brought the new shape on; none before may be left to read when it contracts."""
    entries = catalog.session.entries(migration.subject)
    start = next((i for i, e in enumerate(entries) if e.id == migration.expanded_id), 0)
    return entries[start:]


def standings(catalog: Catalog, migration: Migration) -> tuple[Standing, ...]:
    """Every consumer, declared or only seen, judged as of now."""
    tables, policy = MigrationTables(catalog.session), migration.plan.policy
    seen = sightings(catalog, migration)
    kept = {(c.name, c.environment): c for c in tables.consumers(migration.name)}
    recent = catalog.now - policy.idle_after
    strangers = {who: Consumer(*who) for who, s in sorted(seen.items()) if who not in kept and (s.last or 0) > recent}
    judged = [standing(c, seen.get(who, Seen()), catalog.now, policy) for who, c in (*kept.items(), *strangers.items())]
    # One that nobody declared and that was said to be gone is a stranger like any other once it is seen again.
    return tuple(s for s in judged if s.state is not State.UNDECLARED or (s.seen.last or 0) > recent)


def sightings(catalog: Catalog, migration: Migration) -> dict[Who, Seen]:
    """When each reader of the subject was last seen, declared or not."""
    found: dict[Who, Seen] = {}
    tells_columns: set[Who] = set()
    for client, environment, path, at in MigrationTables(catalog.session).selections(migration.subject):
        who = (client, environment)
        tells_columns.add(who)
        found[who] = _later(
            found.get(who, Seen()),
            last=at,
            old=at if touches(path, migration.plan.old) else None,
            new=at if touches(path, migration.plan.new) else None,
        )
    usage = catalog.session.usage(client=None, context=None, schema_id=None, subject=migration.subject, since=None)
    for line in usage:
        who, at = (str(line["client"]), str(line["environment"])), int(line["last_seen"])
        # A record of the expanded schema carries both shapes; only one that says its columns can be told apart better.
        has_new = line["id"] not in migration.old_ids and migration.phase is not Phase.PLAN
        proof = at if has_new and who not in tells_columns else None
        found[who] = _later(found.get(who, Seen()), last=at, old=None, new=proof)
    return found


def _later(seen: Seen, *, last: int | None, old: int | None, new: int | None) -> Seen:
    return Seen(_most(seen.last, last), _most(seen.old, old), _most(seen.new, new))


def _most(one: int | None, other: int | None) -> int | None:
    return max((m for m in (one, other) if m is not None), default=None)


def _missing(migration: Migration, latest: Entry | None) -> tuple[str, ...]:
    wanted = (*migration.plan.old, *migration.plan.new)
    if latest is None or latest.kind != migration.plan.kind:
        return wanted
    leaves = language(latest.kind).leaves(latest.text)
    return tuple(path for path in wanted if path not in leaves)


def _expanded_reasons(catalog: Catalog, migration: Migration, latest: Entry | None) -> tuple[str, ...]:
    if migration.phase is not Phase.PLAN:
        return ()
    if latest is None:
        return (f"subject {migration.subject!r} has no version",)
    leaves = language(migration.plan.kind).leaves(latest.text) if latest.kind == migration.plan.kind else {}
    gone = [path for path in migration.plan.old if path not in leaves]
    if gone:
        return (f"the latest version no longer has {', '.join(gone)}",)
    return _reasons(catalog, migration, latest, grow=True)


def _contracted_reasons(catalog: Catalog, migration: Migration, latest: Entry | None) -> tuple[str, ...]:
    if latest is None or not migration.phase.is_open:
        return ()
    return _reasons(catalog, migration, latest, grow=False)


def _reasons(catalog: Catalog, migration: Migration, latest: Entry, *, grow: bool) -> tuple[str, ...]:
    """Why the registry would refuse what comes next: the expanded schema, or the contracted one after it."""
    config = catalog.config_in_scope(migration.subject)
    try:
        text = expanded(migration.plan, latest.text)
        against = None
        if not grow:
            begun = migration.expanded_id is not None
            against = since_expanded(catalog, migration) if begun else [replace(latest, text=text)]
            text = contracted(migration.plan, text)
        proposal = Proposal(migration.subject, text, migration.plan.kind, latest.references)
        canonical = catalog.canonical(proposal, strict=True, normalize=False)
        return tuple(reasons_against(catalog, config, canonical, against)[:1])
    except (Fault, PlanRefused) as error:
        return (str(error),)
