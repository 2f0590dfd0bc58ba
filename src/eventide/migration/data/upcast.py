"""Reading either shape as one: the new field from the first day, or the old one to the last."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from eventide.migration.data.rule_chain import RuleChain
from eventide.migration.plan.expression import paths_in
from eventide.migration.plan.mapping import Mapping
from eventide.migration.plan.plan import Plan
from eventide.migration.plan.shape import Leaf
from eventide.migration.rollout.migration import Migration

Side = Literal["new", "old"]
T = TypeVar("T")


@dataclass(frozen=True)
class Upcast:
    """A change of frames or records that gives one shape whichever they have; where they have both, their own value stands.

    It can be sent to workers: `source.map(Upcast.of(migration))`.

    Attributes:
        mappings: what changes.
        to: the shape to give.
        leaves: the types of both shapes, so that a computed column has the type that a read one would have.
        keep: leave the other shape in the frame as well.
    """

    mappings: tuple[Mapping, ...]
    to: Side = "new"
    leaves: Map[str, Leaf] = field(default_factory=dict)
    keep: bool = False

    @classmethod
    def of(cls, migration: Migration | Plan | Mapping, to: Side = "new", *, keep: bool = False) -> Upcast:
        """The adapter of a migration, a plan or a single mapping."""
        if isinstance(migration, Mapping):
            return cls((migration,), to, keep=keep)
        plan = migration.plan if isinstance(migration, Migration) else migration
        return cls(tuple(m for m in plan.mappings if m.new), to, plan.leaves, keep)

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that it may read."""
        said = [p for m in self.mappings for sql in self.sides(m)[1].values() for p in paths_in(sql)]
        return frozenset(p.partition(".")[0] for p in (*said, *(p for m in self.mappings for p in (*m.old, *m.new))))

    def __call__(self, frame: T) -> T:
        """The same rows in one shape: a Polars frame, a Spark DataFrame, a record or a list of records."""
        import polars as pl

        from eventide.migration.data.upcast_polars import polars_upcast

        if isinstance(frame, pl.DataFrame | pl.LazyFrame):
            return polars_upcast(self, frame)
        if isinstance(frame, dict):
            return self([frame])[0]
        if isinstance(frame, list):
            return _records(self, frame)  # type: ignore[return-value]
        from eventide.migration.data.upcast_spark import spark_upcast

        return spark_upcast(self, frame)

    def sides(self, mapping: Mapping) -> tuple[tuple[str, ...], Map[str, str], tuple[str, ...]]:
        """The leaves to give, the expression of each, and the leaves that go."""
        if self.to == "new":
            return mapping.new, mapping.forward, mapping.old
        return mapping.old, mapping.backward, mapping.new


def upcast(frame: T, migration: Migration | Plan | Mapping | RuleChain, to: Side = "new", *, keep: bool = False) -> T:
    """Rows or records of either shape in one of them; or of one version of a subject in another, by the subject's own rules.

    >>> from eventide.migration.plan.mapping import Change
    >>> m = Mapping(Change.NEST, ("fare",), ("price.base", "price.tax"),
    ...             {"price.base": "fare", "price.tax": "0"}, {"fare": "price.base + price.tax"})
    >>> upcast([{"id": 1, "fare": 900}, {"id": 2, "price": {"base": 700, "tax": 70}}], m)
    [{'id': 1, 'price': {'base': 900, 'tax': 0}}, {'id': 2, 'price': {'base': 700, 'tax': 70}}]
    >>> upcast({"id": 2, "price": {"base": 700, "tax": 70}}, m, to="old")
    {'id': 2, 'fare': 770}
    """
    if to not in ("new", "old"):
        raise ValueError(f'upcast(to={to!r}): it must be "new" or "old".')
    if isinstance(migration, RuleChain):
        if to != "new" or keep:
            raise ValueError("upcast(rules): the rules lead to one version; ask for those of another, without to= and keep=.")
        return migration(frame)
    return Upcast.of(migration, to, keep=keep)(frame)


def _records(how: Upcast, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import polars as pl

    if not records:
        return []
    needed = [{name: record.get(name) for name in how.columns} for record in records]
    frame = pl.DataFrame(needed, infer_schema_length=None, strict=False)
    changed = how(frame).to_dicts()
    own = {p.partition(".")[0] for m in how.mappings for p in (*m.old, *m.new)}
    rest = [{k: v for k, v in record.items() if k not in own} for record in records]
    return [{**one, **{k: v for k, v in other.items() if k in own}} for one, other in zip(rest, changed, strict=True)]
