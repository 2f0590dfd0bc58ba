"""What is already there: created if missing, widened for a new aggregate, refused with the difference otherwise."""

from __future__ import annotations

import re
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import DefinitionError, SinkRefused, TargetMismatch
from eventide.sinks import MergeDialect, PaneShape, delta, duckdb, merge_sql, parquet, postgres, sqlite
from eventide.sinks.kinds.sqlite import SqliteDatabase
from eventide.sinks.target import Target
from tests.sinks.panes import SHAPE, batch, delivery, pane
from tests.sinks.places import Duck, Place, Sqlite, SqlPlace, World

WIDER = PaneShape(keys=SHAPE.keys, values=(*SHAPE.values, ("best", pa.float64())))
OTHER_KIND = PaneShape(keys=SHAPE.keys, values=(("total", pa.string()), ("n", pa.int64())))
OTHER_KEY = PaneShape(keys=(("branch", pa.string()),), values=SHAPE.values)
WITHOUT_SCHEMA = ("kafka_topic", "redis", "webhook", "function")


@pytest.fixture
def stored(place: Place) -> Place:
    """A place with one window in it."""
    if place.name in WITHOUT_SCHEMA:
        pytest.skip("never: records carry their own shape, there is no table to check")
    writer = place.sink().open(place.output, SHAPE)
    writer.deliver(batch([pane("w", 0, total=5, n=1)]), delivery(place.output, 0))
    writer.close()
    return place


def test_an_added_aggregate_becomes_a_column(stored: Place) -> None:
    writer = stored.sink().open(stored.output, WIDER)
    writer.deliver(batch([pane("x", 0, total=6, n=2, best=0.5)], WIDER), delivery(stored.output, 1))
    writer.close()
    rows = {row["window_id"]: (row["total"], row["best"]) for row in stored.rows(WIDER)}
    assert rows == {"w": (5, None), "x": (6, 0.5)}
    stored.sink().open(stored.output, WIDER).close()


@pytest.mark.parametrize(
    ("shape", "said"),
    [(OTHER_KIND, "'total' is"), (OTHER_KEY, "'branch'"), (PaneShape(SHAPE.keys, SHAPE.values[:1]), "'n'")],
    ids=["type", "key", "removed"],
)
def test_another_shape_is_refused_with_the_difference(stored: Place, shape: PaneShape, said: str) -> None:
    with pytest.raises(TargetMismatch, match=said):
        stored.sink().open(stored.output, shape)
    assert len(stored.rows(SHAPE)) == 1


def test_a_table_in_the_place_of_the_view_is_refused(tmp_path: pytest.TempPathFactory) -> None:
    for kind in (Sqlite, Duck):
        place: SqlPlace = kind(World(tmp_path))
        database = place.sink().database()
        connection = database.connect()
        connection.execute(f'create table "{place.output}" (x integer)')
        connection.close()
        with pytest.raises(TargetMismatch, match="is a table"):
            place.sink().open(place.output, SHAPE)


def test_a_name_that_postgres_would_cut_is_refused(postgres_server) -> None:
    with pytest.raises(DefinitionError, match="63 bytes"):
        postgres(postgres_server.dsn).open("o" * 60, SHAPE)


def test_decimal_deltas_are_refused_where_they_would_become_floats(tmp_path) -> None:
    shape = PaneShape(keys=(), values=(("paid", pa.decimal128(12, 2)),), accumulation="discarding")
    with pytest.raises(DefinitionError, match="exactly"):
        sqlite(str(tmp_path / "x.db")).open("o", shape)


def test_collected_deltas_are_refused_where_a_table_would_have_to_add_them(place: Place) -> None:
    shape = PaneShape(keys=SHAPE.keys, values=(("seen", pa.list_(pa.string())),), accumulation="discarding")
    if place.name in WITHOUT_SCHEMA:
        place.sink().open(place.output, shape).close()
        return
    with pytest.raises(DefinitionError, match=r"'seen'.*accumulating"):
        place.sink().open(place.output, shape)


def test_an_unknown_way_to_add_is_refused() -> None:
    with pytest.raises(DefinitionError, match="median"):
        PaneShape(keys=(), values=(("m", pa.int64()),), accumulation="discarding", additive=(("m", "median"),))


