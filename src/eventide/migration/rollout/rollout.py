"""What can be done with migrations, each inside one transaction of the registry: the change and its audit record."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventide.migration import faults
from eventide.migration.faults import PlanRefused, listed
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.planning import Additive, contracted, expanded, propose, validated
from eventide.migration.plan.policy import Policy, shown
from eventide.migration.plan.rule_set import Rule, contract_rules, expand_rules
from eventide.migration.plan.shape import language
from eventide.migration.rollout.consumer import Consumer, Seen, Shape, State, at
from eventide.migration.rollout.gathering import gather, sightings, since_expanded, standings
from eventide.migration.rollout.machine import Outcome, Verdict, decide
from eventide.migration.rollout.migration import Migration, Scan
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.tables import KINDS, MigrationTables
from eventide.registry.catalog import Catalog
from eventide.registry.deletion import delete_version
from eventide.registry.faults import Fault
from eventide.registry.records import Entry, Proposal
from eventide.registry.registration import register

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


@dataclass(frozen=True, slots=True)
class Author:
    """Who does something, from where and why; for the audit log."""

    name: str = "anonymous"
    origin: str = ""
    reason: str = ""


class Rollout:
    """The migrations of a registry, seen from inside one transaction; `catalog.now` is the time."""

    def __init__(self, catalog: Catalog, author: Author | None = None) -> None:
        self.catalog = catalog.unguarded()
        self._author = author or Author()
        self.tables = MigrationTables(catalog.session)

    @property
    def now(self) -> int:
        """The time of this transaction."""
        return self.catalog.now

    def find(self, name: str) -> Migration:
        """A migration by name.

        Raises:
            Fault: there is none.
        """
        migration = self.tables.migration(name)
        if migration is None:
            raise faults.not_found(name)
        return migration

    # the plan

    def plan(self, subject: str, wanted: str, *, said: Said, policy: Policy, name: str = "") -> Migration | Additive:
        """Plan a change of a subject's latest version; the same again changes nothing, another one replaces it."""
        latest = self.catalog.session.latest(subject)
        if latest is None:
            raise faults.invalid(f"Subject {subject!r} has no version to change. Register its current schema first.")
        level = str(self.catalog.config_in_scope(subject)["compatibilityLevel"])
        others = [m for m in self.tables.migrations(subject) if m.phase.is_open and m.name != name]
        kept = [path for m in others for path in m.plan.new]
        found = propose(latest.kind, latest.text, wanted, level=level, said=said, policy=policy, kept=kept)
        if isinstance(found, Additive):
            return found
        name = name or re.sub(r"[^A-Za-z0-9._+-]", "_", f"{subject}.{'+'.join(found.drops)}")[:200]
        if not _NAME.fullmatch(name):
            raise faults.invalid(f"{name!r} is no name for a migration: letters, digits and . _ + - only, up to 200.")
        before = self.tables.migration(name)
        if before is not None:
            if before.subject != subject:
                raise faults.not_now(f"{name!r} is the name of another migration. Give another --name.")
            if before.phase is not Phase.PLAN:
                raise faults.not_now(f"{name!r} is in {before.phase} and its plan is fixed. Give another --name.")
            if before.plan == found:
                return before
        now = self.now
        fresh = Migration(name, subject, found, now, self._author.name, entered_at=now)
        self.save(fresh, "plan_migration", {"mappings": [str(m) for m in found.mappings]})
        return fresh

    def edit(self, name: str, forward: Map[str, str], backward: Map[str, str], policy: Map[str, Any]) -> Migration:
        """Change the expressions while nothing has begun, and the policy as long as the migration is open."""
        migration = self.find(name)
        if not migration.phase.is_open or ((forward or backward) and migration.phase is not Phase.PLAN):
            raise faults.not_now(f"{name!r} is in {migration.phase}; expressions are edited in plan. Roll back to plan first.")
        unknown = [p for p in forward if p not in migration.plan.new] + [p for p in backward if p not in migration.plan.old]
        if unknown:
            raise faults.invalid(
                f"{listed(unknown)} is not part of the plan {listed([str(m) for m in migration.plan.mappings])}."
            )
        plan = migration.plan.edited(forward, backward)
        if policy:
            plan = replace(plan, policy=plan.policy.with_given(policy))
        latest = self.catalog.session.latest(migration.subject)
        if latest is not None and (forward or backward or policy):
            validated(plan, language(plan.kind).leaves(expanded(plan, latest.text)))
        if plan == migration.plan:
            return migration
        still = migration.confirmed and plan.mappings == migration.plan.mappings
        changed = replace(migration, plan=plan, confirmed=still)
        detail = {"forward": dict(forward), "backward": dict(backward), "policy": dict(policy)}
        self.save(changed, "edit_migration", detail)
        return changed

    def confirm(self, name: str, *, accept_guesses: bool = False) -> Migration:
        """Say that the plan is right; guesses must be accepted in so many words."""
        migration = self.find(name)
        if migration.confirmed:
            return migration
        if migration.phase is not Phase.PLAN:
            raise faults.not_now(f"{name!r} is in {migration.phase}; only a plan can be confirmed.")
        guesses = migration.plan.guesses
        if guesses and not accept_guesses:
            what = listed([f"{m}: {m.why}" for m in guesses])
            raise faults.not_now(f"Not everything in {name!r} is certain ({what}). Edit it, or confirm with --accept-guesses.")
        sure = replace(migration.plan, mappings=tuple(replace(m, certain=True) for m in migration.plan.mappings))
        changed = replace(migration, confirmed=True, plan=sure)
        self.save(changed, "confirm_migration", {"guesses": [str(m) for m in guesses]})
        return changed

    # the phases

    def judge(self, name: str, to: Phase, confirmation: str | None = None) -> Verdict:
        """What would happen; nothing is changed."""
        migration = self.find(name)
        return decide(migration, to, gather(self.catalog, migration), self.now, confirmation=confirmation)

    def go(self, name: str, to: Phase, *, confirmation: str | None = None, withdraw: bool = False) -> Verdict:
        """Move a migration to a phase, with everything that belongs to it.

        Raises:
            Fault: it may not go there, and why.
        """
        migration = self.find(name)
        verdict = decide(migration, to, gather(self.catalog, migration), self.now, confirmation=confirmation)
        if verdict.outcome is Outcome.REFUSED:
            raise faults.not_now(verdict.reason)
        withdraw = withdraw and to in (Phase.PLAN, Phase.ABORTED)
        if verdict.outcome is Outcome.ALREADY:
            if withdraw and self._withdraw(migration):
                self._audit("withdraw_migration", migration, {"schema_id": migration.expanded_id})
            return verdict
        moved = migration.moved(to, self.now)
        if to is Phase.EXPAND and migration.phase is Phase.PLAN:
            moved = self._expand(moved)
        elif to is Phase.DUAL_WRITE and migration.phase is Phase.EXPAND:
            self.tables.forget_drift(name)
        elif to is Phase.CONTRACTED:
            moved = self._contract(moved)
        elif withdraw:
            self._withdraw(migration)
        detail = {"from": migration.phase.value, "to": to.value, "gates": [g.as_json() for g in verdict.gates]}
        self.save(moved, "move_migration", detail)
        return verdict

    def _expand(self, migration: Migration) -> Migration:
        lang, new = language(migration.plan.kind), set(migration.plan.new)
        before = [e for e in self.catalog.session.entries(migration.subject) if e.kind == migration.plan.kind]
        old_ids = dict.fromkeys(e.id for e in before if not new <= lang.leaves(e.text).keys())
        rules = expand_rules(migration.plan, migration.name) if migration.plan.policy.rules else ()
        schema_id = self.register(migration, expanded(migration.plan, self.latest(migration)), rules=rules)
        return replace(migration, expanded_id=schema_id, old_ids=tuple(old_ids))

    def _contract(self, migration: Migration) -> Migration:
        text = contracted(migration.plan, self.latest(migration))
        rules = contract_rules(migration.plan, migration.name) if migration.plan.policy.rules else ()
        schema_id = self.register(migration, text, since_expanded(self.catalog, migration), rules)
        return replace(migration, contracted_id=schema_id)

    def latest(self, migration: Migration) -> str:
        """The text of the subject's latest version.

        Raises:
            Fault: it has none any more.
        """
        latest = self.catalog.session.latest(migration.subject)
        if latest is None:
            raise faults.not_now(f"Subject {migration.subject!r} has no version any more.")
        return latest.text

    def register(
        self, migration: Migration, text: str, against: Sequence[Entry] | None = None, rules: Sequence[Rule] = ()
    ) -> int:
        """Register the next version of a migration's subject; gives its id.

        It must be compatible with `against`, if that is given. `rules` take the place of the migration rules before it.
        """
        latest = self.catalog.session.latest(migration.subject)
        references = latest.references if latest is not None else ()
        kept = latest.rules if latest is not None else None
        carried = {**(kept or {}), "migrationRules": list(rules)} if rules else kept
        proposal = Proposal(migration.subject, text, migration.plan.kind, references, rules=carried)
        entry, _ = register(self.catalog, proposal, normalize=False, against=against)
        return entry.id

    def _withdraw(self, migration: Migration) -> bool:
        """Soft delete the expanded version if it is the latest; records that carry its id can be read as before."""
        latest = self.catalog.session.latest(migration.subject)
        if latest is None or latest.id != migration.expanded_id:
            return False
        delete_version(self.catalog, migration.subject, latest.version, permanent=False)
        return True

    # consumers

    def declare(
        self, name: str, consumer: str, environment: str, *, shape: Shape, owner: str = "", expected_by: int | None = None
    ) -> Consumer:
        """A consumer says which shape it reads. Saying so again changes nothing, unless it was seen to do otherwise."""
        migration = self.find(name)
        _refuse_shape(migration, shape)
        before = self._consumer(name, consumer, environment)
        if before is None:
            fresh = Consumer(consumer, environment, owner, shape, self.now, expected_by)
            return self._save_consumer(migration, fresh, "declare_consumer")
        doubted = any(
            s.state in (State.CONTRADICTED, State.EXPIRED)
            for s in standings(self.catalog, migration)
            if (s.consumer.name, s.consumer.environment) == (consumer, environment)
        )
        same = before.shape is shape and before.declared_at is not None
        declared_at = before.declared_at if same and not doubted else self.now
        expected = before.expected_by if expected_by is None else expected_by
        changed = replace(
            before, shape=shape, owner=owner or before.owner, declared_at=declared_at, expected_by=expected,
            expired_at=None if doubted else before.expired_at,
        )  # fmt: skip
        return self._save_consumer(migration, changed, "declare_consumer") if changed != before else before

    def exempt(self, name: str, consumer: str, environment: str, *, until: int | None, reason: str) -> Consumer:
        """Spare a consumer the proof that it has moved, until a date; without one take the exemption back."""
        migration = self.find(name)
        before = self._known(migration, consumer, environment)
        if until is not None and not reason.strip():
            raise faults.invalid("An exemption needs a reason: --because TEXT.")
        if until is not None and until <= self.now:
            raise faults.invalid(f"An exemption must end in the future, and {at(until)} is not: --until 2030-01-31.")
        if (before.exempt_until, before.exempt_reason) == (until, reason if until is not None else ""):
            return before
        since = self.now if until is not None else None
        changed = replace(before, exempt_until=until, exempted_at=since, exempt_reason=reason if until is not None else "")
        return self._save_consumer(migration, changed, "exempt_consumer")

    def expire(self, name: str, consumer: str, environment: str, *, reason: str = "") -> Consumer:
        """Say that a consumer is gone, declared or only seen; if it is ever seen again it counts again.

        One that was seen lately is gone only if somebody says why it does not come back.
        """
        migration = self.find(name)
        _refuse_closed(migration)
        seen = sightings(self.catalog, migration).get((consumer, environment), Seen())
        before = self._consumer(name, consumer, environment)
        if before is None:
            if seen.last is None:
                raise faults.invalid(
                    f"{consumer!r} in {environment!r} was neither declared nor seen. `eventide migrate consumers {name}` lists "
                    "those that were."
                )
            before = Consumer(consumer, environment)
        if before.expired_at is not None and (seen.last is None or seen.last <= before.expired_at):
            return before
        if seen.last is not None and not reason.strip() and self.now - seen.last < migration.plan.policy.idle_after:
            ago = shown(self.now - seen.last)
            raise faults.not_now(
                f"{before} was seen {ago} ago, so it is not gone. Move it, exempt it, or say why it does not come back: --because TEXT."
            )
        changed = replace(before, expired_at=self.now, expire_reason=reason.strip())
        return self._save_consumer(migration, changed, "expire_consumer")

    def _consumer(self, name: str, consumer: str, environment: str) -> Consumer | None:
        return next((c for c in self.tables.consumers(name) if (c.name, c.environment) == (consumer, environment)), None)

    def _known(self, migration: Migration, consumer: str, environment: str) -> Consumer:
        _refuse_closed(migration)
        found = self._consumer(migration.name, consumer, environment)
        if found is None or found.declared_at is None:
            raise faults.invalid(f"Nobody declared {consumer!r} in {environment!r}. `eventide migrate declare` does.")
        return found

    def selected(self, subject: str, client: str, environment: str, paths: Sequence[str], at: int | None) -> None:
        """A client was seen to select these columns of a subject."""
        moment = at if at is not None and 0 <= at <= self.now else self.now
        for path in paths:
            self.tables.put_selection(subject, client, environment, path, moment)

    # drift and history

    def report_drift(
        self,
        name: str,
        source: str,
        batch: int,
        counts: Map[str, int],
        examples: Sequence[Any],
        *,
        everything: bool = False,
        until: int | None = None,
    ) -> bool:
        """Add what a drift check found in one batch; says whether it counted (a batch counts once, and only in time).

        `until` is when the last drifting event was written: one from before both shapes were written, that a pipeline
        only comes to read now, is no drift.
        """
        migration = self.find(name)
        last = self.tables.last_batch(name, source)
        if not migration.writes_both or (last is not None and batch <= last):
            return False
        found = {kind: int(counts.get(kind, 0)) for kind in KINDS}
        if until is not None and migration.both_since is not None and until < migration.both_since:
            found |= {"old_only": 0, "new_only": 0, "differ": 0}
            examples = ()
        scanned = everything and found["old_only"] == 0
        self.tables.add_drift(name, source, batch, found, self.now, scanned)
        self.tables.add_examples(name, examples)
        return True

    def scanned(self, name: str, checked: int, lacking: int) -> Migration:
        """Somebody has read all that is kept after the contract: so many records, of which so many lack the new shape."""
        migration = self.find(name)
        if migration.phase is not Phase.CONTRACTED or checked == 0:
            return migration
        changed = replace(migration, scanned=Scan(self.now, checked, lacking))
        self.save(changed, "scan_migration", {"checked": checked, "lacking": lacking})
        return changed

    def backfilled(self, name: str, detail: Map[str, Any]) -> Migration:
        """History has been filled with the new shape."""
        migration = self.find(name)
        _refuse_closed(migration)
        if migration.phase is Phase.PLAN:
            raise faults.not_now(
                f"{name!r} is in plan; history is filled from expand on: `eventide migrate advance {name} --to expand`."
            )
        if migration.backfilled_at is not None:
            return migration
        changed = replace(migration, backfilled_at=self.now)
        self.save(changed, "backfill_migration", dict(detail))
        return changed

    def save(self, migration: Migration, action: str, detail: dict[str, Any]) -> None:
        """Write a migration down, with what was done to it."""
        self.tables.put_migration(migration)
        self._audit(action, migration, detail)

    def _save_consumer(self, migration: Migration, consumer: Consumer, action: str) -> Consumer:
        self.tables.put_consumer(migration.name, consumer)
        self._audit(action, migration, consumer.as_json())
        return consumer

    def _audit(self, action: str, migration: Migration, detail: dict[str, Any]) -> None:
        who = self._author
        full = {"migration": migration.name, **detail}
        self.catalog.session.put_audit(self.now, who.name, who.origin, action, migration.subject, "done", who.reason, full)


def _refuse_closed(migration: Migration) -> None:
    if not migration.phase.is_open:
        raise faults.not_now(f"{migration.name!r} is {migration.phase}; nothing about it changes any more.")


def _refuse_shape(migration: Migration, shape: Shape) -> None:
    _refuse_closed(migration)
    if shape is Shape.NEW and not migration.writes_both:
        raise faults.not_now(
            f"{migration.name!r} is in {migration.phase}: not every event has the new shape yet. Declare `either` and read "
            "through upcast, or wait for dual_write."
        )


__all__ = ["Author", "Fault", "PlanRefused", "Rollout"]
