"""SQL expressions evaluated by the standard library, so that the oracle can read what a user wrote for Spark."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def value(expression: str, row: Mapping[str, Any]) -> Any:
    """One expression over one row.

    >>> value("total > 100 AND n < 5", {"total": 120, "n": 3})
    1
    """
    return aggregate({"value": expression}, [row])["value"]


def aggregate(expressions: Mapping[str, str], rows: Sequence[Mapping[str, Any]], known: Iterable[str] = ()) -> dict[str, Any]:
    """Expressions over all rows, which may aggregate; `known` are columns that are there even where no row is.

    >>> aggregate({"t": "SUM(x * y)"}, [{"x": 2, "y": 3}, {"x": 1, "y": 4}])
    {'t': 10}
    >>> aggregate({"n": "COUNT(x)"}, [], known=["x"])
    {'n': 0}
    """
    columns = sorted({*known, *(name for row in rows for name in row)})
    select = ", ".join(f"({_dividing(text)}) AS {_quoted(name)}" for name, text in expressions.items())
    with sqlite3.connect(":memory:") as base:
        if columns:
            base.execute(f"CREATE TABLE rows ({', '.join(map(_quoted, columns))})")
            marks = ", ".join("?" for _ in columns)
            base.executemany(f"INSERT INTO rows VALUES ({marks})", [[_plain(row.get(c)) for c in columns] for row in rows])  # noqa: S608
        answer = base.execute(f"SELECT {select}" + (" FROM rows" if columns else "")).fetchone()  # noqa: S608
    base.close()
    return dict(zip(expressions, answer, strict=True)) if answer else dict.fromkeys(expressions)


def _dividing(text: str) -> str:
    """The same expression, dividing whole numbers as Spark does; SQLite would cut off what is behind the point."""
    return re.sub(r"('(?:[^']|'')*'|\"[^\"]*\")|/", lambda found: found[1] or "* 1.0 /", text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, int | float | str | bytes) else str(cell)