def test_a_missing_library_is_named_with_its_extra(monkeypatch, tmp_path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    from eventide.sinks import duckdb

    with pytest.raises(SinkRefused, match=r"pip install 'eventide\[duckdb\]'"):
        duckdb(str(tmp_path / "x")).open("o", SHAPE)


def test_a_schema_of_any_name_is_used(postgres_server) -> None:
    import psycopg

    schema = 'Sales "2026"; --'
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute('create schema "Sales ""2026""; --"')
        writer = postgres(postgres_server.dsn, "totals", schema).open("o", SHAPE)
        for number in (0, 1):
            writer.deliver(batch([pane("w", number, total=number, n=1)]), delivery("o", number))
        writer.close()
        postgres(postgres_server.dsn, "totals", schema).open("o", SHAPE).close()
        assert connection.execute('select total from "Sales ""2026""; --".totals').fetchall() == [(1,)]


def test_parquet_compacts_as_often_as_asked_and_at_the_end(tmp_path) -> None:
    import pyarrow.parquet as pq

    sink = parquet(str(tmp_path), compact_every=3)
    writer = sink.open("o", SHAPE)
    current = tmp_path / "o" / "current.parquet"
    for number in range(4):
        writer.deliver(batch([pane(f"w{number}", 0, total=1, n=1)]), delivery("o", number))
        assert current.exists() == (number >= 2)
        assert sink.read("o", SHAPE).num_rows == number + 1
    assert pq.read_table(current).num_rows == 3
    writer.close()
    assert pq.read_table(current).num_rows == 4
    assert len(list((tmp_path / "o" / "panes").glob("*.parquet"))) == 4


def test_a_table_of_the_same_name_in_another_schema_is_left_alone(postgres_server) -> None:
    import psycopg

    name = f"t{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f'create schema "{name}"')
        connection.execute(f'create table "{name}"."{name}_panes" (other integer)')
        connection.execute(f'create table "{name}"."{name}" (other integer)')
        for sink in (merge_sql(lambda: psycopg.connect(postgres_server.dsn), table=name), postgres(postgres_server.dsn, name)):
            for number in (0, 1):
                writer = sink.open("o", SHAPE)
                writer.deliver(batch([pane("w", number, total=number, n=1)]), delivery("o", number))
                writer.close()
        assert connection.execute(f'select total from public."{name}"').fetchall() == [(1,)]


def test_a_view_of_the_same_name_in_another_schema_of_duckdb_is_left_alone(tmp_path) -> None:
    place = Duck(World(tmp_path))
    connection = place.sink().database().connect()
    connection.execute(f'create schema other; create view other."{place.output}" as select 1 as x')
    connection.close()
    place.sink().open(place.output, SHAPE).close()
    assert place.rows(SHAPE) == []


class OverSqlite(MergeDialect):
    """As much of a warehouse as it takes to look at a table of it."""

    placeholder = "?"

    def type_of(self, kind: pa.DataType) -> str:
        return SqliteDatabase("").type_of(kind)

    def catalogue(self) -> str:
        return "select name, type from pragma_table_info(?)"


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "merge_sql"])
def test_a_table_that_holds_two_keys_for_one_is_refused(kind: str, tmp_path: Path) -> None:
    """PostgreSQL makes its own with a collation of bytes, and has others of that sort only where it was built with ICU."""
    place = Duck(World(tmp_path)) if kind == "duckdb" else Sqlite(World(tmp_path))
    database = place.sink().database()
    made = database.create_table(Target.of_panes(place.output, SHAPE))
    connection = database.connect()
    connection.execute(re.sub('("window_id" [A-Z]+)', r"\1 collate nocase", made, count=1))
    connection.close()
    sink = merge_sql(lambda: sqlite3.connect(place.path), OverSqlite()) if kind == "merge_sql" else place.sink()
    with pytest.raises(TargetMismatch, match=r"'window_id'.*two keys would become one row"):
        sink.open(place.output, SHAPE)


def test_keys_that_differ_by_case_spaces_or_accents_are_rows_of_their_own(place: Place) -> None:
    ids = ["a", "A", "a ", " a", "\u00e1", "a\u0301", "\u00df", "ss", "i", "\u0131", "\u0130", "a\t", "a\u00a0", "\ufb01", "fi"]
    writer = place.sink().open(place.output, SHAPE)
    for number in (0, 1):
        writer.deliver(
            batch([pane(name, number, total=n, n=number) for n, name in enumerate(ids)]), delivery(place.output, number)
        )
    writer.close()
    assert {row["window_id"]: (row["total"], row["n"]) for row in place.rows(SHAPE)} == {n: (i, 1) for i, n in enumerate(ids)}


@pytest.mark.parametrize("made", [sqlite, duckdb, parquet, delta], ids=lambda made: made.__name__)
def test_a_relative_path_leads_from_where_the_sink_was_opened(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook that goes elsewhere during a run got its later results there, and readers missed them here."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir(), elsewhere.mkdir()
    monkeypatch.chdir(here)
    writer = made("out").open("totals", SHAPE)
    monkeypatch.chdir(elsewhere)
    writer.deliver(batch([pane("w", 0, total=5, n=1)]), delivery("totals", 0))
    writer.close()
    assert not any(elsewhere.iterdir()) and any(here.iterdir())
    monkeypatch.chdir(here)
    again = made("out").open("totals", SHAPE)
    again.deliver(batch([pane("w", 0, total=5, n=1), pane("x", 0, total=6, n=1)]), delivery("totals", 1))
    again.close()
    assert not any(elsewhere.iterdir())
