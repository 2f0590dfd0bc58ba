"""Gates: each looks at one thing, and says what it found and what would open it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventide.migration.faults import listed
from eventide.migration.plan.policy import shown
from eventide.migration.rollout.consumer import Standing, at
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.migration import Migration


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of a transition: open or not, what was found, and what to do about it."""

    name: str
    open: bool
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.remedy}".rstrip() if not self.open and self.remedy else self.found

    def as_json(self) -> dict[str, Any]:
        """The gate as the service answers it."""
        return {"gate": self.name, "open": self.open, "found": self.found, "remedy": "" if self.open else self.remedy}


def confirmed(migration: Migration) -> Gate:
    """Somebody has looked at the plan."""
    guesses = listed([str(m) for m in migration.plan.guesses])
    found = "the plan is confirmed" if migration.confirmed else "the plan is not confirmed"
    if guesses and not migration.confirmed:
        found += f"; its expressions for {guesses} are a guess"
    return Gate("plan_confirmed", migration.confirmed, found, f"`eventide migrate confirm {migration.name}`")


def no_conflict(migration: Migration, facts: Facts) -> Gate:
    """No other open migration of the subject touches the same fields."""
    clashes = facts.conflicts
    found = f"conflicts with {listed(clashes)}" if clashes else "no other open migration touches the same fields"
    return Gate("no_conflict", not clashes, found, "Finish or abort the other one first")


def accepted(which: str, reasons: Sequence[str], level: str, remedy: str) -> Gate:
    """The registry would take a schema under the subject's level."""
    found = f"the {which} schema passes {level}" if not reasons else f"the {which} schema does not pass: {listed(reasons, 3)}"
    return Gate(f"{which}_accepted", not reasons, found, remedy)


def expanded_stands(migration: Migration, facts: Facts) -> Gate:
    """The latest version of the subject has both shapes."""
    missing = facts.missing_paths
    found = "the latest version has both shapes" if not missing else f"the latest version lacks {listed(missing)}"
    return Gate("expanded_registered", not missing, found, f"`eventide migrate rollback {migration.name}`, then expand again")


def backfilled(migration: Migration) -> Gate:
    """History has the new shape, where the plan asks for that."""
    if not migration.plan.policy.backfill:
        return Gate("backfill", True, "the plan asks for no backfill")
    done = migration.backfilled_at
    found = f"history was filled at {at(done)}" if done is not None else "history has not been filled yet"
    return Gate("backfill", done is not None, found, f"`eventide migrate backfill {migration.name}`")


def held(name: str, since: int | None, span: int, now: int) -> Gate:
    """A phase has lasted long enough."""
    passed = 0 if since is None else max(now - since, 0)
    is_open = span == 0 or (since is not None and passed >= span)
    found = f"{shown(passed)} of {shown(span)}" if span else "no hold asked for"
    return Gate(name, is_open, found, f"Wait {shown(max(span - passed, 0))}")


def checked(migration: Migration, facts: Facts) -> Gate:
    """The drift check has seen enough events."""
    least, seen = migration.plan.policy.least_events, facts.drift.checked
    if not migration.plan.new:
        return Gate("events_checked", True, "nothing to compare: the old field has no successor")
    found = f"{seen:,} events checked since both shapes are written, {least:,} wanted"
    remedy = f"Let the pipeline run, or `eventide migrate check {migration.name} --report`"
    return Gate("events_checked", seen >= least, found, remedy)


def within_budget(migration: Migration, facts: Facts) -> Gate:
    """Not more events drift than the plan allows."""
    drift, budget = facts.drift, migration.plan.policy.budget
    found = f"{drift.drifted:,} of {drift.checked:,} events drift ({drift.by_kind()}); the budget is {budget:.4%}"
    is_open = drift.drifted <= budget * drift.checked
    again = f"`eventide migrate rollback {migration.name} --to expand`, then `eventide migrate advance {migration.name} --to dual_write`"
    remedy = f"`eventide migrate status {migration.name}` shows counterexamples. Mend the producer and count anew: {again}"
    return Gate("drift_budget", is_open, found, remedy)


