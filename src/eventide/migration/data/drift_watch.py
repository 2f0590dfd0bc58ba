"""The drift check inside a pipeline: every event that flows is looked at, and what was found is told to the registry."""

from __future__ import annotations

import logging
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eventide.errors import DefinitionError, EventideError
from eventide.migration.data.drift import NAMES, NOTHING, DriftCheck, DriftReport
from eventide.migration.plan.expression import paths_in
from eventide.migration.plan.mapping import Mapping
from eventide.migration.plan.shape import Leaf
from eventide.migration.rollout.migration import Migration

log = logging.getLogger(__name__)
_DEAD, _ARRIVAL = "__dead", "__arrival"


@dataclass
class DriftWatch:
    """An observer: a map for `Source.map` that changes nothing and checks both shapes of every row.

    Put it before an `Upcast`, which would hide what is missing. Counts come back with each batch and are reported under
    the pipeline's name and the batch's number, so that a batch that is run again is counted once. While the registry
    cannot be reached they wait here, in order; the pipeline goes on.

    >>> watch = DriftWatch.of(migration, registry="http://127.0.0.1:8081")  # doctest: +SKIP
    >>> rides = ev.kafka("rides", …).map(watch).map(Upcast.of(migration))  # doctest: +SKIP
    """

    migration: str
    mappings: tuple[Mapping, ...]
    leaves: Map[str, Leaf] = field(default_factory=dict)
    key: Sequence[str] = ()
    registry: str | None = None
    token: str | None = field(default=None, repr=False)
    most: int = 20
    total: DriftReport = NOTHING
    """On the driver: all that was found so far by this run."""
    _seen: DriftReport = field(default=NOTHING, repr=False)
    _waiting: list[tuple[str, int, DriftReport]] = field(default_factory=list, repr=False)

    @classmethod
    def of(
        cls, migration: Migration, *, registry: str | None = None, token: str | None = None, key: Sequence[str] = ()
    ) -> DriftWatch:
        """The watch over a migration; without a registry the counts stay in `total`."""
        plan = migration.plan
        return cls(migration.name, plan.mappings, plan.leaves, tuple(key), registry, token)

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that it reads."""
        said = [p for m in self.mappings for sql in m.backward.values() for p in paths_in(sql)]
        own = [p for m in self.mappings for p in (*m.old, *m.new)]
        return frozenset(p.partition(".")[0] for p in (*said, *own, *self.key))

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """On a worker: check the rows, and give them back as they are. Dead letters have no shape."""
        alive = rows
        if _DEAD in rows.columns and rows[_DEAD].null_count() < len(rows):
            alive = rows.filter(pl.col(_DEAD).is_null())
        if not len(rows):
            self._try(rows)  # a pipeline asks with no rows before it starts: what cannot be compared is said then
        elif len(alive):
            written = _ARRIVAL if _ARRIVAL in rows.columns else None
            found = DriftCheck(self.mappings, self.leaves, self.key, self.most, written)(alive)
            self._seen = self._seen.plus(found, self.most)
        return rows

    def _try(self, rows: pl.DataFrame) -> None:
        try:
            DriftCheck(self.mappings, self.leaves, self.key)(rows)
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise DefinitionError(
                f"the drift of migration {self.migration!r} cannot be checked on columns {dict(rows.schema)}: {reason}. Give the "
                f"source the types that the schema has, or edit the plan's expressions: eventide migrate edit {self.migration}."
            ) from error

    def seen(self) -> Any:
        """On a worker: what was found since it was last asked."""
        found, self._seen = self._seen, NOTHING
        if not found.checked:
            return None
        return {"counts": dict(found.counts), "examples": list(found.examples), "until": found.until}

    def told(self, pipeline: str, batch: int, seen: list[Any]) -> None:
        """On the driver: add up a batch and report it."""
        found = NOTHING
        for each in seen:
            counts = {k: int(each["counts"][k]) for k in NAMES}
            found = found.plus(DriftReport(counts, tuple(each["examples"]), each["until"]), self.most)
        if not found.checked:
            return
        self.total = self.total.plus(found, self.most)
        if self.registry is not None:
            self._waiting.append((pipeline, batch, found))
            self._report()

    def _report(self) -> None:
        from eventide.migration.data.client import MigrationClient
        from eventide.registry.client import RegistryClient

        try:
            with RegistryClient(str(self.registry), token=self.token, name="eventide-drift", tries=2) as client:
                while self._waiting:
                    pipeline, batch, found = self._waiting[0]
                    source = f"pipeline {pipeline}"
                    MigrationClient(client).report_drift(
                        self.migration, source, batch, found.counts, found.examples, until=found.until
                    )
                    del self._waiting[0]
        except EventideError as error:
            log.warning("the drift of %d batches waits for the registry: %s", len(self._waiting), error)
