"""The drift check: do both shapes of every event say the same? Vectorised, counted by kind, with counterexamples."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eventide.migration.data.leaves import flattened, with_value
from eventide.migration.plan.expression import paths_in
from eventide.migration.plan.mapping import Mapping
from eventide.migration.plan.shape import Leaf

NEITHER, AGREE, NEW_ONLY, OLD_ONLY, DIFFER = range(5)
"""The kinds, the worst last: an event with several mappings counts once, as the worst of them."""
NAMES = ("neither", "agree", "new_only", "old_only", "differ")


@dataclass(frozen=True, slots=True)
class DriftReport:
    """How many events were of each kind, the first that drifted, and when the last of those was written (in ms)."""

    counts: Map[str, int]
    examples: tuple[Map[str, Any], ...] = ()
    until: int | None = None

    @property
    def checked(self) -> int:
        """Events looked at."""
        return sum(self.counts.values())

    @property
    def drifted(self) -> int:
        """Events whose two shapes do not say the same."""
        return sum(self.counts[kind] for kind in ("old_only", "new_only", "differ"))

    def within(self, budget: float) -> bool:
        """Is the share of drifting events no larger than this?"""
        return self.drifted <= budget * self.checked

    def plus(self, other: DriftReport, most: int = 100) -> DriftReport:
        """Both reports as one; the earlier examples are kept."""
        counts = {kind: self.counts[kind] + other.counts[kind] for kind in NAMES}
        until = max((at for at in (self.until, other.until) if at is not None), default=None)
        return DriftReport(counts, (*self.examples, *other.examples)[:most], until)


NOTHING = DriftReport(dict.fromkeys(NAMES, 0))


@dataclass(frozen=True)
class DriftCheck:
    """The check of some mappings; `leaves` are the types of the expanded schema, for frames that lack them.

    The old shape is compared with what the new one says it should be (the backward expressions): a new shape may
    know more than the old one, never something else.

    >>> from eventide.migration.plan.mapping import Change
    >>> m = Mapping(Change.RENAME, ("old",), ("new",), {"new": "old"}, {"old": "new"})
    >>> report = DriftCheck((m,))(pl.DataFrame({"old": [1, 2, 3], "new": [1, None, 4]}))
    >>> report.counts["agree"], report.counts["old_only"], report.counts["differ"]
    (1, 1, 1)
    """

    mappings: Sequence[Mapping]
    leaves: Map[str, Leaf] = field(default_factory=dict)
    key: Sequence[str] = ()
    most: int = 20
    written: str | None = None
    """The column that says when an event was written, in microseconds since 1970."""

    def __call__(self, frame: pl.DataFrame | pl.LazyFrame) -> DriftReport:
        """Check every event of a frame."""
        judged = self.judged(frame).collect()
        worst = judged["__kind"]
        found = dict(worst.value_counts().iter_rows())
        counts = {name: int(found.get(kind, 0)) for kind, name in enumerate(NAMES)}
        bad = judged.with_row_index("__row").filter(pl.col("__kind") > AGREE).head(self.most)
        until = None
        if self.written is not None and len(bad):
            latest = frame.lazy().select(self.written).collect().filter(worst > AGREE).to_series().max()
            until = int(latest) // 1_000 if isinstance(latest, int) else None
        return DriftReport(counts, tuple(_example(row) for row in bad.iter_rows(named=True)), until)

    def judged(self, frame: pl.DataFrame | pl.LazyFrame) -> pl.LazyFrame:
        """The leaves of every event, what the new shape says the old one should be, and the kind."""
        compared = [m for m in self.mappings if m.new]
        paths = [p for m in compared for p in (*m.old, *m.new, *_read(m))]
        lazy = flattened(frame, [*self.key, *paths], self.leaves)
        for mapping in compared:
            for path in mapping.old:
                lazy = with_value(lazy, f"expected {path}", mapping.backward[path])
        return lazy.with_columns(pl.max_horizontal(pl.lit(NEITHER), *(_kind(m) for m in compared)).alias("__kind"))


def _read(mapping: Mapping) -> list[str]:
    return [path for sql in mapping.backward.values() for path in sorted(paths_in(sql))]


def _kind(mapping: Mapping) -> pl.Expr:
    old = pl.any_horizontal(pl.col(list(mapping.old)).is_not_null())
    new = pl.any_horizontal(pl.col(list(mapping.new)).is_not_null())
    same = pl.all_horizontal(pl.col(path).eq_missing(pl.col(f"expected {path}")) for path in mapping.old)
    return (
        pl.when(~old & ~new)
        .then(NEITHER)
        .when(~new)
        .then(OLD_ONLY)
        .when(~old)
        .then(NEW_ONLY)
        .when(same)
        .then(AGREE)
        .otherwise(DIFFER)
    )


def _example(row: Map[str, Any]) -> dict[str, Any]:
    values = {name: _plain(value) for name, value in row.items() if not name.startswith("__")}
    return {"kind": NAMES[row["__kind"]], "row": row["__row"], **values}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
