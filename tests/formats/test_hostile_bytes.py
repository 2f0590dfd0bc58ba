"""Values and files at which a reader would stumble, fall, or read something else than was written."""

from __future__ import annotations

from pathlib import Path

import fastavro
import polars as pl
import pyarrow.fs as pafs
import pytest

from eventide.engine.feeds import file_formats
from eventide.engine.feeds.csv_records import Record, decode_csv
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_chunks import frames_of
from eventide.engine.feeds.file_faults import UnreadableFile
from eventide.engine.feeds.json_records import decode_json
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_columns import from_texts
from eventide.engine.feeds.text_times import Times
from eventide.engine.feeds.typed_columns import in_kind
from eventide.kernel.columns import DEAD
from eventide.model.watermark import Ascending

TEXTS = {"p": pl.String(), "q": pl.String()}


@pytest.mark.parametrize("number", ["1e-99999999", "1E+99999999", "-7e-0099999"])
def test_a_number_with_an_absurd_exponent_is_one_dead_letter_and_not_the_end_of_the_worker(number: str) -> None:
    kinds = {"x": pl.Decimal(10, 2)}
    found = decode_json(pl.Series([b'{"x": 1.50}', b'{"x": %s}' % number.encode(), b'{"x": 2}']), kinds)
    assert [value is None for value in found["x"]] == [False, True, False] and found[DEAD][1] is not None
    column, wrong = from_texts(pl.Series(["1.5", number]), pl.Decimal(10, 2), Times())
    assert column[0] is not None and column[1] is None and list(wrong) == [1]


def test_a_number_beyond_the_largest_is_no_infinity() -> None:
    found = decode_json(pl.Series([b'{"x": 1.7976931348623159e308}', b'{"x": 1}']), {"x": pl.Float64()})
    assert found["x"].to_list() == [None, 1.0] and found[DEAD][0] is not None


@pytest.mark.parametrize("after", [[], [(b"x,y", None)]])
def test_an_empty_last_cell_is_null_wherever_its_record_stands(after: list[Record]) -> None:
    found = decode_csv([(b'"x",', None), *after], ["p", "q"], TEXTS, Times())
    assert found.row(0)[:2] == ("x", None)


def csv_rows(path: Path, body: bytes) -> list[tuple[str | None, str | None, str | None]]:
    path.write_bytes(body)
    file = LandedFile(str(path), 0, "0", len(body))
    return [row[:3] for frame in frames_of(file, "csv", Reading(0, "s", TEXTS, "", Ascending(), None)) for row in frame.rows()]


def test_one_bad_row_of_a_csv_file_is_one_dead_letter(tmp_path: Path) -> None:
    """A missing cell, a byte that is not UTF-8, a header that comes again; a cell of two megabytes is a cell."""
    large = "x" * (2 << 20)
    lines = [b"n,s", b"1,a", b"2", b"3,\xff", b"n,s", b"4," + large.encode(), b"5,b,c", b'6,""', b"7,NA"]
    (tmp_path / "1.csv").write_bytes(b"\n".join(lines))
    file = LandedFile(str(tmp_path / "1.csv"), 0, "0")
    reading = Reading(0, "s", {"n": pl.Int64(), "s": pl.String()}, "", Ascending(), None)
    frame = pl.concat(frames_of(file, "csv", reading))
    assert frame.filter(pl.col(DEAD).is_null())["n"].to_list() == [1, 4, 6, 7]
    assert frame.filter(pl.col(DEAD).is_null())["s"].to_list() == ["a", large, "", "NA"]
    dead = frame.filter(pl.col(DEAD).is_not_null())
    assert [reason.rpartition(": ")[2] for reason in dead[DEAD]] == [
        "1 cells, and the header has 2", "not UTF-8", "'n' is no whole number", "3 cells, and the header has 2",
    ]  # fmt: skip


@pytest.mark.parametrize("record", [b'1,"a\\"b"', b'1,"a"b', b'"1"x,"a"', b'1,"a" ', b'1,"a"\rb'])
@pytest.mark.parametrize("beside", [b"", b"3,c\n" * 100])
def test_text_after_the_quote_that_ends_a_cell_is_a_dead_letter_and_not_another_value(
    tmp_path: Path, record: bytes, beside: bytes
) -> None:
    """So Spark writes a quote inside of a cell, unless it is told otherwise."""
    found = csv_rows(tmp_path / "1.csv", b"p,q\n" + beside + record + b'\n2,"b"\r\n')
    assert ["doubled" in (dead or "") for *_, dead in found] == [False] * beside.count(b"\n") + [True, False]
    assert found[-1] == ("2", "b", None)


def test_text_after_a_cell_of_several_lines_is_found_too(tmp_path: Path) -> None:
    (one, other) = csv_rows(tmp_path / "1.csv", b'p,q\n"1\n2"3,a\n4,"b\nc"\n')
    assert "doubled" in (one[2] or "") and other == ("4", "b\nc", None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"p,q\r1,a\r2,b\r", "carriage return"),
        (b"p;q\n1;a\n", "none of the columns p, q"),
        (b"p\tq\n1\ta\n", "none of the columns p, q"),
        (b"p, q\n1,a\n", "' q', and asked for is 'q'"),
        (b"P,q\n1,a\n", "'P', and asked for is 'p'"),
        (b'p,"q"x\n1,a\n', "no header"),
    ],
    ids=["carriage returns", "semicolons", "tabs", "a blank", "capitals", "quotes"],
)
def test_a_header_that_means_the_columns_and_does_not_name_them_is_a_fault_of_the_file_and_not_nulls(
    tmp_path: Path, body: bytes, said: str
) -> None:
    with pytest.raises(UnreadableFile, match=said):
        csv_rows(tmp_path / "1.csv", body)


def test_a_column_that_an_older_file_does_not_know_is_null(tmp_path: Path) -> None:
    assert csv_rows(tmp_path / "1.csv", b"p,more\n1,a\n") == [("1", None, None)]


def test_a_mark_of_byte_order_before_a_quoted_header_hides_no_column(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b'\xef\xbb\xbf"p","q"\n"a","b"\n')
    reading = Reading(0, "s", TEXTS, "", Ascending(), None)
    (rows,) = file_formats.csv(pafs.LocalFileSystem(), str(tmp_path / "1.csv"), reading)
    assert rows.row(0)[:2] == ("a", "b")


def test_a_damaged_avro_file_is_a_fault_of_the_file_whatever_its_reader_stumbles_over(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "p", "type": "string"}, {"name": "q", "type": ["null", "string"]}],
    }
    path = tmp_path / "1.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"p": "x" * 20, "q": None}] * 20, codec="deflate")
    whole, reading = path.read_bytes(), Reading(0, "s", TEXTS, "", Ascending(), None)
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            list(frames_of(LandedFile(str(path), 0, "0"), "avro", reading))
        except UnreadableFile:
            continue


def test_a_column_of_nothing_but_nulls_is_null_in_any_type() -> None:
    assert in_kind(pl.Series([None, None]), pl.Int64(), Times()).to_list() == [None, None]
