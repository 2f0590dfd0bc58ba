"""Rows themselves as tables that users read: those that an output refused, and those that went on, where they are an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from eventide.kernel.columns import DEAD, MARKER, POSITION
from eventide.kernel.place import AUDITED, Shown
from eventide.model.event import LaneId
from eventide.sinks.shape import aside
from eventide.state.store import Store, lane_name

AUDIT = "audit"
"""The directory of rows that went on to be judged."""


def placed_rows(rows: pl.DataFrame, generation: int, shown: Sequence[Shown]) -> pl.DataFrame:
    """The user's own columns, then ours.

    A column of ours steps aside where the row has one of its name, as the rows of another pipeline's late stream do.
    """
    own = [c for c in rows.columns if not c.startswith("__")]
    placed = rows.with_columns(pl.lit(generation, dtype=pl.Int64).alias("__generation"))
    return placed.select(*own, *[column.value.alias(aside(column.name, own)) for column in shown])


def write_audited(store: Store, batch: int, name: str, rows: pl.DataFrame, generation: int) -> str:
    """Put rows away that go on to be judged; gives the file."""
    return store.write_table(AUDIT, batch, name, placed_rows(rows.sort(POSITION), generation, AUDITED))


@dataclass
class AuditWriter:
    """Sees the rows of a lane as it is scanned, and puts away those that go on: what cannot be read does not, nor do markers."""

    store: Store
    batch: int
    lane: LaneId
    generation: int
    written: list[str] = field(default_factory=list, init=False)

    def see(self, rows: pl.DataFrame) -> None:
        """The next rows of the lane."""
        on = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
        if len(on):
            name = f"{lane_name(self.lane)}-{len(self.written):06d}"
            self.written.append(write_audited(self.store, self.batch, name, on, self.generation))

    def close(self) -> list[str]:
        """Every chunk is put away already; where it is."""
        return self.written

    def forget(self) -> None:
        """Take back every chunk."""
        self.store.delete(self.written)
