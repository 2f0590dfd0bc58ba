"""Corrections are exact to the last digit, whatever type a sum has; what no number of its type can say is refused by name."""

import datetime as dt
from decimal import Decimal as D

import polars as pl
import pytest

import eventide as ev
from eventide.reconcile import features, reconcile
from eventide.reconcile.report import UNEXPLAINED, Line, balanced

START = dt.datetime(2026, 11, 8, 10, tzinfo=dt.UTC)
FINE = {"timely": D("999999999999.00000001"), "late": D("0.00000002")}
FAR = {"timely": -(2**63) + 1, "late": 2**63 - 1, "later": 2**63 - 1}


def pipeline_of(tmp_path, kind, values, spark):
    """One minute with a value on time, and what comes half an hour late."""
    facts = [(START, START, values["timely"])]
    facts += [
        (START, START + dt.timedelta(minutes=30 + n), values[k]) for n, k in enumerate(k for k in values if k != "timely")
    ]
    closing, end = START + dt.timedelta(minutes=15), START + dt.timedelta(hours=1)
    facts += [(closing, closing, values["timely"] * 0), (end, end, values["timely"] * 0)]
    columns = {"ts": pl.Datetime("us", "UTC"), "at": pl.Datetime("us", "UTC"), "x": kind}
    rows = pl.DataFrame(facts, schema=columns, orient="row").sort("at", maintain_order=True)
    (tmp_path / "landing").mkdir()
    rows.write_parquet(tmp_path / "landing/1.parquet")
    said = "bigint" if kind == pl.Int64 else f"decimal({kind.precision}, {kind.scale})"
    source = ev.files("p", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("30 s"), schema=f"ts timestamp, at timestamp, x {said}")  # fmt: skip
    minutes = source.window(ev.tumbling("1 minute")).agg(total=ev.sum("x"))
    out = minutes.to("exact", ev.sqlite(str(tmp_path / "upi.db")), late=ev.divert())
    pipeline = ev.Pipeline("exact", out, state=str(tmp_path / "state"), archive=str(tmp_path / "archive"))
    pipeline.run(spark)
    return pipeline


@pytest.fixture(scope="module")
def fine(spark, tmp_path_factory):
    return pipeline_of(tmp_path_factory.mktemp("fine"), pl.Decimal(20, 8), FINE, spark)


@pytest.fixture(scope="module")
def far(spark, tmp_path_factory):
    return pipeline_of(tmp_path_factory.mktemp("far"), pl.Int64, FAR, spark)


@pytest.mark.parametrize("against", ["archive", "late"])
def test_decimals_of_eight_digits_lose_none(spark, fine, against):
    whole, gap = FINE["timely"] + FINE["late"], FINE["late"]
    found = reconcile(fine, against=against, spark=spark)
    [row] = found.corrections.collect()
    assert (row["total_base"], row["total_correction"], row["total_corrected"]) == (FINE["timely"], gap, whole)
    assert found.report.explained
    if against == "archive":
        served = features(fine, spark, trained="archive").where("total_difference <> 0").first()
        assert served["total_difference"] == gap


@pytest.mark.parametrize(("against", "ansi"), [("archive", "false"), ("late", "true")])
def test_a_correction_that_leaves_its_type_is_refused_by_name(spark, far, against, ansi):
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(
            ev.DefinitionError, match=r"the correction of 'total'.*2026-11-08T10:00.*leaves bigint.*Nothing was written"
        ):
            reconcile(far, against=against, spark=spark)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_a_gap_between_a_decimal_and_a_float_is_told():
    """An outside table may hold in floats what we hold in decimals."""
    emitted, part = Line("emitted", 1, {"total": D("1.10")}), Line("late tail", 1, {"total": D("0.20")})
    report = balanced(emitted, [part], Line("reference", 2, {"total": 1.3}), [])
    assert report.explained and abs(report[UNEXPLAINED].values["total"]) < 1e-9
    report = balanced(Line("emitted", 1, {"total": 1.3}), [], Line("reference", 1, {"total": D("2.50")}), [])
    assert not report.explained and report[UNEXPLAINED].values == {"total": 1.2}
