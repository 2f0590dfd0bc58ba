"""The same change in a SQL table: add the columns, fill them, offer a view of the new shape, drop the old ones."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass

from eventide.migration.faults import PlanRefused, listed
from eventide.migration.plan.expression import for_table
from eventide.migration.plan.mapping import Mapping
from eventide.migration.plan.shape import Leaf
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase

_POSTGRES = {
    "int": "INTEGER", "long": "BIGINT", "float": "REAL", "double": "DOUBLE PRECISION", "string": "TEXT", "boolean": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP", "bytes": "BYTEA", "decimal": "NUMERIC",
}  # fmt: skip
_SQLITE = {
    "int": "INTEGER", "long": "INTEGER", "float": "REAL", "double": "REAL", "boolean": "INTEGER", "bytes": "BLOB", "decimal": "NUMERIC",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the new columns say that an old one holds: an expression, and the columns it stands for."""

    expected: str
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement: its name, the phase from which on it may run, and whether it can be repeated until nothing changes.

    `earliest` is the gate: the statement waits for the migration itself to have got that far. `against` is what a column
    is compared with before it goes; the statement waits until every row agrees.
    """

    name: str
    earliest: Phase
    statement: str
    repeats: bool = False
    against: Comparison | None = None


def column(path: str) -> str:
    """The column that a leaf has in a table: nested names joined by an underscore.

    >>> column("pricing.base")
    'pricing_base'
    """
    return path.replace(".", "_")


def steps(
    migration: Migration, table: str, columns: Sequence[str], leaves: Map[str, Leaf], dialect: str, *, batch: int = 10_000
) -> list[Step]:
    """Every statement in the order it has to run; `columns` are those that the table has now.

    Raises:
        PlanRefused: the table has not got the old columns, or the dialect is unknown.
    """
    if dialect not in ("sqlite", "postgresql"):
        raise PlanRefused(f"{dialect!r} is no dialect that tables can be changed in; take sqlite or postgresql.")
    plan = migration.plan
    old, new = [column(p) for p in plan.old], [column(p) for p in plan.new]
    lacking = [c for c in old if c not in columns and migration.phase is not Phase.CONTRACTED]
    if not columns:
        raise PlanRefused(f"There is no table {table} in this database.")
    if lacking:
        raise PlanRefused(f"The table {table} has no column {listed(lacking)}; it has {listed(list(columns), 20)}.")
    types = _SQLITE if dialect == "sqlite" else _POSTGRES
    name, suffix = quoted(table), table.rpartition(".")[2]
    made = [
        Step(f"add {c}", Phase.EXPAND, f"ALTER TABLE {name} ADD COLUMN {quoted(c)} {types.get(_type(leaves, p), 'TEXT')}")
        for p, c in zip(plan.new, new, strict=True)
    ]
    for mapping in plan.mappings:
        if mapping.new:
            made.append(Step(f"fill {column(mapping.new[0])}", Phase.EXPAND, _fill(mapping, name, dialect, batch), True))
    seen = [c for c in columns if c not in old and c not in new] + new
    view = quoted(f"{table.removesuffix(suffix)}v_{suffix}")
    made.append(Step("view", Phase.MIGRATE, f"CREATE VIEW {view} AS SELECT {', '.join(map(quoted, seen))} FROM {name}"))
    return [*made, *(_drop(name, m, p, dialect) for m in plan.mappings for p in m.old)]


def _drop(table: str, mapping: Mapping, path: str, dialect: str) -> Step:
    against = None
    if mapping.new:
        expected = for_table(mapping.backward[path], lambda each: quoted(column(each)), dialect)
        against = Comparison(expected, tuple(column(p) for p in mapping.new))
    old = column(path)
    return Step(f"drop {old}", Phase.CONTRACTED, f"ALTER TABLE {table} DROP COLUMN {quoted(old)}", against=against)


def quoted(name: str) -> str:
    """A name of a table or column, part by part, as both databases take it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _type(leaves: Map[str, Leaf], path: str) -> str:
    return leaves[path].type if path in leaves else "string"


def _fill(mapping: Mapping, table: str, dialect: str, batch: int) -> str:
    """Fill the new columns of at most so many rows that lack them; zero rows changed means that it is done."""
    spelled = {p: for_table(mapping.forward[p], lambda path: quoted(column(path)), dialect) for p in mapping.new}
    values = ", ".join(f"{quoted(column(p))} = {sql}" for p, sql in spelled.items())
    empty = " AND ".join(f"{quoted(column(p))} IS NULL" for p in mapping.new)
    # A row whose new shape comes out as null would be found again and again.
    possible = " OR ".join(f"({sql}) IS NOT NULL" for sql in spelled.values())
    row = "rowid" if dialect == "sqlite" else "ctid"
    which = f"SELECT {row} FROM {table} WHERE {empty} AND ({possible}) LIMIT {batch}"
    rows = f"IN ({which})" if dialect == "sqlite" else f"= ANY(ARRAY({which}))"
    return f"UPDATE {table} SET {values} WHERE {row} {rows}"
