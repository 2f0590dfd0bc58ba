"""SQL expressions of a mapping: which paths they read, and how each engine is told them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache

from eventide.migration.faults import PlanRefused, listed

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)
      | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<space>\s+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset(
    {
        *("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "IN", "BETWEEN"),
        *("LIKE", "CAST", "TRY_CAST", "DISTINCT", "FROM", "INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE"),
        *("FLOAT", "REAL", "STRING", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", "INTERVAL"),
    }
)
_CAST = re.compile(r"\bCAST\s*\(", re.IGNORECASE)


def paths_in(sql: str) -> set[str]:
    """The dotted paths that an expression reads.

    >>> sorted(paths_in("CAST(pricing.base AS BIGINT) + COALESCE(tax, 0) -- 'base'"))
    ['pricing.base', 'tax']
    """
    found = set()
    tokens = [m for m in _TOKEN.finditer(sql.split("--")[0]) if m.lastgroup != "space"]
    for i, token in enumerate(tokens):
        if token.lastgroup == "quoted":
            found.add(token.group()[1:-1])
        if token.lastgroup != "name" or token.group().upper() in _WORDS:
            continue
        called = i + 1 < len(tokens) and tokens[i + 1].group() == "("
        if not called:
            found.add(token.group())
    return found


def with_paths(sql: str, spell: Callable[[str], str]) -> str:
    """The expression with every path spelled another way."""
    known = paths_in(sql)
    out = []
    for token in _TOKEN.finditer(sql):
        word = token.group()
        bare = word[1:-1] if token.lastgroup == "quoted" else word
        out.append(spell(bare) if token.lastgroup in ("name", "quoted") and bare in known else word)
    return "".join(out)


def forgiving(sql: str) -> str:
    """The expression with casts that give null rather than an error.

    >>> forgiving("CAST(x AS DATE) = TRY_CAST(y AS DATE)")
    'TRY_CAST(x AS DATE) = TRY_CAST(y AS DATE)'
    """
    return _CAST.sub("TRY_CAST(", sql)


def refuse_unless_valid(target: str, sql: str, allowed: Collection[str]) -> None:
    """Raise unless the expression can be parsed and reads only paths that are there.

    Raises:
        PlanRefused: what is wrong with it.
    """
    _parse(target, sql)
    unknown = sorted(path for path in paths_in(sql) if path not in allowed)
    if unknown:
        raise PlanRefused(
            f"The expression for {target} reads {listed(unknown)}, which is not among {listed(sorted(allowed), 20)}."
        )


@lru_cache(maxsize=1024)
def _parse(target: str, sql: str) -> None:
    import polars as pl
    from polars.exceptions import PolarsError

    if ";" in sql or "--" in sql:
        raise PlanRefused(f"The expression for {target} is {sql!r}; give one expression without comments or semicolons.")
    try:
        pl.sql_expr(sql)
    except PolarsError as error:
        raise PlanRefused(f"The expression for {target} is {sql!r}, which is no SQL expression: {error}") from None


def for_table(sql: str, column: Callable[[str], str], dialect: str) -> str:
    """The expression as a database says it: nested paths as columns, types by its own names."""
    text = with_paths(sql, column)
    text = re.sub(r"\bTRY_CAST\s*\(", "CAST(", text, flags=re.IGNORECASE)
    text = re.sub(r"\bSTRING\b", "TEXT", text, flags=re.IGNORECASE)
    if dialect == "postgresql":
        return re.sub(r"\bDOUBLE\b(?!\s+PRECISION)", "DOUBLE PRECISION", text, flags=re.IGNORECASE)
    # SQLite has neither dates nor timestamps: both are text, and a cast to them would make a number of it.
    text = re.sub(r"\bCAST\(\s*([^()]+?)\s+AS\s+DATE\s*\)", r"date(\1)", text, flags=re.IGNORECASE)
    return re.sub(r"\bCAST\(\s*([^()]+?)\s+AS\s+TIMESTAMP\s*\)", r"datetime(\1)", text, flags=re.IGNORECASE)
