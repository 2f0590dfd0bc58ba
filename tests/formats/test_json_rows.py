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
