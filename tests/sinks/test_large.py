"""Deliveries of more text than one Arrow array can hold: handled in pieces everywhere, never an error of Arrow's."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from eventide import sinks
from eventide.sinks import PaneShape, chunks, ranked
from eventide.sinks.kinds import postgres_copy
from eventide.sinks.kinds.parquet import ParquetSink
from eventide.sinks.ranked import emitted, highest
from tests.sinks.panes import BASE, MINUTE, SHAPE, batch, delivery, disturbed, expected, random_log, seen
from tests.sinks.places import Place

TEXTS = PaneShape(keys=(("bank", pa.string()),), values=(("text", pa.string()), ("tags", pa.list_(pa.string()))))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LIMIT", 2_000)
    monkeypatch.setattr(ranked, "SORTED", 7)


def test_a_delivery_in_pieces_ends_in_the_same_table(place: Place, small_pieces: None) -> None:
    panes = [p for number in range(60) for p in random_log(number)]
    writer = place.sink().open(place.output, SHAPE)
    for number, part in enumerate(disturbed(panes, seed=4, cuts=3)):
        writer.deliver(batch(part), delivery(place.output, number))
    writer.close()
    assert seen(place.rows(SHAPE)) == expected(panes)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 500])
def test_panes_sorted_in_ranges_are_in_the_order_of_those_sorted_at_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.Table.from_batches(batch([p for number in range(60) for p in random_log(number)][:rows]), SHAPE.schema)
    at_once = highest(table, SHAPE), emitted(table.to_batches()[::-1], SHAPE)
    monkeypatch.setattr(ranked, "SORTED", 7)
    assert (highest(table, SHAPE), emitted(table.to_batches()[::-1], SHAPE)) == at_once


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


@pytest.fixture(scope="module")
def much_text() -> pa.Table:
    table = pa.Table.from_batches(list(large()))
    assert table.nbytes > 1 << 31
    return table


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_more_than_two_gibibytes_of_text_are_ranked_and_encoded(much_text: pa.Table) -> None:
    assert highest(much_text, TEXTS).num_rows == emitted(much_text.to_batches()[::-1], TEXTS).num_rows == 40_000
    assert sum(part.size for part in postgres_copy.encode(much_text, much_text.column_names)) > 1 << 31


SHOWN = "select count(*) as n, sum(length(text)) as letters, min(text) as least, max(text) as most from o"


def _databases(tmp_path: Path, dsn: str) -> dict[str, tuple[Any, Callable[[], Any]]]:
    def of_sqlite() -> Any:
        with closing(sqlite3.connect(tmp_path / "o.db")) as connection:
            return connection.execute(SHOWN).fetchone()

    def of_duck() -> Any:
        with closing(duckdb.connect(str(tmp_path / "o.duckdb"))) as connection:
            return connection.execute(SHOWN).fetchone()

    def of_postgres() -> Any:
        with psycopg.connect(dsn) as connection:
            return connection.execute(SHOWN).fetchone()

    return {
        "sqlite": (sinks.sqlite(str(tmp_path / "o.db")), of_sqlite),
        "duckdb": (sinks.duckdb(str(tmp_path / "o.duckdb")), of_duck),
        "postgres": (sinks.postgres(dsn), of_postgres),
        "merge_sql": (sinks.merge_sql(lambda: psycopg.connect(dsn)), of_postgres),
    }


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgres", "merge_sql"])
def test_more_than_two_gibibytes_of_text_in_one_delivery_to_a_database(
    kind: str, much_text: pa.Table, tmp_path: Path, postgres_server: Any
) -> None:
    sink, shown = _databases(tmp_path, postgres_server.dsn)[kind]
    writer = sink.open("o", TEXTS)
    for _ in range(2):
        writer.deliver(iter(much_text.to_batches()), delivery("o", 0))
    writer.close()
    count, letters, least, most = shown()
    assert (count, int(letters), least, most) == (40_000, 2_400_000_000, "a" * 60_000, "z" * 60_000)
    print(f"\n{sink}: 2.4 GB of text in one delivery, twice; at most {_most_memory():.1f} GB of memory so far")
    if kind in ("postgres", "merge_sql"):
        with psycopg.connect(postgres_server.dsn) as connection:
            connection.execute("drop table o_panes cascade")


def _most_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_more_than_two_gibibytes_of_text_in_one_delivery_to_files(kind: str, much_text: pa.Table, tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/i"}
    sink = {
        "parquet": lambda: sinks.parquet(str(tmp_path / "p")),
        "delta": lambda: sinks.delta(str(tmp_path / "d")),
        "iceberg": lambda: sinks.iceberg(catalog, "s.t"),
    }[kind]()
    writer = sink.open("o", TEXTS)
    for _ in range(2):
        writer.deliver(iter(much_text.to_batches()), delivery("o", 0))
    writer.close()
    stood = sink.read("o", TEXTS) if isinstance(sink, ParquetSink) else sink.read(TEXTS)
    assert stood.num_rows == 40_000
    assert sum(pc.sum(pc.utf8_length(piece["text"])).as_py() for piece in chunks.pieces(stood)) == 2_400_000_000
    print(f"\n{sink}: 2.4 GB of text in one delivery, twice; at most {_most_memory():.1f} GB of memory so far")


def many(count: int = 30_000_000, step: int = 1_000_000) -> Iterator[pa.RecordBatch]:
    """Panes of a backfill: small, and more of them than texts of one array can hold."""
    for first in range(0, count, step):
        number = pa.array(range(first, first + step), pa.int64())
        start = pc.add(pc.multiply(number, MICROS), BASE_MICROS).cast(pa.timestamp("us", "UTC"))
        names = pc.binary_join_element_wise(
            "1700000000000000:1700000060000000:", number.cast(pa.string()), '{"bank":"hdfc"}', ""
        )
        fields = {
            "window_id": names, "window_start": start, "window_end": start, "bank": _same("hdfc", step), "n": number,
            "sequence": _same(0, step), "op": _same("insert", step), "timing": _same("on_time", step), "generation": _same(0, step),
            "emitted_at": start,
        }  # fmt: skip
        yield pa.RecordBatch.from_arrays(
            [fields[name].cast(COUNTS.schema.field(name).type) for name in COUNTS.schema.names], schema=COUNTS.schema
        )


def _same(value: Any, count: int) -> Any:
    return pa.repeat(pa.scalar(value), count)


COUNTS = PaneShape(keys=(("bank", pa.string()),), values=(("n", pa.int64()),))
MICROS, BASE_MICROS = 60_000_000, -30_000_000_000_000_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_thirty_million_panes_in_one_delivery(tmp_path: Path) -> None:
    sink = sinks.parquet(str(tmp_path / "p"))
    writer = sink.open("o", COUNTS)
    writer.deliver(many(), delivery("o", 0))
    writer.close()
    assert pq.read_metadata(tmp_path / "p/o/current.parquet").num_rows == 30_000_000
    print(f"\n{sink}: 30 million panes in one delivery; at most {_most_memory():.1f} GB of memory so far")
