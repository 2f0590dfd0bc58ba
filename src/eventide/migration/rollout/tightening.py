"""Tightening: after the contract the new field becomes what was wanted from the first, once nothing that is kept lacks it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl

from eventide.migration import faults
from eventide.migration.data.leaves import flattened
from eventide.migration.faults import listed
from eventide.migration.plan.plan import Plan
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


@dataclass(frozen=True)
class Lacking:
    """Counts the rows of a frame that would not fit the tightened schema: a required leaf is null, or of another type."""

    plan: Plan

    def __call__(self, frame: pl.DataFrame) -> int:
        """How many rows do not fit."""
        bad = pl.repeat(False, len(frame), eager=True)
        if self.plan.required:
            flat = flattened(frame, self.plan.required, self.plan.leaves).collect()
            bad = flat.select(pl.any_horizontal(pl.all().is_null())).to_series()
        if self.plan.kind == "JSON" and self.plan.tight:
            bad = bad | pl.Series(self._unfit(frame), dtype=pl.Boolean)
        return int(bad.sum())

    def _unfit(self, frame: pl.DataFrame) -> list[bool]:
        """A JSON document may hold anything under a name that has no type yet."""
        from jsonschema import Draft202012Validator

        validators = {a.path: Draft202012Validator(a.definition) for a in self.plan.tight}
        found = []
        for row in frame.iter_rows(named=True):
            values = {path: _value(row, path) for path in validators}
            found.append(any(v is not None and not validators[path].is_valid(v) for path, v in values.items()))
        return found


def _value(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return _plain(row)


def _plain(value: Any) -> Any:
    """A value as JSON has it; a null is a property that is not there."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.isoformat() if isinstance(value, date) else value
