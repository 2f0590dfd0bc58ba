"""JSON into columns: each record is one row under its own place, or a dead letter with a reason; its neighbours are as if alone."""

from __future__ import annotations

import polars as pl
import pytest

from eventide.engine.feeds.json_records import decode_json
from eventide.kernel.columns import DEAD

KINDS = {"n": pl.Int64(), "t": pl.String()}
GOOD = [b'{"n": 1, "t": "a"}', b' {"n": 2}', b'{"t": null, "n": 3, "more": [1]}', b'{"n":\n 4}', b"{}"]
VALUES = [(1, "a"), (2, None), (3, None), (4, None), (None, None)]
BAD = {
    b"{oops": "not JSON",
    b"": "not JSON",
    b"[1]": "not a JSON object",
    b"5": "not a JSON object",
    b"null": "not a JSON object",
    b'"x"': "not a JSON object",
    b'{"n": 1}\n{"n": 2}': "not JSON",
    b"\xff{": "not JSON",
    b'{"n": "x"}': "another schema",
}


def test_every_good_record_is_its_row() -> None:
    found = decode_json(pl.Series(GOOD), KINDS)
    assert list(found.select("n", "t").iter_rows()) == VALUES and found[DEAD].to_list() == [None] * len(GOOD)


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_bad_record_is_named_and_its_neighbours_are_as_if_alone(bad: bytes, place: int) -> None:
    found = decode_json(pl.Series([*GOOD[:place], bad, *GOOD[place:]]), KINDS)
    assert list(found.select("n", "t").iter_rows()) == [*VALUES[:place], (None, None), *VALUES[place:]]
    reasons = found[DEAD].to_list()
    assert reasons[place].startswith(BAD[bad]) and reasons[:place] + reasons[place + 1 :] == [None] * len(GOOD)


def test_a_record_that_is_null_says_so() -> None:
    assert decode_json(pl.Series([None, GOOD[0]], dtype=pl.Binary), KINDS)[DEAD].to_list() == ["the value is null", None]


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        (pl.List(pl.Float64()), "[1e999]", "[1.5]"),
        (pl.Struct({"x": pl.List(pl.Float64())}), '{"x":[-1e400]}', '{"x":[1]}'),
        (pl.List(pl.Date()), '["0000-01-01"]', '["0001-01-01"]'),
        (pl.Struct({"x": pl.Datetime("us", "UTC")}), '{"x":"0000-12-31T00:00:00Z"}', '{"x":"9999-12-31T00:00:00Z"}'),
        (pl.Datetime("us", "UTC"), '"\\ud800"', '"2026-01-01T00:00:00Z"'),
    ],
)
def test_what_no_column_holds_is_named_at_any_depth(kind: pl.DataType, bad: str, good: str) -> None:
    records = [f'{{"c": {value}}}'.encode() for value in (good, bad, good)]
    for rows in (records, records * 30, records[1:2]):
        found = decode_json(pl.Series(rows), {"c": kind})
        assert [reason is not None for reason in found[DEAD]] == [row == records[1] for row in rows]
