"""What a table would lose with a column: every value of it that the new columns do not say again."""

from __future__ import annotations

from eventide.migration.data.sql.database import Database
from eventide.migration.data.sql.steps import Comparison, quoted
from eventide.migration.faults import listed

_SHOWN = 5


def losses(database: Database, table: str, column: str, against: Comparison) -> str | None:
    """The values that would be lost, counted and the first of them shown; none if every row's new columns say the same.

    A null is no value: rows that were written in the new shape alone have one.
    """
    name, old = quoted(table), quoted(column)
    expected = database.as_column(table, column, against.expected)
    held, told = (database.exactly(table, column, value) for value in (old, expected))
    where = f"{old} IS NOT NULL AND {held} {database.differs} {told}"
    count = f"SELECT COUNT(*) FROM {name} WHERE {where}"
    lost = int(database.run(count)[0][0][0])
    if not lost:
        return None
    key = database.key(table)
    shown = ", ".join((*key.values(), old, expected))
    rows, _ = database.run(f"SELECT {shown} FROM {name} WHERE {where} ORDER BY {', '.join(key.values())} LIMIT {_SHOWN}")
    examples = [_example(list(key), list(row), column) for row in rows]
    more = f"; and {lost - len(rows):,} more" if lost > len(rows) else ""
    values = "1 value" if lost == 1 else f"{lost:,} values"
    return (
        f"would lose {values} of {table} that the new shape does not have: {'; '.join(examples)}{more}. {count} counts them. "
        f"Where the old value is right, write it into {listed(against.new)}; where the new ones are, set {column} to NULL"
    )


def _example(key: list[str], row: list[object], column: str) -> str:
    named = ", ".join(f"{name} {value}" for name, value in zip(key, row, strict=False))
    return f"{named}: {column} is {_shown(row[-2])}, and the new shape says {_shown(row[-1])}"


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value) if isinstance(value, int | float | str) else repr(str(value))
