"""A migration as people and programs are shown it: phase, gates, consumers, drift, and when it could be over."""

from __future__ import annotations

from typing import Any

from eventide.migration.plan.planning import contracted, expanded, readable
from eventide.migration.rollout.consumer import Standing
from eventide.migration.rollout.facts import DriftFacts, Facts
from eventide.migration.rollout.gathering import gather, strays
from eventide.migration.rollout.machine import Outcome, contract_gates, decide, gates_to, obstacles
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.rollout import Rollout
from eventide.migration.rollout.tightening import gates_to_tighten
from eventide.migration.rollout.timeline import estimate
from eventide.registry.catalog import Catalog


def status(catalog: Catalog, rollout: Rollout, migration: Migration) -> dict[str, Any]:
    """Everything there is to know about a migration now."""
    facts = gather(catalog, migration)
    step = migration.phase.following if migration.phase.is_open else None
    gates = gates_to(migration, step, facts, rollout.now) if step is not None else ()
    return {
        **migration.as_json(),
        "next": None if step is None else step.value,
        "gates": [g.as_json() for g in gates],
        "obstacles": [g.as_json() for g in obstacles(migration, facts)],
        "conflicts": list(facts.conflicts),
        "consumers": [_consumer(s) for s in facts.standings],
        "strays": strays(catalog, migration),
        "tighten": _tighten(migration, facts),
        "drift": drift_json(facts.drift),
        "examples": rollout.tables.examples(migration.name),
        "schemas": _schemas(catalog, migration),
        "estimate": estimate(migration, facts, rollout.now).as_json() if migration.phase.is_open else None,
    }


def _tighten(migration: Migration, facts: Facts) -> list[dict[str, Any]]:
    """The gates of the last, optional step; none before the contract, after that step, or where it has nothing to do."""
    due = migration.phase is Phase.CONTRACTED and migration.plan.tight and migration.tightened_id is None
    return [g.as_json() for g in gates_to_tighten(migration, facts)] if due else []


def can_contract(catalog: Catalog, rollout: Rollout, migration: Migration) -> dict[str, Any]:
    """May the old shape go now? With every gate; being sure is not one of them."""
    facts = gather(catalog, migration)
    target = Phase.CONTRACTED if migration.phase is Phase.CONTRACT_READY else Phase.CONTRACT_READY
    verdict = decide(migration, target, facts, rollout.now, confirmation=migration.name)
    done = migration.phase is Phase.CONTRACTED
    gates = contract_gates(migration, facts, rollout.now) if migration.phase.is_open else ()
    return {
        "migration": migration.name,
        "phase": migration.phase.value,
        "can_contract": done or verdict.outcome is Outcome.MOVES,
        "reason": "" if done else verdict.reason,
        "gates": [g.as_json() for g in gates],
    }


def drift_json(drift: DriftFacts) -> dict[str, Any]:
    """The counts as the service answers them."""
    return {
        "checked": drift.checked,
        "agree": drift.agree,
        "neither": drift.neither,
        "old_only": drift.old_only,
        "new_only": drift.new_only,
        "differ": drift.differ,
        "drifted": drift.drifted,
        "last_checked_at": drift.last_checked_at,
        "last_drift_at": drift.last_drift_at,
    }


def _consumer(standing: Standing) -> dict[str, Any]:
    seen = standing.seen
    return {
        **standing.consumer.as_json(),
        "state": standing.state.value,
        "blocks": standing.blocks,
        "why": standing.why,
        "last_seen": seen.last,
        "last_seen_old": seen.old,
        "last_seen_new": seen.new,
    }


def _schemas(catalog: Catalog, migration: Migration) -> dict[str, str]:
    latest = catalog.session.latest(migration.subject)
    if latest is None or latest.kind != migration.plan.kind or not migration.phase.is_open:
        return {}
    both = expanded(migration.plan, latest.text)
    reader = readable(migration.plan, latest.text)
    return {"expanded": both, "contracted": contracted(migration.plan, both), "reader": reader}
