"""What an open migration does not let anybody register or delete."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.migration.faults import PlanRefused, listed, old_shape, open_migration
from eventide.migration.plan.shape import Leaf, language
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.tables import MigrationTables
from eventide.registry.catalog import Canonical, Catalog
from eventide.registry.records import Entry


class MigrationGuard:
    """Keeps both shapes in a subject for as long as a migration needs them, and the old one out of it afterwards."""

    def before_register(self, catalog: Catalog, canonical: Canonical) -> None:
        """Refuse a version that drops a shape somebody may still read, and in fact anything but additions."""
        subject = canonical.proposal.subject
        _refuse_old_shape(catalog, subject, canonical.proposal.kind, canonical.proposal.text or "")
        migrations = _open(catalog, subject)
        if not migrations:
            return
        leaves = _leaves(canonical.proposal.kind, canonical.proposal.text or "")
        for migration in migrations:
            _keep(migration, migration.plan.old, "old", leaves)
            if migration.phase is not Phase.PLAN:
                _keep(migration, migration.plan.new, "new", leaves)
        begun = [m for m in migrations if m.phase is not Phase.PLAN]
        latest = catalog.session.latest(subject)
        if not begun or latest is None:
            return
        before = _leaves(latest.kind, latest.text)
        lost = [path for path, leaf in before.items() if path not in leaves or leaves[path].definition != leaf.definition]
        if lost:
            raise open_migration(
                f"Only additions are accepted for subject {subject!r} while migration {begun[0].name!r} is in "
                f"{begun[0].phase}: this schema changes or drops {listed(lost)}. Plan that as a migration of its own."
            )

    def before_reuse(self, catalog: Catalog, entry: Entry) -> None:
        """Refuse the id of an old version to a producer that would go on writing the shape that everybody has left."""
        _refuse_old_shape(catalog, entry.subject, entry.kind, entry.text)

    def before_delete(self, catalog: Catalog, entries: Sequence[Entry]) -> None:
        """Refuse to delete a version that records of either shape were written with."""
        for entry in entries:
            for migration in _open(catalog, entry.subject):
                if migration.phase is not Phase.PLAN and entry.id in (*migration.old_ids, migration.expanded_id):
                    raise open_migration(
                        f"Version {entry.version} of subject {entry.subject!r} belongs to migration {migration.name!r}, "
                        f"which is in {migration.phase}. Finish it, or `eventide migrate abort {migration.name}` first."
                    )


def _open(catalog: Catalog, subject: str) -> list[Migration]:
    return [m for m in MigrationTables(catalog.session).migrations(subject) if m.phase.is_open]


def _refuse_old_shape(catalog: Catalog, subject: str, kind: str, text: str) -> None:
    """A schema of the old shape alone, where the latest version has the new one alone: readers have left it behind.

    Where a later change has taken the new shape away again, or brought the old one back, nothing is refused.
    """
    over = [m for m in MigrationTables(catalog.session).migrations(subject) if m.phase is Phase.CONTRACTED]
    latest = catalog.session.latest(subject) if over else None
    if latest is None:
        return
    now, leaves = _leaves(latest.kind, latest.text), _leaves(kind, text)
    for migration in over:
        for mapping in migration.plan.mappings:
            stands = all(p in now for p in mapping.new) and not any(p in now for p in mapping.old)
            has = [p for p in mapping.old if p in leaves]
            if stands and has and not all(p in leaves for p in mapping.new):
                wanted = f"Write {listed(mapping.new)} instead" if mapping.new else "Leave it out"
                raise old_shape(
                    f"This schema has {listed(has)}, the old shape, and migration {migration.name!r} has contracted: readers of "
                    f"subject {subject!r} no longer look at it. {wanted} (version {latest.version}); to have the old shape "
                    f"back: `eventide migrate plan {subject} SCHEMA`."
                )
        _refuse_looser(migration, now, leaves)


def _refuse_looser(migration: Migration, now: dict[str, Leaf], leaves: dict[str, Leaf]) -> None:
    """Once a field is required, no version in which it is optional is given out: its records could not be read."""
    required = [p for p in migration.plan.required if p in now and not now[p].nullable]
    loose = [p for p in required if p not in leaves or leaves[p].nullable]
    if migration.tightened_id is not None and loose:
        raise old_shape(
            f"{listed(loose)} is required since migration {migration.name!r} was tightened, and in this schema it is optional or "
            f"missing. Register it as required."
        )


def _leaves(kind: str, text: str) -> dict[str, Leaf]:
    try:
        return language(kind).leaves(text)
    except PlanRefused:
        return {}  # not a record any more: every field is gone


def _keep(migration: Migration, paths: Sequence[str], which: str, leaves: dict[str, Leaf]) -> None:
    lost = [path for path in paths if path not in leaves]
    if lost:
        raise open_migration(
            f"This schema drops {listed(lost)}, the {which} shape of migration {migration.name!r}, which is in "
            f"{migration.phase}. `eventide migrate can-contract {migration.name}` says what the contract waits for; "
            f"`eventide migrate abort {migration.name}` gives the change up."
        )
