"""An expression over a frame gives, row by row, what the model's evaluation of it gives."""

from __future__ import annotations

import math
import os
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventide.errors import DefinitionError
from eventide.kernel import expression as kernel
from eventide.kernel.columns import END
from eventide.kernel.view import shown
from eventide.model.expression import Call, Column, Literal, Node, col, evaluate, expression, lit
from eventide.model.expression import holds as holds_by_the_model
from eventide.model.view import View

EXAMPLES = settings(
    max_examples=int(os.environ.get("EVENTIDE_EXAMPLES", "300")), deadline=None, suppress_health_check=list(HealthCheck)
)
INTS = [None, 0, 1, -1, 3, 7]
FLOATS = [None, 0.0, -0.0, 1.0, 2.5, -7.25, math.nan, math.inf, -math.inf]
DECIMALS = [None, Decimal("0.00"), Decimal("0.25"), Decimal("-7.50"), Decimal("1.00")]
TEXTS = [None, "", "it's", "A", "ä", "straße", "ZÜRICH", "10", "\U0001f600"]
WILD_INTS = [*INTS, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**62]
WILD_FLOATS = [*FLOATS, 2.0**53, 2.0**63, -(2.0**63), 1e308, 9007199254740992.5, 0.1]
WILD_DECIMALS = [*DECIMALS, Decimal(10**8), Decimal("0.10")]
"""Where a float is not the number that it stands for, no column of both whole numbers and floats is asked for."""


ZONELESS = [None, *(datetime.fromtimestamp(at, UTC).replace(tzinfo=None) for at in (1_767_225_600, -20_000_000))]


def pools(wild: bool) -> dict[str, tuple[pl.DataType, list[Any]]]:
    ints, floats, decimals = (WILD_INTS, WILD_FLOATS, WILD_DECIMALS) if wild else (INTS, FLOATS, DECIMALS)
    return {
        "i": (pl.Int64(), ints), "j": (pl.Int64(), ints), "small": (pl.Int16(), [None, 0, -3, 32767]), "f": (pl.Float64(), floats),
        "g": (pl.Float64(), floats), "d": (pl.Decimal(38, 2), decimals), "e": (pl.Decimal(30, 4), [None, Decimal("0.2500"), Decimal("-1.5000")]),
        "t": (pl.String(), TEXTS), "u": (pl.String(), TEXTS), "b": (pl.Boolean(), [None, True, False]), "z": (pl.Null(), [None]),
        "when": (pl.Datetime("us"), ZONELESS), "day": (pl.Date(), [None, date(2026, 1, 1)]),
    }  # fmt: skip


KIND = {"i": "n", "j": "n", "small": "n", "f": "n", "g": "n", "d": "n", "e": "n", "t": "t", "u": "t", "b": "b"}
LITERALS: dict[str, list[Any]] = {
    "n": [0, 1, -1, 7, 2.5, Decimal("0.25"), None],
    "t": ["", "A", "ZÜRICH", None],
    "b": [True, False, None],
}


