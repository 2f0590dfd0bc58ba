"""An outside table is compared as it is meant, or refused by name before anything is written."""

import datetime as dt
import json
import math

import polars as pl
import pytest

import eventide as ev
from eventide.reconcile import reconcile
from eventide.reconcile.report import DEAD, DUPLICATES, FOREIGN, LATE, MISSING, REFERENCE, UNEXPLAINED
from tests.reconcile.test_reconcile import complete_to, payments, pipeline_over, query


@pytest.fixture(scope="module")
def kept(spark, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("outside")
    rows = payments(3_000, late_every=60).with_columns(pl.when(pl.col("txn") != 5).then(pl.col("txn")).alias("txn"))
    pipeline = pipeline_over(tmp_path, rows, ev.divert())
    pipeline.run(spark)
    return tmp_path, pipeline, rows


@pytest.fixture
def new_york(spark):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def by_minute(rows):
    return rows.group_by(pl.col("ts").dt.truncate("1m").alias("window_start"), "bank").agg(
        pl.col("paise").sum().alias("total"), pl.len().cast(pl.Int64).alias("n"), pl.col("paise").max().alias("largest")
    )


def zone_less(spark, frame, *columns):
    """Wall times of UTC without a zone, as many databases export them."""
    from pyspark.sql import functions as F

    texts = spark.createDataFrame(frame.with_columns(pl.col(columns).dt.strftime("%Y-%m-%d %H:%M:%S%.6f")).to_arrow())
    return texts.withColumns({name: F.col(name).cast("timestamp_ntz") for name in columns})


def test_results_without_a_zone_are_in_utc_whatever_the_session_says(new_york, kept):
    _, pipeline, rows = kept
    found = reconcile(pipeline, against=zone_less(new_york, by_minute(rows), "window_start"), spark=new_york)
    whole = complete_to(rows, found)
    assert found.report[REFERENCE].values == {"total": whole["paise"].sum(), "n": len(whole)}
    assert found.report.explained and found.report[LATE].rows > 20
    zoned = reconcile(pipeline, against=new_york.createDataFrame(by_minute(rows).to_arrow()), spark=new_york)
    assert zoned.report == found.report and zoned.corrected == found.corrected


def test_rows_without_a_zone_are_read_as_the_source_reads_them(new_york, kept):
    _, pipeline, rows = kept
    frame = zone_less(new_york, rows.filter(pl.col("txn").ne_missing(7)), "ts", "at")
    report = reconcile(pipeline, against=frame, identity=["txn"], spark=new_york).report
    assert {name: report[name].rows for name in (DEAD, MISSING, FOREIGN, DUPLICATES)} == {
        DEAD: 0,
        MISSING: 0,
        FOREIGN: -1,
        DUPLICATES: 0,
    }
    assert report.explained


def test_rows_without_a_time_are_told(spark, kept):
    _, pipeline, rows = kept
    frame = rows.with_columns(pl.when((pl.col("txn") >= 3).fill_null(True)).then(pl.col("ts")).alias("ts"))
    for identity in ((), ("txn",)):
        report = reconcile(pipeline, against=spark.createDataFrame(frame.to_arrow()), identity=identity, spark=spark).report
        assert any(note.startswith("3 rows of the outside table have no event time that can be read") for note in report.notes)
    assert report[FOREIGN].rows == -3 and report.explained


def test_rows_that_have_no_identity_are_one_another_s(spark, kept):
    """Null is an identity like any other: on both sides it is found again."""
    _, pipeline, rows = kept
    assert rows["txn"].null_count() == 1
    report = reconcile(pipeline, against=spark.createDataFrame(rows.to_arrow()), identity=["txn"], spark=spark).report
    assert (report[MISSING].rows, report[FOREIGN].rows, report.explained) == (0, 0, True)


REFUSED = {
    "no key": (lambda t: t.drop("bank"), r"has no column 'bank', which results by window need\. Its columns are window_start, total"),
    "no value": (lambda t: t.drop("total", "n"), "has no column 'total', 'n', which results by window need"),
    "text": (lambda t: t.with_columns(pl.col("total").cast(pl.String)), "'total' is string in the outside table and bigint here"),
    "a number for a window": (lambda t: t.with_columns(pl.col("window_start").dt.epoch("us")), "'window_start' of the outside table is bigint; it must be"),
    "nowhere": (lambda t: t.with_columns(pl.when(pl.col("bank") != "0").then(pl.col("window_start")).alias("window_start")), "rows of the outside table have no window_start"),
    "shifted": (lambda t: t.with_columns(pl.col("window_start") + pl.duration(seconds=1)), "has a window from 2026-.*those are other windows"),
    "hours": (lambda t: t.with_columns((pl.col("window_start") + pl.duration(hours=1)).alias("window_end")), "those are other windows"),
    "twice": (lambda t: pl.concat([t, t[:1]]), "says 2 results for the window from 2026-.* of bank='[0-3]'"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_results_that_cannot_be_compared_are_refused_by_name(spark, kept, fault):
    _, pipeline, rows = kept
    change, words = REFUSED[fault]
    with pytest.raises(ev.DefinitionError, match=words) as refused:
        reconcile(pipeline, against=spark.createDataFrame(change(by_minute(rows)).to_arrow()), spark=spark)
    assert str(refused.value).endswith("Nothing was written.")


def test_an_identity_that_cannot_be_used_is_refused_by_name(spark, kept):
    _, pipeline, rows = kept
    theirs = spark.createDataFrame(rows.rename({"txn": "id"}).to_arrow())
    for frame, identity, words in (
        (theirs, ["txn"], "the outside table has no column 'txn', which identity names"),
        (theirs, ["id"], "the archive .* has no column 'id', which identity names"),
        (
            spark.createDataFrame(rows.with_columns(pl.col("txn").cast(pl.String)).to_arrow()),
            ["txn"],
            "'txn' is string in the outside",
        ),
        (spark.createDataFrame(by_minute(rows).to_arrow()), ["bank"], "only an outside table of rows has such"),
        ("archive", ["txn"], "against 'archive' there is none"),
    ):
        with pytest.raises(ev.DefinitionError, match=words):
            reconcile(pipeline, against=frame, identity=identity, spark=spark)
    without = ev.Pipeline("upi", *pipeline.outputs, state=pipeline.state)
    with pytest.raises(ev.DefinitionError, match=r"keeps no archive\. Give it one"):
        reconcile(without, against=spark.createDataFrame(rows.to_arrow()), identity=["txn"], spark=spark)


INF, NAN = math.inf, math.nan
MINUTES = {
    # values on time, values that come late, of one minute each
    "late infinity": ([1.0, 2.0], [INF]),
    "late nothing": ([INF, 1.0], [2.0]),
    "infinities": ([INF], [-INF]),
    "late nan": ([5.0], [NAN]),
    "nan before": ([NAN, 1.0], [7.0]),
    "always infinite": ([INF], []),
    "cancelled": ([1e16, 1.0, -1e16, 3.0] * 5, []),
    "a little late": ([4e11] * 3, [0.5]),
}


@pytest.fixture(scope="module")
def floats(spark, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("floats")
    start, facts = dt.datetime(2026, 11, 8, 10, tzinfo=dt.UTC), []
    for nth, (name, (timely, late)) in enumerate(MINUTES.items()):
        at = start + dt.timedelta(minutes=nth)
        facts += [(at + dt.timedelta(seconds=k), at + dt.timedelta(seconds=k), name, value) for k, value in enumerate(timely)]
        facts += [(at, at + dt.timedelta(minutes=30, seconds=nth), name, value) for value in late]
    closing, end = (
        start + dt.timedelta(minutes=15),
        start + dt.timedelta(hours=1),
    )  # every minute is closed before the late rows come
    facts.append((closing, closing, "closing", 0.0))
    rows = pl.DataFrame([*facts, (end, end, "end", 0.0)], schema=["ts", "at", "bank", "x"], orient="row")
    rows = rows.with_columns(pl.col("ts", "at").cast(pl.Datetime("us", "UTC"))).sort("at", maintain_order=True)
    (tmp_path / "landing").mkdir()
    for nth in range(len(rows)):  # each row in a batch of its own: another order of additions than the replay's
        rows[nth : nth + 1].write_parquet(tmp_path / f"landing/{nth:03d}.parquet")
    source = ev.files("p", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("30 s"), schema="ts timestamp, at timestamp, bank string, x double", files_per_batch=20)  # fmt: skip
    minutes = source.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("x"), most=ev.max("x"), least=ev.min("x"))
    out = minutes.to("floats", ev.sqlite(str(tmp_path / "upi.db")), late=ev.divert())
    pipeline = ev.Pipeline("floats", out, state=str(tmp_path / "state"), archive=str(tmp_path / "archive"))
    pipeline.run(spark)
    return tmp_path, pipeline, rows


def same(one, other):
    return all(a == b or (math.isnan(float(a)) and math.isnan(float(b))) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("against", ["archive", "late", "rows"])
def test_floats_are_corrected_to_what_is_complete(spark, floats, against):
    tmp_path, pipeline, rows = floats
    outside = spark.createDataFrame(rows.to_arrow()) if against == "rows" else against
    found = reconcile(pipeline, against=outside, spark=spark)
    corrected = {row["bank"]: row for row in found.corrections.collect()}
    assert set(corrected) == {name for name, (_, late) in MINUTES.items() if late} - {"late nothing"}
    shown = {bank: values for bank, *values in query(tmp_path, "select bank, total, most, least from floats_corrected")}
    for name, (timely, late) in MINUTES.items():
        values = [*timely, *late]
        numbers = [value for value in values if not math.isnan(value)]
        exact = (sum(values), max(numbers), min(numbers))
        if name != "cancelled":
            assert same(map(float, shown[name]), exact), name
    assert corrected["late infinity"]["total_correction"] == INF
    assert corrected["infinities"]["total_correction"] is None and math.isnan(corrected["infinities"]["total_corrected"])
    assert corrected["nan before"]["total_correction"] is None
    assert corrected["a little late"]["total_correction"] == 0.5
    if against != "late":
        assert found.report.strange == 0 and found.report.explained, found.report
        assert found.report[UNEXPLAINED].values["total"] == 0
        assert "NaN" not in json.dumps(found.report.to_json()).replace('"nan"', "")
