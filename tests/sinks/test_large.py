"""Deliveries of more text than one Arrow array can hold: handled in pieces everywhere, never an error of Arrow's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide import sinks
from eventide.sinks import PaneShape, chunks
from eventide.sinks.kinds import postgres_copy
from eventide.sinks.kinds.parquet import ParquetSink
from eventide.sinks.ranked import emitted, highest
from tests.sinks.panes import BASE, MINUTE, SHAPE, batch, delivery, disturbed, expected, random_log, seen
from tests.sinks.places import Place

TEXTS = PaneShape(keys=(("bank", pa.string()),), values=(("text", pa.string()), ("tags", pa.list_(pa.string()))))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LIMIT", 2_000)


def test_a_delivery_in_pieces_ends_in_the_same_table(place: Place, small_pieces: None) -> None:
    panes = [p for number in range(60) for p in random_log(number)]
    writer = place.sink().open(place.output, SHAPE)
    for number, part in enumerate(disturbed(panes, seed=4, cuts=3)):
        writer.deliver(batch(part), delivery(place.output, number))
    writer.close()
    assert seen(place.rows(SHAPE)) == expected(panes)


def test_nested_values_are_taken_in_pieces_too(small_pieces: None) -> None:
    kinds = {
        "text": pa.string(),
        "raw": pa.binary(),
        "list": pa.list_(pa.struct([("a", pa.string())])),
        "map": pa.map_(pa.string(), pa.string()),
    }
    rows = [
        {"text": f"t{n}" * 9, "raw": b"x" * n, "list": [{"a": str(n)}] * (n % 3), "map": [(str(n), None)]} for n in range(500)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))
    places = pa.array(range(499, -1, -3))
    found = chunks.taken(table, places)
    assert found.schema == table.schema
    assert found.to_pylist() == [table.slice(n, 1).to_pylist()[0] for n in places.to_pylist()]
    assert found["text"].num_chunks > 1


def large(rows: int = 40_000, width: int = 60_000) -> Iterator[pa.RecordBatch]:
    """2.4 GB of text, in batches."""
    for first in range(0, rows, 1000):
        yield pa.RecordBatch.from_pylist([_row(n, width) for n in range(first, first + 1000)], schema=TEXTS.schema)


def _row(n: int, width: int) -> dict[str, Any]:
    times = {"window_start": BASE + n * MINUTE, "window_end": BASE + (n + 1) * MINUTE, "emitted_at": BASE}
    texts = {
        "window_id": f"w{n:06d}",
        "bank": "b",
        "text": chr(97 + n % 26) * width,
        "tags": ["x"],
        "op": "insert",
        "timing": "on_time",
    }
    return {**times, **texts, "sequence": 0, "generation": 0}


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_more_than_two_gibibytes_of_text_in_one_delivery(tmp_path: Path) -> None:
    table = pa.Table.from_batches(list(large()))
    assert table.nbytes > 1 << 31
    assert highest(table, TEXTS).num_rows == emitted(table.to_batches()[::-1], TEXTS).num_rows == 40_000
    assert sum(part.size for part in postgres_copy.encode(table, table.column_names)) > 1 << 31
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/i"}
    for sink in (sinks.parquet(str(tmp_path / "p")), sinks.delta(str(tmp_path / "d")), sinks.iceberg(catalog, "s.t")):
        writer = sink.open("o", TEXTS)
        for _ in range(2):
            writer.deliver(iter(table.to_batches()), delivery("o", 0))
        writer.close()
        stood = sink.read("o", TEXTS) if isinstance(sink, ParquetSink) else sink.read(TEXTS)
        assert stood.num_rows == 40_000
        print(f"\n{sink}: 2.4 GB of text in one delivery, twice")
