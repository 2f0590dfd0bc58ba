"""What an expression computes with, held against the types of its columns: one that could never be anything but null is refused.

An expression never stops a pipeline once rows flow: what cannot be computed is null. A comparison of a text with a number is that in every row, so
that it says nothing about the rows and all about who wrote it (Spark would make a number of the text, or stop at the first that is none).
"""

from __future__ import annotations

from typing import NoReturn

import polars as pl

from eventide.errors import DefinitionError
from eventide.kernel.expression import Values, comparable, compiled
from eventide.model.expression import Call, Node
from eventide.model.operator import VALUES

COMPARING = frozenset({"=", "<>", "<", "<=", ">", ">=", "IN", "NULLIF", "LEAST", "GREATEST"})
OF_TEXTS = frozenset({"LOWER", "UPPER", "LENGTH"})
ASKING = frozenset({"AND", "OR", "NOT"})


def refuse_never(condition: Node, known: Values, what: str) -> None:
    """Refuse a condition that can be true or false for no row.

    >>> from eventide.kernel.expression import columns
    >>> from eventide.model.expression import expression
    >>> refuse_never(expression("bank > 5"), columns({"bank": pl.String()}), "where(…)")
    Traceback (most recent call last):
        ...
    eventide.errors.DefinitionError: where(…): ("bank" > 5) compares String with Int64, which is null in every row. Compare like with like; a transform or a map can make another type of a column.
    """
    refuse_null(condition, known, what)
    _asked(condition, known, what)


def refuse_null(node: Node, known: Values, what: str) -> None:
    """Refuse an expression of which a part is null in every row, though none of its values is."""
    if not isinstance(node, Call):
        return
    for argument in node.arguments:
        refuse_null(argument, known, what)
    kinds = [compiled(argument, known).kind for argument in node.arguments]
    if node.operator in COMPARING:
        other = next((kind for kind in kinds[1:] if not comparable(kinds[0], kind)), None)
        if other is not None:
            _refuse(what, f"{node} compares {kinds[0]} with {other}, which is null in every row. Compare like with like")
    elif node.operator in VALUES:
        wanted = "texts" if node.operator in OF_TEXTS else "numbers"
        wrong = next((kind for kind in kinds if not _is(wanted, kind)), None)
        if wrong is not None:
            _refuse(what, f"{node} computes with {wrong}, which is null in every row. It takes {wanted}")
    elif node.operator in ASKING or node.operator == "CASE":
        for part in node.arguments[:-1:2] if node.operator == "CASE" else node.arguments:
            _asked(part, known, what)


def _asked(node: Node, known: Values, what: str) -> None:
    kind = compiled(node, known).kind
    if not (_is("numbers", kind) or kind == pl.Boolean()):
        _refuse(what, f"{node} is {kind}, and neither true nor false in any row. Write a comparison")


def _is(wanted: str, kind: pl.DataType) -> bool:
    return kind == pl.Null() or (kind == pl.String() if wanted == "texts" else kind.is_numeric())


def _refuse(what: str, why: str) -> NoReturn:
    raise DefinitionError(f"{what}: {why}; a transform or a map can make another type of a column.")
