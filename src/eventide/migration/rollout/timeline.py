"""When could the old shape go? From the consumers' pace, their own dates, and the holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventide.migration.plan.policy import DAY, shown
from eventide.migration.rollout.consumer import Standing, State, at
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.migration import Migration


@dataclass(frozen=True, slots=True)
class Estimate:
    """The earliest moment the contract is possible, a likely one, and what they rest on; none: nobody can tell."""

    earliest: int
    likely: int | None
    basis: str

    def as_json(self) -> dict[str, Any]:
        """The estimate as the service answers it."""
        return {"earliest": self.earliest, "likely": self.likely, "basis": self.basis}


def estimate(migration: Migration, facts: Facts, now: int) -> Estimate:
    """Estimate the contract.

    The likely moment allows the slowest consumer twice the time its owner gave, or, without such dates, goes by how
    fast the others have moved so far: what delays a migration is nearly always one team without a free week.
    """
    held_until = _held_until(migration, facts, now)
    waiting = [s for s in facts.standings if s.blocks]
    moved = [s for s in facts.standings if s.state is State.MOVED]
    if not waiting:
        who = "every consumer has moved" if facts.standings else "no consumer is known"
        return Estimate(held_until, held_until, f"{who}; the holds end at {at(held_until)}")
    dated = [s.consumer.expected_by for s in waiting if s.consumer.expected_by is not None]
    slowest = max([now, *dated])
    by_pace = _by_pace(migration, moved, len(waiting), now)
    earliest = max(held_until, slowest)
    parts = [f"{len(waiting)} of {len(facts.standings)} consumers have not moved"]
    likely = None
    if len(dated) == len(waiting):
        likely = now + 2 * (slowest - now)
        parts.append(f"the slowest expects {at(slowest)}, counted twice")
    elif by_pace is not None:
        likely = by_pace
        parts.append(f"{len(moved)} moved in {shown(now - _begun(migration, moved))}")
    else:
        parts.append("none has moved yet and not all gave a date (--expected-by)")
    return Estimate(earliest, None if likely is None else max(likely, earliest), "; ".join(parts))


def _begun(migration: Migration, moved: Sequence[Standing]) -> int:
    started = migration.both_since if migration.both_since is not None else migration.created_at
    return min([started, *(s.consumer.since for s in moved)])


def _by_pace(migration: Migration, moved: Sequence[Standing], waiting: int, now: int) -> int | None:
    if not moved:
        return None
    spent = max(now - _begun(migration, moved), 1)
    return now + spent * waiting // len(moved)


def _held_until(migration: Migration, facts: Facts, now: int) -> int:
    policy = migration.plan.policy
    both = migration.both_since if migration.both_since is not None else now
    clean = facts.drift.last_drift_at if facts.drift.last_drift_at is not None else both
    ends = [now, both + policy.hold_dual_write, clean + policy.drift_free]
    if not policy.upcaster and facts.retention.scanned_at is None:
        kept = policy.retention if policy.retention is not None else 365 * DAY
        ends.append(max(both, facts.retention.last_old_record_at or 0) + kept)
    return max(ends)
