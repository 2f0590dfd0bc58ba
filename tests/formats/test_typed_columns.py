"""Columns of typed files in the types that were declared: each value equal, or its row a dead letter; its neighbours are as if alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide.engine.arrow_types import small_schema
from eventide.engine.feeds.arrow_rows import rows_of
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_chunks import chunks_of
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_times import ISO
from eventide.engine.feeds.typed_columns import in_kind
from eventide.kernel.columns import DEAD, RAW
from eventide.model.watermark import Ascending

D = Decimal


@pytest.mark.parametrize(
    ("values", "given", "kind", "wanted"),
    [
        ([1, 10**8, 1 - 10**8, None], pl.Int64(), pl.Decimal(10, 2), [D("1.00"), None, D("-99999999.00"), None]),
        ([2**64 - 1], pl.UInt64(), pl.Decimal(38, 2), [D("18446744073709551615.00")]),
        ([10**7, 10**8], pl.Int64(), pl.Decimal(38, 30), [D(10**7), None]),
        ([[1, None], [10**9]], pl.List(pl.Int64()), pl.List(pl.Decimal(10, 2)), [[D("1.00"), None], None]),
        ([D("1.00"), D("1.50"), D("1e20")], pl.Decimal(38, 2), pl.Int64(), [1, None, None]),
        ([D("1.00"), D("-1.00")], pl.Decimal(38, 2), pl.UInt8(), [1, None]),
        ([[1, 2**40], [], None, [None]], pl.List(pl.Int64()), pl.List(pl.Int32()), [None, [], None, [None]]),
        ([[None], None], pl.List(pl.Null()), pl.List(pl.Int64()), [[None], None]),
        (
            [{"b": 1, "a": 2, "more": 3}, None], pl.Struct({"b": pl.Int64(), "a": pl.Int64(), "more": pl.Int64()}),
            pl.Struct({"a": pl.Int32(), "b": pl.Int64(), "none": pl.String()}), [{"a": 2, "b": 1, "none": None}, None],
        ),
        ([{"a": 1}, {"a": 2**40}, None], pl.Map(pl.String(), pl.Int64()), pl.Map(pl.String(), pl.Int32()), [{"a": 1}, None, None]),
        ([[1, 2]], pl.Array(pl.Int64(), 2), pl.List(pl.Int64()), [[1, 2]]),
    ],
)  # fmt: skip
def test_equal_values_are_kept_and_others_are_named(
    values: list[Any], given: pl.DataType, kind: pl.DataType, wanted: list[Any]
) -> None:
    made = in_kind(pl.Series(values, dtype=given), kind, ISO)
    assert (made.dtype, made.to_list()) == (kind, wanted)


@pytest.mark.parametrize(
    ("kind", "most"), [(pl.UInt8(), 2**8 - 1), (pl.UInt16(), 2**16 - 1), (pl.UInt32(), 2**32 - 1), (pl.UInt64(), 2**64 - 1)]
)
def test_numbers_without_a_sign_reach_the_sinks_as_the_numbers_that_they_are(kind: pl.DataType, most: int) -> None:
    """PostgreSQL was handed their bytes for a text."""
    table = pl.DataFrame({"n": pl.Series([most, 0, None], dtype=kind)}).to_arrow()
    schema = small_schema(table.schema)
    assert not pa.types.is_unsigned_integer(schema.field("n").type)
    assert [None if n is None else int(n) for n in table.cast(schema)["n"].to_pylist()] == [most, 0, None]


def texts(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary()).view(pa.string())


BROKEN = {
    "text": texts(b"a", b"\xff", None),
    "codes": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), texts(b"a", b"\xff")),
    "list": pa.ListArray.from_arrays([0, 1, 2, 3], texts(b"a", b"\xff", b"c")),
    "struct": pa.StructArray.from_arrays([texts(b"a", b"\xff", None)], ["x"]),
    "map": pa.MapArray.from_arrays([0, 1, 2, 2], texts(b"a", b"\xff"), pa.array([1, 2])),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_text_that_is_none_is_one_dead_letter(name: str) -> None:
    """Parquet calls bytes a text because somebody said so."""
    rows = rows_of(pa.table({"c": BROKEN[name], "n": [1, 2, 3]}))
    assert rows["c"].is_null().to_list()[:2] == [False, True] and rows["n"].to_list() == [1, 2, 3]
    assert [None if reason is None else "UTF8" in reason for reason in rows[DEAD]] == [None, True, None]
    assert b"/w==" in rows[RAW][1]


def test_a_broken_text_in_a_file_is_one_dead_letter_of_the_run(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1, 2, 3], "c": BROKEN["text"]}), tmp_path / "1.parquet")
    for coded in (frozenset[str](), frozenset({"c"})):
        reading = Reading(0, "s", {"at": pl.Int64(), "c": pl.String()}, "at", Ascending(), coded=coded)
        rows = pl.concat(chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0))
        assert rows["c"].cast(pl.String).to_list() == ["a", None, None]
        assert rows[DEAD].is_not_null().to_list() == [False, True, False]
