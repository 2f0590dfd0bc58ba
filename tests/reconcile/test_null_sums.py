"""A sum of nothing but nulls is null, emitted and corrected: late rows without a value make the count larger and leave the sum alone."""

import polars as pl
import pytest

import eventide as ev
from eventide.reconcile import reconcile
from tests.reconcile.test_reconcile import payments, pipeline_over, query


@pytest.fixture(scope="module")
def partly_null(spark, tmp_path_factory):
    """Bank 0 never says how much; bank 1 says it only in rows that come late."""
    tmp_path = tmp_path_factory.mktemp("nulls")
    rows = payments(rows=2_000, bursts=((1_800, 0.3),))
    late = (pl.col("at") - pl.col("ts")) > pl.duration(minutes=10)
    silent = (pl.col("bank") == "0") | ((pl.col("bank") == "1") & ~late)
    rows = rows.with_columns(pl.when(~silent).then(pl.col("paise")).alias("paise"))
    pipeline = pipeline_over(tmp_path, rows, ev.divert())
    pipeline.run(spark)
    return tmp_path, pipeline, rows


@pytest.mark.parametrize("against", ["archive", "late"])
def test_the_corrected_view_has_a_null_where_no_row_has_a_value(spark, partly_null, against):
    tmp_path, pipeline, rows = partly_null
    found = reconcile(pipeline, spark=spark, against=against)
    assert found.corrected > 10 and found.report.explained
    shown = query(tmp_path, "select substr(window_start, 1, 16), bank, total, n from upi_minute_corrected")
    said = {(start, bank): (total, n) for start, bank, total, n in shown}
    whole = rows.group_by(pl.col("ts").dt.strftime("%Y-%m-%d %H:%M").alias("start"), "bank").agg(
        pl.when(pl.col("paise").is_not_null().any()).then(pl.col("paise").sum()).alias("total"), pl.len().alias("n")
    )
    exact = {(row["start"], row["bank"]): (row["total"], row["n"]) for row in whole.to_dicts()}
    assert said == {place: values for place, values in exact.items() if place in said}
    nulls = [place for place, (total, _) in said.items() if total is None]
    changed = query(tmp_path, "select substr(window_start, 1, 16), bank from upi_minute_corrected where run_id is not null")
    assert len(set(nulls) & set(changed)) > 5
    assert any(total is not None for (_, bank), (total, _) in said.items() if bank == "1")
