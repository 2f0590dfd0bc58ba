"""Every format × every type: what was written is what is read, and what cannot be is a dead letter, whatever stands beside it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.engine.feeds.columnar import arrow_kind
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_chunks import frames_of
from eventide.engine.feeds.json_records import decode_json
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_times import ISO
from eventide.kernel.columns import DEAD, RAW
from eventide.model.watermark import Ascending
from tests.formats.hostile import NESTED, SIMPLE, TEXTS, TYPES, Type, json_text, same, tried

EXAMPLES = int(os.environ.get("EVENTIDE_EXAMPLES", "12"))
FLAT = [name for name in TYPES if name not in NESTED]


def reading(kinds: dict[str, pl.DataType], **more: Any) -> Reading:
    return Reading(0, "s", kinds, "c", Ascending(), **more)


def read_file(path: Path, form: str, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    frames = list(frames_of(LandedFile(str(path), 0, "0"), form, reading(kinds)))
    whole = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema={**kinds, DEAD: pl.String()})
    if form == "json":
        whole = pl.concat([whole, decode_json(whole[RAW], kinds)], how="horizontal") if frames else whole
    return whole if DEAD in whole.columns else whole.with_columns(pl.lit(None, dtype=pl.String).alias(DEAD))


def assert_back(frame: pl.DataFrame, values: list[Any]) -> None:
    assert len(frame) == len(values)
    for row, value in zip(frame.select("c", DEAD).to_dicts(), values, strict=True):
        assert row[DEAD] is None, (value, row[DEAD])
        assert same(row["c"], value), (value, row["c"])


def drawn(data: st.DataObject, kind: Type) -> tuple[list[Any], random.Random]:
    return data.draw(st.lists(st.one_of(kind.values, st.none()), max_size=6)), random.Random(data.draw(st.integers(0, 2**32)))


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_json_records(name: str, data: st.DataObject) -> None:
    values, rng = drawn(data, TYPES[name])
    records = [f'{{"x":[1,{{}}],"c":{json_text(value, rng)}}}'.encode() for value in values]
    assert_back(decode_json(pl.Series(records, dtype=pl.Binary), {"c": TYPES[name].kind}), values)


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_json_lines(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    values, rng = drawn(data, TYPES[name])
    path = tmp_path_factory.mktemp("json") / "1.json"
    between = rng.choice([b"\n", b"\r\n", b"\n\n"])
    body = between.join(f'{{"c": {json_text(value, rng)} }}'.encode() for value in values)
    path.write_bytes(rng.choice([b"", b"\xef\xbb\xbf"]) + body + rng.choice([b"", between]) if values else b"")
    assert_back(read_file(path, "json", {"c": TYPES[name].kind}), values)


def csv_cell(value: Any, rng: random.Random) -> str:
    if value is None:
        return ""
    if isinstance(value, str | list | dict):
        text = value if isinstance(value, str) else json_text(value, rng)
        return '"' + text.replace('"', '""') + '"'
    text = json_text(value, rng)
    return text if rng.random() < 0.5 and not text.startswith('"') else '"' + text.strip('"') + '"'


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_csv_files(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    values, rng = drawn(data, TYPES[name])
    path = tmp_path_factory.mktemp("csv") / "1.csv"
    between = rng.choice(["\n", "\r\n"])
    lines = ['x,"c"', *[f"{n},{csv_cell(value, rng)}" for n, value in enumerate(values)]]
    path.write_bytes((between.join(lines) + rng.choice(["", between])).encode())
    assert_back(read_file(path, "csv", {"c": TYPES[name].kind}), values)


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_avro_files(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    values, _ = drawn(data, TYPES[name])
    path = tmp_path_factory.mktemp("avro") / "1.avro"
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": ["null", TYPES[name].avro]}]}
    with path.open("wb") as out:
        fastavro.writer(out, schema, [{"c": value} for value in values])
    assert_back(read_file(path, "avro", {"c": TYPES[name].kind}), values)


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_parquet_files(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    values, _ = drawn(data, TYPES[name])
    path = tmp_path_factory.mktemp("parquet") / "1.parquet"
    inner = [entries(value, TYPES[name].kind) for value in values]
    pq.write_table(pa.table({"c": pa.array(inner, arrow_kind(TYPES[name].kind))}), path)
    frame = read_file(path, "parquet", {"c": TYPES[name].kind})
    assert len(frame) == len(values) and frame[DEAD].null_count() == len(frame)
    assert all(same(f, w) for f, w in zip(frame["c"].to_list(), values, strict=True))


def entries(value: Any, kind: Any) -> Any:
    """Maps as Arrow is given them: pairs, or, where a column is a list of entries, those."""
    if isinstance(value, dict) and isinstance(kind, pl.Map):
        return list(value.items())
    if isinstance(value, dict) and isinstance(kind, pl.List):
        return [{"key": k, "value": v} for k, v in value.items()]
    return [entries(part, kind.inner) for part in value] if isinstance(value, list) and isinstance(kind, pl.List) else value


TEXTUAL = [
    name for name in FLAT if name not in ("string", "binary")
]  # what a text can say; Parquet has a type of its own for bytes
STORED = {
    "bigint": pa.int64(), "double": pa.float64(), "decimal(38,18)": pa.decimal128(38, 18), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(), "boolean": pa.bool_(), "float": pa.float32(), "int": pa.int32(), "binary": pa.binary(),
}  # fmt: skip


@pytest.mark.parametrize("declared", FLAT)
@tried(EXAMPLES)
@given(data=st.data())
def test_parquet_of_another_type_is_the_same_value_or_a_dead_letter(
    declared: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stored = data.draw(st.sampled_from(sorted(STORED.keys() - ({"string"} if declared in TEXTUAL else set()))))
    values, _ = drawn(data, SIMPLE[stored])
    path = tmp_path_factory.mktemp("parquet") / "1.parquet"
    pq.write_table(pa.table({"c": pa.array(values, STORED[stored])}), path)
    frame = read_file(path, "parquet", {"c": SIMPLE[declared].kind})
    for value, row in zip(values, frame.to_dicts(), strict=True):
        if row[DEAD] is not None:
            assert row.get(RAW), "a dead letter keeps what was there"
        elif isinstance(value, float) and value != value:
            assert row["c"] != row["c"]
        elif stored == "date" and declared == "timestamp" and value is not None:
            assert row["c"].date() == value
        else:
            assert row["c"] == value, (value, row["c"])


@pytest.mark.parametrize("declared", TEXTUAL)
@tried(EXAMPLES)
@given(data=st.data())
def test_a_text_in_parquet_is_read_as_one_in_a_csv_file_is(
    declared: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said = SIMPLE[declared].values.map(lambda value: json_text(value, random.Random(0)).strip('"'))
    values = data.draw(st.lists(st.one_of(TEXTS, said, st.none()), max_size=6))
    folder, kinds = tmp_path_factory.mktemp("texts"), {"c": SIMPLE[declared].kind}
    pq.write_table(pa.table({"c": pa.array(values, pa.string())}), folder / "1.parquet")
    lines = ["x,c", *[f"{n},{csv_cell(value, random.Random(0))}" for n, value in enumerate(values)]]
    (folder / "1.csv").write_bytes("\n".join(lines).encode())
    ours, theirs = (read_file(folder / f"1.{form}", form, kinds).to_dicts() for form in ("parquet", "csv"))
    for value, row, other in zip(values, ours, theirs, strict=True):
        assert (row[DEAD] is None) == (other[DEAD] is None), (value, row, other)
        assert row[DEAD] is not None or same(row["c"], other["c"]), (value, row["c"], other["c"])


HOSTILE_RECORDS = [
    b"", b" ", b"null", b"[]", b"[1]", b"{}", b"{", b"}", b'{"c":', b"1}", b'{"c":1}{"c":2}', b'{"c":1}\n{"c":2}', b'{"c":\n1}', b'{"c":1,"c":2}',
    b'{"c":1},"c":{"c":2}', b'{"c":"\\ud800"}', b'{"c":"\xff"}', b'{"c":NaN}', b'{"c":1e400}', b'{"c":1e999999999}', b'{"c":1.0}', b'{"c":"1"}', b'{"c":01}',
    b'\xef\xbb\xbf{"c":1}', b'{"c":true}', b'{"c":{}}', b'{"c":[1]}', b'{"c":99999999999999999999}', b'{"c":"2026-01-01T00:00:00"}', b'{"c":"01/02/2026"}',
    b'{"c":"2026-01-01T00:00:00.1234567Z"}', b'{"c":"1.105"}', b"\xff\xfe{\x00}\x00", b'{"c":1} ', b'\t{"c":1}', b'{"c":"a\nb"}', b'{"x":' + b"[" * 3000 + b"]" * 3000 + b',"c":1}',
    b"{" * 3000, b'{"c":"x"}\r', b'{"c":Inf}', b'{"c":-Infinity}', b'{"c":"0000-01-01"}', b'{"c":"2026-02-30"}', b'{"c":1,}', b"{'c':1}", b'{"c":1}//',
]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_no_record_hangs_on_its_neighbours(name: str, data: st.DataObject) -> None:
    """Garbage, fragments that would close each other, records of two lines: in any company each is read as if it were alone."""
    kinds = {"c": TYPES[name].kind}
    good = TYPES[name].values.map(lambda value: f'{{"c":{json_text(value, random.Random(0))}}}'.encode())
    some = st.one_of(good, good, st.sampled_from(HOSTILE_RECORDS), st.binary(max_size=12), st.none())
    records = data.draw(st.lists(some, max_size=80))
    together = decode_json(pl.Series(records, dtype=pl.Binary), kinds)
    assert len(together) == len(records)
    alone = [decode_json(pl.Series([record], dtype=pl.Binary), kinds) for record in records]
    for one, row in zip(alone, together.iter_slices(1), strict=True):
        assert one.equals(row, null_equal=True) or same(one.to_dicts(), row.to_dicts())


@tried(EXAMPLES * 4)
@given(data=st.data())
def test_no_line_of_a_csv_file_hangs_on_its_neighbours(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds: dict[str, pl.DataType] = {"c": pl.Int64(), "s": pl.String(), "t": pl.Datetime("us", "UTC")}
    pieces = st.sampled_from(
        [
            "1",
            "x",
            '""',
            '"a,b"',
            '"a""b"',
            "1.0",
            "NA",
            "",
            "9" * 30,
            "2026-01-01T00:00:00Z",
            "2026-01-01",
            'a"b',
            '"q"x',
            "\xff",
        ]
    )
    lines = data.draw(st.lists(st.lists(pieces, min_size=2, max_size=4).map(",".join), max_size=70))
    path = tmp_path_factory.mktemp("csv") / "1.csv"

    def read(some: list[str]) -> list[dict[str, Any]]:
        path.write_bytes("\n".join(["c,s,t", *some]).encode("latin-1"))
        return read_file(path, "csv", kinds).to_dicts()

    kept = [line for line in lines if line.strip()]
    assert [row for line in kept[:12] for row in read([line])] == read(kept)[: len(kept[:12])]
    assert len(read(kept)) == len(kept)


def test_a_record_of_two_lines_shifts_nobody() -> None:
    records = [b'{"c":1}', b'{"c":2}\n{"c":3}', b" ", b'{"c":4}', b'{"c":', b"5}", b'{"c":6}{"c":7}']
    frame = decode_json(pl.Series(records), {"c": pl.Int64()})
    assert frame["c"].to_list() == [1, None, None, 4, None, None, None]
    assert [reason is not None for reason in frame[DEAD]] == [False, True, True, False, True, True, True]


def test_what_was_decided_about_json() -> None:
    said = {
        b'{"c":1,"c":2}': "the name 'c' stands twice",
        b'{"x":1,"x":2,"c":"a"}': None,
        b'\xef\xbb\xbf{"c":"a"}': None,
        b'{"c":"\\ud800"}': "half of a character",
        b'{"c":"\xff"}': "not UTF-8",
        '{"c":"a"}'.encode("utf-16"): "not UTF-8",
        b'{"c":1}': "1 is no text",
        b"null": "not a JSON object",
    }
    frame = decode_json(pl.Series(list(said)), {"c": pl.String()})
    for reason, wanted in zip(frame[DEAD], said.values(), strict=True):
        assert (reason is None) if wanted is None else wanted in reason, (reason, wanted)
    assert json.loads("1") == 1 and ISO.plain
