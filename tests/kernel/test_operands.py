"""A condition or a column that could only ever be null is refused before the first row; whatever can be something is not."""

from __future__ import annotations

import polars as pl
import pytest

import eventide as ev
from eventide.errors import DefinitionError
from eventide.kernel.expression import columns
from eventide.kernel.operands import refuse_never, refuse_null
from eventide.model.expression import expression as read

KINDS = {
    "bank": pl.String(),
    "total": pl.Int64(),
    "price": pl.Decimal(38, 2),
    "share": pl.Float64(),
    "paid": pl.Boolean(),
    "at": pl.Datetime("us", "UTC"),
    "tags": pl.List(pl.String()),
}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("bank > 5", "compares String with Int64"),
        ("5 < bank", "compares Int64 with String"),
        ("bank = 5 OR total > 3", "compares String with Int64"),
        ("bank IN ('a', 7)", "compares String with Int64"),
        ("paid = 1", "compares Boolean with Int64"),
        ("at > '2026-01-01'", "compares Datetime"),
        ("bank + 1 > 5", "computes with String"),
        ("LENGTH(total) > 5", "computes with Int64"),
        ("LEAST(bank, total) = 'a'", "compares String with Int64"),
        ("NULLIF(bank, 7) = 'a'", "compares String with Int64"),
        ("bank", "neither true nor false"),
        ("NOT bank", "neither true nor false"),
        ("total > 1 AND tags", "neither true nor false"),
        ("CASE WHEN bank THEN 1 ELSE 0 END = 1", "neither true nor false"),
    ],
)
def test_a_condition_that_is_null_in_every_row_is_refused_and_says_which_types_meet(condition: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        refuse_never(read(condition), columns(KINDS), "where(…)")


@pytest.mark.parametrize(
    "condition",
    ["bank > '5'", "total > 2.5", "price >= total", "share = price", "paid", "total", "bank IS NULL", "NULL", "total > NULL", "1 = 1",
     "bank IN ('a', NULL)", "NULLIF(bank, 'x') = 'a'", "CASE WHEN paid THEN NULL ELSE 1 END = 1", "tags = tags", "LENGTH(bank) > 2"],
)  # fmt: skip
def test_what_some_row_could_answer_is_not_refused(condition: str) -> None:
    refuse_never(read(condition), columns(KINDS), "where(…)")
    refuse_null(read(condition), columns(KINDS), "select(…)")


@pytest.mark.parametrize("where", [lambda text: ev.when(text), lambda text: ev.count(where=text)])
def test_a_number_beyond_int64_is_refused_where_it_is_written(where: object) -> None:
    for text in ("n > 9223372036854775808", "n IN (1, 99999999999999999999)"):
        with pytest.raises(DefinitionError, match="leaves int64"):
            where(text)  # type: ignore[operator]
    where("n > -9223372036854775808 AND n < 9.3e18")  # type: ignore[operator]
