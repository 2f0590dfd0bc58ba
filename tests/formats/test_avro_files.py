"""Avro containers: the same rows however they are read, each value the one that was written, one bad record one dead letter."""

from __future__ import annotations

import io
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pytest

from eventide.engine.feeds import avro_files as avrofiles
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_chunks import chunks_of
from eventide.engine.feeds.file_faults import UnreadableFile
from eventide.engine.feeds.landed import LandedFile
from eventide.kernel.columns import DEAD
from eventide.model.watermark import Ascending

MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def schema(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def container(
    kinds: dict[str, Any], rows: list[dict[str, Any]], codec: str = "null", read_as: dict[str, Any] | None = None
) -> bytes:
    """Rows written under one schema, and called another in the header."""
    out = io.BytesIO()
    fastavro.writer(out, schema(**kinds), rows, codec=codec, sync_interval=64, sync_marker=b"0123456789abcdef")
    if read_as is None:
        return out.getvalue()
    out.seek(0)
    header: Any = fastavro.schemaless_reader(out, avrofiles.HEADER, None)
    return avrofiles.Part(header, out.read(), len(rows)).stream(schema(**read_as)).getvalue()


def rows_of(path: Path, kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    reading = Reading(0, "s", {"n": pl.Int64(), **kinds}, "n", Ascending())
    return pl.concat(chunks_of([LandedFile(str(path), 0, "0", path.stat().st_size)], "avro", reading, 0))


FLAT = {
    "n": "long", "t": ["null", "string"], "d": ["double", "null"], "b": ["null", "boolean"], "raw": "bytes", "at": ["null", MICROS],
    "ms": {"type": "long", "logicalType": "timestamp-millis"}, "day": ["null", {"type": "int", "logicalType": "date"}], "f": "float", "i": "int",
}  # fmt: skip
COLUMNS: dict[str, pl.DataType] = {
    "t": pl.String(), "d": pl.Float64(), "b": pl.Boolean(), "raw": pl.Binary(), "at": pl.Datetime("us", "UTC"), "ms": pl.Datetime("us", "UTC"),
    "day": pl.Date(), "f": pl.Float32(), "i": pl.Int64(),
}  # fmt: skip


def flat_row(n: int) -> dict[str, Any]:
    at = datetime(2026, 1, 1, n % 24, tzinfo=UTC)
    some = n % 3 == 0
    return {
        "n": n, "t": None if some else f"é {n}", "d": n / 3, "b": None if some else n % 2 == 0, "raw": bytes([n % 256]), "at": None if some else at,
        "ms": at, "day": at.date(), "f": n / 4, "i": -n,
    }  # fmt: skip


def read_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    for codecs in (avrofiles.CODECS, set()):
        monkeypatch.setattr(avrofiles, "CODECS", codecs)
        try:
            rows = rows_of(path, COLUMNS)
            found.append((rows.select("n", *COLUMNS).to_dicts(), rows[DEAD].is_not_null().to_list()))
        except UnreadableFile:
            found.append("unreadable")
        monkeypatch.undo()
    return found


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_records_are_the_same_at_once_and_one_by_one(tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1.avro"
    path.write_bytes(container(FLAT, [flat_row(n) for n in range(200)], codec))
    monkeypatch.setattr(avrofiles, "RECORDS_PER_PART", 7)
    at_once, singly = read_both_ways(path, monkeypatch)
    assert at_once == singly and [row["n"] for row in at_once[0]] == list(range(200)) and not any(at_once[1])


def test_broken_bytes_are_never_read_as_other_rows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes turned at random anywhere in the file: both ways say the same, or that the file is broken.

    But for branches that a union does not have, and truths that are neither 0 nor 1: no writer writes them, and Polars does not look.
    """
    sure = {name: next(one for one in kind if one != "null") if isinstance(kind, list) else kind for name, kind in FLAT.items()}
    del sure["b"]
    rows = [{**flat_row(n), "t": "x", "at": datetime(2026, 1, 1, tzinfo=UTC)} for n in range(40)]
    whole = container(sure, [{name: row[name] for name in sure} for row in rows])
    draw = random.Random(5)
    path = tmp_path / "1.avro"
    for _ in range(400):
        broken = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        path.write_bytes(bytes(broken[: draw.randint(1, len(broken))] if draw.random() < 0.2 else broken))
        at_once, singly = read_both_ways(path, monkeypatch)
        assert str(at_once) == str(singly)  # by their texts: two NaN are not equal


@pytest.mark.parametrize("logical", ["timestamp-micros", "timestamp-millis", "local-timestamp-micros"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_time_beyond_all_years_is_one_dead_letter(tmp_path: Path, logical: str, nested: bool) -> None:
    kind: Any = {"type": "long", "logicalType": logical}
    given: Any = "long"
    if nested:
        kind, given = {"type": "array", "items": kind}, {"type": "array", "items": "long"}
    values = [[n] if nested else n for n in (0, 2**62, 1_000)]
    rows = [{"n": n, "c": value} for n, value in enumerate(values)]
    path = tmp_path / "1.avro"
    path.write_bytes(container({"n": "long", "c": given}, rows, read_as={"n": "long", "c": kind}))
    instant = pl.Datetime("us", "UTC")
    found = rows_of(path, {"c": pl.List(instant) if nested else instant})
    assert found[DEAD].is_not_null().to_list() == [False, True, False]


@pytest.mark.parametrize(
    ("given", "kind", "column", "value", "wanted"),
    [
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, pl.Decimal(12, 2), (123456789).to_bytes(5, "big"), Decimal("1234567.89")),
        ("string", {"type": "string", "logicalType": "uuid"}, pl.String(), "{12345678-1234-5678-1234-56781234567F}", "{12345678-1234-5678-1234-56781234567F}"),
        ("string", {"type": "string", "logicalType": "uuid"}, pl.String(), "none", "none"),
        ("long", {"type": "long", "logicalType": "time-micros"}, pl.Time(), -1, None),
        ("int", {"type": "int", "logicalType": "time-millis"}, pl.Time(), 86_400_000, None),
        ("int", {"type": "int", "logicalType": "date"}, pl.Date(), 2**31 - 1, None),
    ],
)  # fmt: skip
def test_logical_types_are_what_was_written_or_dead_letters(
    tmp_path: Path, given: Any, kind: Any, column: pl.DataType, value: Any, wanted: Any
) -> None:
    path = tmp_path / "1.avro"
    path.write_bytes(container({"n": "long", "c": given}, [{"n": 0, "c": value}], read_as={"n": "long", "c": kind}))
    found = rows_of(path, {"c": column})
    assert (found["c"][0], found[DEAD][0] is not None) == (wanted, wanted is None)