def drift_free(migration: Migration, facts: Facts, now: int) -> Gate:
    """No event has drifted for the time the plan asks for, and somebody has been looking."""
    if not migration.plan.new:
        return Gate("drift_zero", True, "nothing to compare: the old field has no successor")
    span, drift = migration.plan.policy.drift_free, facts.drift
    clean_since = drift.last_drift_at if drift.last_drift_at is not None else migration.both_since
    clean = 0 if clean_since is None else max(now - clean_since, 0)
    looking = drift.last_checked_at is not None and drift.last_checked_at > now - span
    never = drift.last_drift_at is None
    is_open = drift.checked > 0 and clean >= span and (never or clean > 0) and (span == 0 or looking)
    last = "no drift ever" if never else f"last drift at {at(drift.last_drift_at)}"
    found = f"{last}; clean for {shown(clean)} of {shown(span)}; last check at {at(drift.last_checked_at)}"
    return Gate("drift_zero", is_open, found, "Keep the drift check running until it has been clean for that long")


def all_moved(migration: Migration, facts: Facts) -> Gate:
    """Nobody reads the old shape any more."""
    blocking = [s for s in facts.standings if s.blocks]
    total = len(facts.standings)
    if not total:
        return Gate("consumers_moved", True, "no consumer was declared or seen; make sure that there is none")
    if not blocking:
        return Gate("consumers_moved", True, f"none of {total} consumers reads the old shape")
    found = f"{len(blocking)} of {total} consumers block: {_who(blocking)}"
    remedy = f"`eventide migrate consumers {migration.name}` lists them; move, exempt or expire each"
    return Gate("consumers_moved", False, found, remedy)


def none_left(migration: Migration, facts: Facts, now: int) -> Gate:
    """No record in the old shape is left that a replay could meet, or readers of history can take it."""
    policy, kept = migration.plan.policy, facts.retention
    if policy.upcaster:
        return Gate("retention", True, "readers of history go through an upcaster")
    written = [moment for moment in (migration.both_since, kept.last_old_record_at) if moment is not None]
    if not written:
        begin = f"`eventide migrate status {migration.name}` shows what the dual write waits for"
        return Gate("retention", False, "records in the old shape are still being written", begin)
    last_written = max(written)
    if kept.scanned_at is not None and kept.scanned_at > last_written:
        return Gate("retention", True, f"all that is kept was read at {at(kept.scanned_at)}: no record in the old shape")
    scan = f"`eventide migrate check {migration.name} --topic … --everything --report`"
    spare = f"`eventide migrate edit {migration.name} --set upcaster=true`"
    remedy = f"Wait, or read all that is kept with {scan}, or, if whoever replays it goes through upcast: {spare}"
    if policy.retention is None:
        return Gate(
            "retention", False, "records are kept for ever, and those from before the dual write lack the new shape", remedy
        )
    gone_at = last_written + policy.retention
    met = kept.last_old_decode_at
    if now >= gone_at and (met is None or met < gone_at):
        return Gate("retention", True, f"the last record in the old shape left retention at {at(gone_at)}")
    found = f"records in the old shape are kept until {at(gone_at)}"
    if now >= gone_at:
        found = f"retention ended at {at(gone_at)}, yet a record in the old shape was decoded at {at(met)}"
    return Gate("retention", False, found, remedy)


def new_unused(migration: Migration, facts: Facts) -> Gate:
    """Nobody would break if the new shape were no longer written."""
    needing = [s for s in facts.standings if s.needs_new]
    if not needing:
        return Gate("new_shape_unused", True, "no consumer depends on the new shape")
    found = f"{counted(len(needing), 'consumer')} read only the new shape: {_who(needing)}"
    back = f"`eventide migrate declare {migration.name} {needing[0].consumer.name} --reads either` (or `old`)"
    return Gate("new_shape_unused", False, found, f"Move them back first: {back}")


def certain(migration: Migration, confirmation: str | None, risk: str = "dropping the old shape cannot be undone") -> Gate:
    """Whoever takes such a step has said so in so many words."""
    said = confirmation == migration.name
    found = "confirmed by name" if said else risk
    return Gate("confirmation", said, found, f"Repeat with --confirm {migration.name}")


def counted(number: int, noun: str) -> str:
    """So many of something.

    >>> counted(1, "consumer"), counted(2, "consumer")
    ('1 consumer', '2 consumers')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _who(standings: Sequence[Standing]) -> str:
    return listed([f"{s.consumer} ({s.why})" for s in standings], 3)
