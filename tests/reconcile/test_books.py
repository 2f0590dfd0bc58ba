"""The corrections table and the view over it, in every database that can hold them."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

import eventide as ev
from eventide.errors import DefinitionError
from eventide.reconcile.corrections import CorrectionsTable
from tests.sinks.panes import BASE, MINUTE, SHAPE, batch, delivery, pane
from tests.sinks.places import Duck, Postgres, Sqlite, World

DAY_SLOTS = 24 * 60


@pytest.fixture(params=[Sqlite, Duck, Postgres], ids=lambda kind: kind.name)
def place(request, tmp_path):
    world = World(tmp_path)
    for need in request.param.needs:
        setattr(world, need, request.getfixturevalue(need))
    made = request.param(world)
    yield made
    made.close()


def books_at(place):
    clicks = ev.files(
        "payments", "landing", schema="ts timestamp, bank string, paise bigint", event_time="ts", watermark=ev.bounded("1 s")
    )
    minutes = clicks.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    return CorrectionsTable(minutes.to(place.output, place.sink(), late=ev.divert()))


def corrections(*rows):
    utc = pa.timestamp("us", "UTC")
    kinds = {
        "window_id": pa.string(), "window_start": utc, "window_end": utc, "bank": pa.string(), "total_base": pa.int64(),
        "total_correction": pa.int64(), "total_corrected": pa.int64(), "n_base": pa.int64(), "n_correction": pa.int64(),
        "n_corrected": pa.int64(), "rows": pa.int64(), "run_id": pa.string(),
    }  # fmt: skip
    made = []
    for window, slot, base, more, number in rows:
        start = dt.datetime.fromtimestamp((BASE + slot * MINUTE) / 1e6, dt.UTC)
        values = {
            "total_base": base,
            "total_correction": more or 0,
            "total_corrected": None if base is None and more is None else (base or 0) + (more or 0),
            "n_base": 1,
            "n_correction": number,
            "n_corrected": 1 + number,
            "rows": number,
            "run_id": "r",
        }
        made.append(
            {"window_id": window, "window_start": start, "window_end": start + dt.timedelta(minutes=1), "bank": "b", **values}
        )
    return pa.Table.from_pylist(made, schema=pa.schema(kinds))


def total(place):
    name = place.quoted(f"{place.output}_corrected")
    return sum(row["total"] for row in place.query(f"select total from {name}"))


def test_readers_see_base_plus_correction_and_windows_that_were_never_emitted(place):
    books = books_at(place)
    writer = books.sink.open(place.output, SHAPE)
    writer.deliver(
        batch([pane("a", 0, slot=0, total=100, n=1), pane("b", 0, slot=1, total=200, n=1)]), delivery(place.output, 0)
    )
    writer.close()
    books.write(corrections(("a", 0, 100, 11, 1), ("c", DAY_SLOTS, None, 7, 1)), (None, None), lambda point: None)
    assert total(place) == 100 + 11 + 200 + 7


def test_a_sum_that_was_null_before_its_late_rows_is_the_correction(place):
    books = books_at(place)
    writer = books.sink.open(place.output, SHAPE)
    writer.deliver(
        batch([pane("a", 0, slot=0, total=None, n=1), pane("b", 0, slot=1, total=None, n=1)]), delivery(place.output, 0)
    )
    writer.close()
    books.write(corrections(("a", 0, None, 5, 1)), (None, None), lambda point: None)
    name = place.quoted(f"{place.output}_corrected")
    assert [row["total"] for row in place.query(f"select total from {name} order by window_id")] == [5, None]


def test_a_sum_of_nothing_but_nulls_stays_null_though_its_window_is_corrected(place):
    books = books_at(place)
    writer = books.sink.open(place.output, SHAPE)
    writer.deliver(batch([pane("a", 0, slot=0, total=None, n=1)]), delivery(place.output, 0))
    writer.close()
    books.write(corrections(("a", 0, None, None, 2), ("c", 1, None, None, 1)), (None, None), lambda point: None)
    name = place.quoted(f"{place.output}_corrected")
    shown = [(row["total"], row["n"]) for row in place.query(f"select total, n from {name} order by window_id")]
    assert shown == [(None, 3), (None, 1)]


def test_an_aggregate_added_after_a_reconciliation_is_taken_in(place):
    books = books_at(place)
    books.sink.open(place.output, SHAPE).close()
    rows = corrections(("a", 0, 1, 11, 1))
    books.write(rows, (None, None), lambda point: None)
    wider = replace(SHAPE, values=(*SHAPE.values, ("tax", pa.int64())))
    books.sink.open(place.output, wider).close()
    added = books.output.aggregation
    taxed = added.stream.window(added.window, added.keys).agg(total=ev.sum("paise"), n=ev.count(), tax=ev.sum("paise"))
    more = {"tax_base": [0], "tax_correction": [3], "tax_corrected": [3]}
    for column, values in more.items():
        rows = rows.append_column(column, pa.array(values, pa.int64()))
    CorrectionsTable(taxed.to(place.output, books.sink, late=ev.divert())).write(rows, (None, None), lambda point: None)
    name = place.quoted(f"{place.output}_corrected")
    assert [(row["total"], row["tax"]) for row in place.query(f"select total, tax from {name}")] == [(11, 3)]


def test_decimals_are_corrected_to_the_last_digit(tmp_path):
    place = Sqlite(World(tmp_path))
    money = pa.decimal128(38, 2)
    shape = replace(SHAPE, values=(("total", money), ("n", pa.int64())))
    books = books_at(place)
    base, more = Decimal("90071992547409931.01"), Decimal("0.02")
    writer = books.sink.open(place.output, shape)
    panes = [pane("a", 0, slot=0, total=base, n=1), pane("b", 0, slot=1, total=base, n=1)]
    writer.deliver(batch(panes, shape), delivery(place.output, 0))
    writer.close()
    rows = corrections(("a", 0, 1, 1, 1)).drop_columns(["total_base", "total_correction", "total_corrected"])
    for name, value in (("base", base), ("correction", more), ("corrected", base + more)):
        rows = rows.append_column(f"total_{name}", pa.array([value], money))
    books.write(rows, (None, None), lambda point: None)
    view = place.quoted(f"{place.output}_corrected")
    found = [row["total"] for row in place.query(f"select total from {view} order by window_id")]
    assert [Decimal(value) for value in found] == [base + more, base]
    place.close()


def test_corrections_are_replaced_by_day_and_other_days_stand(place):
    books = books_at(place)
    books.sink.open(place.output, SHAPE).close()
    first = corrections(("a", 0, 1, 11, 1), ("b", 1, 1, 5, 1), ("c", DAY_SLOTS, None, 7, 1))
    books.write(first, (None, None), lambda point: None)
    books.write(first, (None, None), lambda point: None)
    assert total(place) == 23
    day = BASE // (DAY_SLOTS * MINUTE)
    books.write(corrections(("a", 0, 1, 12, 1)), (day, day), lambda point: None)
    assert total(place) == 12 + 7
    books.write(corrections(), (day, day), lambda point: None)
    assert total(place) == 7


def test_an_output_without_a_database_says_what_to_do():
    clicks = ev.files("payments", "landing", schema="ts timestamp, bank string", event_time="ts", watermark=ev.bounded("1 s"))
    output = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count()).to("out", late=ev.divert())
    with pytest.raises(DefinitionError, match="need a SQL database"):
        _ = CorrectionsTable(output).sink
