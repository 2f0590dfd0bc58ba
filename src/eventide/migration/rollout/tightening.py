"""Tightening: after the contract the new field becomes what was wanted from the first, once nothing that is kept lacks it."""

from __future__ import annotations

from dataclasses import replace

from eventide.migration import faults
from eventide.migration.faults import listed
from eventide.migration.plan.shape import language
from eventide.migration.rollout import gate
from eventide.migration.rollout.consumer import at
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.gate import Gate
from eventide.migration.rollout.gathering import gather
from eventide.migration.rollout.machine import Outcome, Verdict
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.rollout import Rollout


def tighten(rollout: Rollout, name: str, confirmation: str | None) -> Verdict:
    """Register the subject's latest version with the new fields as they were wanted; a second time changes nothing.

    The level is not asked: it would compare with versions whose records, as the gates have found, are all gone.

    Raises:
        Fault: it may not be yet, and why.
    """
    migration = rollout.find(name)
    if migration.tightened_id is not None:
        return Verdict(Outcome.ALREADY, f"{name} is tightened")
    if migration.phase is not Phase.CONTRACTED:
        raise faults.not_now(f"{name!r} is in {migration.phase}; a field is tightened after the contract.")
    gates = gates_to_tighten(migration, gather(rollout.catalog, migration), confirmation)
    shut = [g for g in gates if not g.open]
    if shut:
        raise faults.not_now(f"{name} cannot be tightened: {'; '.join(str(g) for g in shut)}")
    text = language(migration.plan.kind).tightened(rollout.latest(migration), migration.plan.tight)
    done = replace(migration, tightened_id=rollout.register(migration, text, against=()))
    rollout.save(done, "tighten_migration", {"gates": [g.as_json() for g in gates]})
    return Verdict(Outcome.MOVES, f"{name} is tightened: every record must have {listed(migration.plan.required)}", gates)


def gates_to_tighten(migration: Migration, facts: Facts, confirmation: str | None = None) -> tuple[Gate, ...]:
    """What the last step waits for, whether open or not."""
    if not migration.plan.tight:
        return (Gate("wanted_tighter", False, "there is nothing to tighten: the wanted schema asks for no more than this"),)
    return (
        gate.no_conflict(migration, facts),
        _level(facts.level),
        _whole(migration),
        gate.certain(migration, confirmation, "a record without it could no longer be read"),
    )


def _level(level: str) -> Gate:
    shut = level in ("BACKWARD_TRANSITIVE", "FULL_TRANSITIVE")
    why = f"{level} compares every later version with those from before the migration, which lack the field"
    found = why if shut else f"{level} does not look back beyond the latest version"
    return Gate("level", not shut, found, "Change the subject's level with PUT /config, or leave the field optional")


def _whole(migration: Migration) -> Gate:
    fields = listed([a.path for a in migration.plan.tight])
    remedy = f"`eventide migrate check {migration.name} --topic … --everything --report` reads it all"
    scan = migration.scanned
    if scan is None:
        return Gate("all_records_have_it", False, "nobody has read all that is kept since the contract", remedy)
    lack = f"{scan.lacking:,} of {scan.checked:,} records that are kept lack {fields} (read at {at(scan.at)})"
    if scan.lacking:
        return Gate("all_records_have_it", False, lack, f"Wait until they have left retention, then: {remedy}")
    return Gate("all_records_have_it", True, f"all {scan.checked:,} records that are kept have {fields}, as of {at(scan.at)}")
