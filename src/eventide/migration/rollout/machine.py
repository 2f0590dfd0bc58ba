"""The state machine: may this migration go there, judged by facts alone. No clock, no database, nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from eventide.migration.rollout import gate
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.gate import Gate
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import BOTH_SHAPES, Phase


class Outcome(StrEnum):
    """What became of a wish to go somewhere."""

    MOVES = "moves"
    ALREADY = "already"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to such a wish, with every gate that was looked at."""

    outcome: Outcome
    reason: str
    gates: tuple[Gate, ...] = ()


def gates_to(migration: Migration, to: Phase, facts: Facts, now: int, confirmation: str | None = None) -> tuple[Gate, ...]:
    """Every gate before a phase, whether open or not."""
    plan = migration.plan
    if to is Phase.EXPAND and migration.phase is Phase.PLAN:
        return (gate.confirmed(migration), gate.no_conflict(migration, facts), _expanded_accepted(facts))
    if to is Phase.DUAL_WRITE and migration.phase is Phase.EXPAND:
        return (
            gate.expanded_stands(migration, facts),
            gate.backfilled(migration),
            gate.held("hold_expand", migration.entered_at, plan.policy.hold_expand, now),
        )
    if to is Phase.MIGRATE and migration.phase is Phase.DUAL_WRITE:
        return (
            gate.expanded_stands(migration, facts),
            gate.checked(migration, facts),
            gate.within_budget(migration, facts),
        )
    if to in (Phase.CONTRACT_READY, Phase.CONTRACTED) and migration.phase in (Phase.MIGRATE, Phase.CONTRACT_READY):
        before = contract_gates(migration, facts, now)
        return before if to is Phase.CONTRACT_READY else (*before, gate.certain(migration, confirmation))
    leaves_new = to is Phase.ABORTED or to in (Phase.PLAN, Phase.EXPAND)
    if leaves_new and migration.phase in (Phase.EXPAND, *BOTH_SHAPES):
        return (gate.new_unused(migration, facts),)
    return ()


def contract_gates(migration: Migration, facts: Facts, now: int) -> tuple[Gate, ...]:
    """What the contract waits for, in whichever phase the migration is: so that it can be looked at from the first day."""
    policy = migration.plan.policy
    since = migration.entered_at if migration.phase is Phase.MIGRATE else None
    hold = 0 if migration.phase is Phase.CONTRACT_READY else policy.hold_migrate  # served before it became ready
    return (
        gate.all_moved(migration, facts),
        gate.drift_free(migration, facts, now),
        gate.held("hold_migrate", since, hold, now),
        gate.held("hold_dual_write", migration.both_since, policy.hold_dual_write, now),
        gate.none_left(migration, facts, now),
        _contracted_accepted(facts),
    )


def obstacles(migration: Migration, facts: Facts) -> tuple[Gate, ...]:
    """What would stop a plan half-way whatever anybody did: levels that do not take the schemas it leads to."""
    if migration.phase is not Phase.PLAN:
        return ()
    return tuple(g for g in (_expanded_accepted(facts), _contracted_accepted(facts)) if not g.open)


def _expanded_accepted(facts: Facts) -> Gate:
    remedy = "Change the plan, or the subject's level with PUT /config"
    return gate.accepted("expanded", facts.expanded_reasons, facts.level, remedy)


def _contracted_accepted(facts: Facts) -> Gate:
    remedy = "Change the subject's level with PUT /config"
    return gate.accepted("contracted", facts.contracted_reasons, facts.level, remedy)


def decide(migration: Migration, to: Phase, facts: Facts, now: int, *, confirmation: str | None = None) -> Verdict:
    """May the migration go to a phase? Going where it already is changes nothing and is no error."""
    here = migration.phase
    if here is to:
        return Verdict(Outcome.ALREADY, f"{migration.name} is in {here}")
    if not here.is_open:
        end = (
            "its old shape is gone; `eventide migrate rebuild` recovers values"
            if here is Phase.CONTRACTED
            else "plan a new one"
        )
        return Verdict(Outcome.REFUSED, f"{migration.name} is {here} and stays so: {end}")
    forward = to is here.following
    backward = to is Phase.ABORTED or to.is_before(here)
    if not forward and not backward:
        step = here.following
        reason = f"from {here} the next phase is {step}, not {to}: `eventide migrate advance {migration.name} --to {step}`"
        return Verdict(Outcome.REFUSED, reason)
    gates = gates_to(migration, to, facts, now, confirmation)
    shut = [g for g in gates if not g.open]
    if shut:
        reasons = "; ".join(str(g) for g in shut)
        return Verdict(Outcome.REFUSED, f"{migration.name} cannot go from {here} to {to}: {reasons}", gates)
    return Verdict(Outcome.MOVES, f"{migration.name} goes from {here} to {to}", gates)
