"""Rows that a tightened schema would not take: a field that it asks for is not there, or holds something else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from eventide.migration.data.leaves import flattened
from eventide.migration.plan.plan import Plan


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