def a_value(rng: random.Random, kind: str, depth: int, wild: bool) -> Node:
    """An expression of a kind: number, text or truth; any argument of an operator may be of any kind where it gives null then."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.3:
            return Literal(rng.choice(LITERALS[kind]))
        return Column(rng.choice([name for name, of in KIND.items() if of == kind]))
    deep = depth - 1
    some = lambda: a_value(rng, rng.choice("nntb"), deep, wild)  # noqa: E731
    same = lambda: a_value(rng, kind, deep, wild)  # noqa: E731
    number = lambda: a_value(rng, "n", deep, wild) if rng.random() < 0.95 else some()  # noqa: E731
    ways: list[Any] = [lambda: Call("NULLIF", (same(), some()))]
    if kind != "n" or not wild:
        ways += [
            lambda: Call("CASE", (some(), same(), some(), same(), same())),
            lambda: Call("COALESCE", (same(), same())),
            lambda: Call("LEAST", (same(), same(), same())),
            lambda: Call("GREATEST", (same(), same())),
        ]
    if kind == "n":
        ways += [lambda: Call(rng.choice("+-*/%"), (number(), number()))] * 4
        ways += [lambda: Call(rng.choice(["ABS", "FLOOR", "CEIL"]), (number(),)), lambda: Call("LENGTH", (some(),))]
    if kind == "t":
        ways += [lambda: Call(rng.choice(["LOWER", "UPPER"]), (some(),))]
    if kind == "b":

        def pair() -> Any:
            texts = (a_value(rng, "t", deep, wild), a_value(rng, "t", deep, wild))
            return rng.choice([(number(), number()), texts, (some(), some())])

        ways += [lambda: Call(rng.choice(["=", "<>", "<", "<=", ">", ">="]), pair())] * 4
        ways += [lambda: Call(rng.choice(["AND", "OR"]), (some(), some())), lambda: Call("NOT", (some(),))]
        ways += [lambda: Call("IS NULL", (some(),)), lambda: Call("IN", (number(), number(), number()))]
        ways += [lambda: Call(rng.choice(["=", "<", ">="]), (Column("when"), Column(rng.choice(["when", "day", "t"]))))]
    node: Node = rng.choice(ways)()
    return node


def same(mine: Any, theirs: Any) -> bool:
    """Equal, null for null; a float may stand for a whole number or a decimal that it is the nearest to."""
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, float) and not isinstance(theirs, bool | str):
        theirs = float(theirs)
        return mine == theirs or math.isclose(mine, theirs, rel_tol=1e-12) or (math.isnan(mine) and math.isnan(theirs))
    return bool(mine == theirs) and isinstance(mine, bool) == isinstance(theirs, bool)


def agrees(seed: int) -> None:
    rng = random.Random(seed)
    wild = rng.random() < 0.5
    node = a_value(rng, rng.choice("ntbb"), rng.choice([1, 2, 2, 3]), wild)
    rows = [{name: rng.choice(pool) for name, (_, pool) in pools(wild).items()} for _ in range(12)]
    frame = pl.DataFrame(rows, schema={name: kind for name, (kind, _) in pools(wild).items()})
    made = kernel.compiled(node, kernel.columns(frame.schema))
    done = frame.with_columns(made.value.alias("answer"), kernel.condition(node, kernel.columns(frame.schema)).alias("holds"))
    assert done.schema["answer"] == made.kind, (str(node), done.schema["answer"], made.kind)
    for row, answer, held in zip(rows, done["answer"].to_list(), done["holds"].to_list(), strict=True):
        meant = evaluate(node, row)
        assert same(answer, meant), (str(node), row, answer, meant)
        assert held is holds_by_the_model(node, row), (str(node), row, held)


@EXAMPLES
@given(st.integers(0, 2**32))
def test_any_expression_over_a_frame_is_what_it_means_row_by_row(seed: int) -> None:
    agrees(seed)


NAN = float("nan")
ROW = {"a": 5, "z": None, "t": "it's", "nan": NAN, "big": 2**63 - 1, "dec": Decimal("0.25"), "zero": 0, "inf": math.inf}
FRAME = pl.DataFrame([ROW], schema={"a": pl.Int64(), "z": pl.Int64(), "t": pl.String(), "nan": pl.Float64(), "big": pl.Int64(), "dec": pl.Decimal(18, 2), "zero": pl.Int64(), "inf": pl.Float64()})  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "a + 2 * a - 4", "-a % 3", "a / 2", "a / zero", "a % zero", "a / (zero * 1.0)", "z = z", "z > 1 OR TRUE", "z > 1 AND FALSE", "NOT z", "a IN (1, z)",
        "t > 3", "t + 1", "t = a", "nan = nan", "nan > 1e308", "nan < inf", "CASE WHEN z THEN 1 WHEN a > 4 THEN 2 END", "COALESCE(z, a)", "NULLIF(a, 5)",
        "LEAST(a, z, 2)", "GREATEST(a, nan)", "LEAST(nan, inf)", "LEAST(z, z)", "ABS(-a)", "ABS(-big - 1)", "FLOOR(dec)", "CEIL(dec)", "FLOOR(nan)", "CEIL(inf)",
        "UPPER(t)", "LENGTH(t)", "LENGTH(a)", "big + 1", "big * big", "-big - 1", "-big - 2", "big * 1.0 > big", "dec * 2 = 0.5", "dec / dec", "dec % 0.1", "inf - inf",
        "inf % 3", "a % inf", "a % nan", "big = 9223372036854775808.0", "zero", "TRUE", "a", "dec + 1", "NOT dec", "t AND TRUE",
    ],
)  # fmt: skip
def test_what_expressions_mean_at_the_edges(text: str) -> None:
    node = expression(text)
    made = kernel.compiled(node, kernel.columns(FRAME.schema))
    answer = FRAME.with_columns(made.value.alias("answer"))["answer"].item()
    assert same(answer, evaluate(node, ROW)), (answer, evaluate(node, ROW))
    assert kernel.holds(text, FRAME).to_list() == [holds_by_the_model(node, ROW)]


def test_a_whole_number_and_a_float_that_cannot_say_it_are_not_the_same() -> None:
    frame = pl.DataFrame({"whole": [2**53 + 1], "real": [2.0**53]})
    assert kernel.holds("whole > real AND whole <> real AND NOT real >= whole", frame).to_list() == [True]


def test_instants_are_compared_as_instants_and_never_with_words() -> None:
    frame = pl.DataFrame({"at": [datetime(2026, 1, 1, tzinfo=UTC)], "t": ["2026-01-01"]})
    assert kernel.holds((col("at") > lit(datetime(2025, 1, 1, tzinfo=UTC))).node, frame).to_list() == [True]
    assert kernel.holds((~(col("at") == col("t"))).node, frame).to_list() == [False]


def test_a_column_of_texts_and_numbers_is_refused_before_the_first_row() -> None:
    with pytest.raises(DefinitionError, match="CASE gives String in one case and Int64 in another, and a column has one type"):
        kernel.compiled(expression("CASE WHEN a > 1 THEN t ELSE a END"), kernel.columns(FRAME.schema))
    with pytest.raises(DefinitionError, match=r"leaves int64\. Write it as a float, 1e\+30"):
        kernel.compiled(expression(f"a < {10**30}"), kernel.columns(FRAME.schema))


def test_a_quotient_is_the_nearest_float_also_by_a_single_value() -> None:
    frame = pl.DataFrame({"a": list(range(1, 2_000))})
    for by in (1000, 7, 3.3):
        value = kernel.compiled(expression(f"a / {by}"), kernel.columns(frame.schema)).value
        assert frame.select(value.alias("x"))["x"].to_list() == [a / by for a in range(1, 2_000)]


def test_whole_numbers_beyond_int64_are_compared_as_the_numbers_that_they_are() -> None:
    """Files may have unsigned columns: what int64 cannot hold stopped the run."""
    rows = [{"u": 2**64 - 1, "i": 2**63 - 1, "f": 2.0**63}, {"u": 5, "i": 5, "f": 5.5}, {"u": None, "i": 1, "f": 1.0}]
    frame = pl.DataFrame(rows, schema={"u": pl.UInt64(), "i": pl.Int64(), "f": pl.Float64()})
    for text in ("u > i", "u = i", "u > f", "u >= 5", "u = u", "u < 1.5", "u IN (5, i)", "LEAST(u, u) > 7"):
        node = expression(text)
        assert kernel.holds(text, frame).to_list() == [holds_by_the_model(node, row) for row in rows], text


def test_a_decimal_with_more_digits_after_its_point_than_a_column_can_have_is_null() -> None:
    schema = {"a": pl.Decimal(38, 20), "b": pl.Decimal(38, 30)}
    frame = pl.DataFrame({"a": [Decimal("1e-20"), Decimal("2")], "b": [Decimal("1e-30"), Decimal("0.25")]}, schema=schema)
    made = kernel.compiled(expression("a * b"), kernel.columns(frame.schema))
    assert frame.select(made.value.alias("x"))["x"].to_list() == [None, Decimal("0.5")]


def test_zeros_behind_the_last_digit_of_a_decimal_say_nothing() -> None:
    """Zero times zero has forty digits behind its point here, and so has 1.5 squared: Polars ended the run over them."""
    frame = pl.DataFrame({"a": [Decimal(0), Decimal("1.5"), Decimal("1e-20"), None]}, schema={"a": pl.Decimal(38, 20)})
    made = frame.select(kernel.compiled(expression("a * a"), kernel.columns(frame.schema)).value.alias("made"))["made"]
    assert made.to_list() == [Decimal(0), None, None, None]


@pytest.mark.parametrize(
    "text", ["COALESCE({}, {})", "GREATEST({}, {})", "LEAST({}, {})", "CASE WHEN {} IS NOT NULL THEN {} END"]
)
def test_what_has_no_room_in_one_column_is_null_and_never_another_value(text: str) -> None:
    """The next of several was taken for it: `COALESCE(total, rest)` gave the rest where the total was too large."""
    schema = {"u": pl.UInt64(), "i": pl.Int64(), "w": pl.Decimal(38, 0), "d": pl.Decimal(38, 20)}
    rows = [
        {"u": 2**64 - 1, "i": 2**63 - 1, "w": Decimal(10**37), "d": Decimal("-0.5")},
        {"u": 1, "i": 2, "w": Decimal(3), "d": Decimal(4)},
        {"d": Decimal(5)},
    ]
    frame = pl.DataFrame(rows, schema=schema)
    for one, other in (("u", "i"), ("i", "u"), ("i", "d"), ("d", "i"), ("w", "d"), ("d", "w")):
        node = expression(text.format(one, other))
        made = frame.select(kernel.compiled(node, kernel.columns(schema)).value.alias("made"))["made"].to_list()
        exact = [evaluate(node, row) for row in frame.to_dicts()]
        assert all(m == e or (m is None and nth == 0) for nth, (m, e) in enumerate(zip(made, exact, strict=True))), (
            one,
            other,
            made,
        )


def test_a_view_shows_one_zero() -> None:
    """As results without a view do: what equals it stands there as it is."""
    view = View().select(turned="f * -1")
    frame = pl.DataFrame({"f": [0.0, 2.0], END: [10, 20]})
    turned = shown(view, [], ["f"], frame.schema, pl.col(END) - 10).of(frame, ["f"])["turned"]
    assert [str(value) for value in turned.to_list()] == ["0.0", "-2.0"]
