"""The books closed: emitted + corrections = everything that arrived, to the paisa, however often and wherever it is cut short."""

import datetime as dt
import os
import sqlite3

import numpy as np
import polars as pl
import pytest

import eventide as ev
from eventide.reconcile import features, reconcile
from eventide.reconcile.report import DEAD, DUPLICATES, EMITTED, FOREIGN, LATE, MISSING, REFERENCE, UNEXPLAINED, Line, Report
from eventide.tuning.tune import tune

NIGHT = dt.datetime(2026, 11, 8, 23, 0, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, at timestamp, bank string, paise bigint, txn bigint"
MINUTE = 60_000_000


def payments(rows=20_000, late_every=None, bursts=(), seed=3, amount=None):
    """Two hours of payments around midnight; late ones flush after 16 minutes, in bursts or evenly."""
    rng = np.random.default_rng(seed)
    happened = np.sort(rng.integers(0, 7_200 * 1_000, rows))
    arrived = happened + rng.integers(0, 5_000, rows)
    late = np.zeros(rows, dtype=bool)
    for start, share in bursts:
        inside = (happened >= start * 1_000) & (happened < (start + 600) * 1_000)
        late |= inside & (rng.random(rows) < share)
    if late_every:
        late[::late_every] = True
    arrived = np.where(late, happened + 960_000 + rng.integers(0, 20_000, rows), arrived)
    paise = np.full(rows, amount) if amount else rng.integers(100, 50_000, rows)
    start = np.datetime64(NIGHT.replace(tzinfo=None), "us")
    frame = pl.DataFrame(
        {"ts": start + happened.astype("timedelta64[ms]"), "at": start + arrived.astype("timedelta64[ms]")}
    ).with_columns(
        pl.all().dt.replace_time_zone("UTC"),
        pl.Series("bank", rng.integers(0, 4, rows).astype(str)),
        pl.Series("paise", paise),
        pl.Series("txn", np.arange(rows)),
    )
    return frame.sort("at", maintain_order=True)


def pipeline_over(tmp_path, rows, late, parts=3, **more):
    landing = tmp_path / "landing"
    landing.mkdir()
    size = -(-len(rows) // parts)
    for nth in range(parts):
        place = landing / f"{nth}.parquet"
        rows[nth * size : (nth + 1) * size].write_parquet(place)
        os.utime(place, (1_700_000_000 + nth, 1_700_000_000 + nth))
    source = ev.files(
        "payments", str(landing), event_time="ts", arrival="at", watermark=ev.bounded("30 s"), files_per_batch=1, schema=SCHEMA
    )
    minutes = source.window(ev.tumbling("1 minute"), by="bank").agg(
        total=ev.sum("paise"), n=ev.count(), largest=ev.max("paise")
    )
    out = minutes.to("upi_minute", ev.sqlite(str(tmp_path / "upi.db")), late=late)
    return ev.Pipeline("upi", out, state=str(tmp_path / "state"), archive=str(tmp_path / "archive"), **more)


def query(tmp_path, statement):
    with sqlite3.connect(tmp_path / "upi.db") as database:
        return database.execute(statement).fetchall()


def complete_to(rows, found, size=MINUTE):
    """Every row of the windows that can change no more."""
    end = dt.datetime.fromtimestamp(found.horizon // size * size // 1_000_000, dt.UTC)
    return rows.filter(pl.col("ts") < end)


@pytest.fixture(scope="module")
def burst(spark, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("burst")
    rows = payments(bursts=((1_800, 0.1), (4_000, 0.12)))
    twice = rows.filter(pl.col("txn") < 5)  # sent again
    broken = pl.col("txn").is_in([700, 800, 900])  # without an event time
    rows = pl.concat([rows.with_columns(pl.when(~broken).then(pl.col("ts")).alias("ts")), twice]).sort(
        "at", maintain_order=True
    )
    pipeline = pipeline_over(tmp_path, rows, ev.divert())
    pipeline.run(spark)
    return tmp_path, pipeline, rows


COLUMNS = "window_id, total_base, total_correction, n_correction, largest_corrected, rows"


def test_killed_in_the_middle_and_run_again_the_corrections_are_those_of_one_whole_run(spark, burst):
    tmp_path, pipeline, _ = burst

    def die(point):
        raise KeyboardInterrupt(point)

    with pytest.raises(KeyboardInterrupt):
        reconcile(pipeline, spark=spark, hook=die)
    some = query(tmp_path, "select * from upi_minute_corrections order by window_id")
    found = reconcile(pipeline, spark=spark)
    once = query(tmp_path, "select * from upi_minute_corrections order by window_id")
    reconcile(pipeline, spark=spark)
    assert query(tmp_path, "select * from upi_minute_corrections order by window_id") == once
    assert 0 < len(some) < len(once) == found.corrected
    assert set(some) < set(once)


def test_the_dashboard_and_its_corrections_add_up_to_the_source_to_the_paisa(spark, burst):
    tmp_path, pipeline, rows = burst
    found = reconcile(pipeline, spark=spark)
    whole = complete_to(rows, found)
    share = found.report[LATE].rows / len(whole)
    assert 0.015 < share < 0.021
    base, corrected = (
        query(tmp_path, f"select sum(total), sum(n) from {name} where window_start < '{_day_end(found)}'")[0]
        for name in ("upi_minute", "upi_minute_corrected")
    )
    assert base[0] < corrected[0]
    assert corrected == (whole["paise"].sum(), len(whole))
    by_hand = """select sum(b.total + coalesce(c.total_correction, 0)) from upi_minute b
                 left join upi_minute_corrections c using (window_id)"""
    assert query(tmp_path, by_hand)[0][0] >= base[0]
    assert found.report.explained and found.report[UNEXPLAINED].rows == 0
    largest = dict(query(tmp_path, "select window_start || bank, largest from upi_minute_corrected"))
    exact = whole.group_by(pl.col("ts").dt.truncate("1m").dt.strftime("%Y-%m-%d %H:%M:%S.000000") + pl.col("bank")).agg(
        pl.col("paise").max()
    )
    assert all(largest[window] == value for window, value in exact.iter_rows())


def _day_end(found):
    return dt.datetime.fromtimestamp(found.horizon // MINUTE * 60, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_folding_in_the_diverted_rows_gives_the_same_corrections_as_the_archive(spark, burst):
    tmp_path, pipeline, _ = burst
    reconcile(pipeline, spark=spark)
    archive = query(tmp_path, f"select {COLUMNS} from upi_minute_corrections order by 1")
    reconcile(pipeline, against="late", spark=spark)
    assert query(tmp_path, f"select {COLUMNS} from upi_minute_corrections order by 1") == archive


@pytest.mark.parametrize(("by", "minutes"), [("minute", 1), ("hour", 60), ("day", 1440)])
def test_corrections_by_period_are_the_sums_of_those_by_window(spark, burst, by, minutes):
    tmp_path, pipeline, _ = burst
    plain = pipeline.outputs[0].aggregation
    additive = plain.stream.window(plain.window, plain.keys).agg(total=ev.sum("paise"), n=ev.count())
    out = additive.to("upi_minute", ev.sqlite(str(tmp_path / "upi.db")), late=ev.divert())
    sums = ev.Pipeline("upi", out, state=pipeline.state, archive=pipeline.archive)
    reconcile(pipeline, spark=spark)
    for _ in range(2):
        reconcile(sums, by=by, spark=spark)
    values = "sum(total_correction), sum(n_correction), sum(rows)"
    start = f"window_start / {minutes * MINUTE} * {minutes * MINUTE}"
    wanted = query(tmp_path, f"select {start}, bank, {values} from upi_minute_corrections group by 1, 2 order by 1, 2")
    table = f"upi_minute_corrections_by_{by}"
    kept = query(tmp_path, f"select {start}, bank, total_correction, n_correction, rows from {table} order by 1, 2")
    assert kept == wanted
    assert len(kept) == {"minute": len(kept), "hour": 8, "day": 8}[by]


def test_the_gap_to_an_outside_table_is_split_until_nothing_is_left(spark, burst):
    _, pipeline, rows = burst
    healed = rows.with_columns(pl.coalesce("ts", "at").alias("ts")).unique("txn", maintain_order=True)
    outside = healed.filter(pl.col("txn") != 500)  # one row that they do not have
    more = rows[:1].with_columns(pl.lit(-1, dtype=pl.Int64).alias("txn"), pl.lit(777, dtype=pl.Int64).alias("paise"))
    frame = spark.createDataFrame(pl.concat([outside, more]).to_arrow())
    found = reconcile(pipeline, against=frame, identity=["txn"], spark=spark)
    report = found.report
    assert (report[MISSING].rows, report[MISSING].values["total"]) == (1, 777)
    lost = rows.filter(pl.col("txn") == 500)["paise"][0]
    assert (report[FOREIGN].rows, report[FOREIGN].values["total"]) == (-1, -lost)
    again = rows.filter(pl.col("txn") < 5).unique("txn")
    assert (report[DUPLICATES].rows, report[DUPLICATES].values["total"]) == (-5, -again["paise"].sum())
    broken = rows.filter(pl.col("ts").is_null())
    assert (report[DEAD].rows, report[DEAD].values["total"]) == (3, broken["paise"].sum())
    assert report.explained
    assert report[REFERENCE].values["total"] == complete_to(pl.concat([outside, more]), found)["paise"].sum()


def test_a_stream_that_reads_one_point_six_percent_low_is_explained_and_tune_names_what_closes_it(spark, tmp_path):
    rows = payments(20_000, late_every=125 // 2, amount=1_000)  # every 62nd row: 1.6%
    pipeline = pipeline_over(tmp_path, rows, ev.drop())
    pipeline.run(spark)
    found = reconcile(pipeline, spark=spark)
    whole = complete_to(rows, found)
    emitted = found.report["emitted"].values["total"]
    gap = 1 - emitted / whole["paise"].sum()
    assert 0.0155 < gap < 0.0167
    assert found.report[LATE].values["total"] == whole["paise"].sum() - emitted
    assert found.report.explained
    tuning = tune(pipeline, spark=spark, on_time=0.98, in_the_end=1.0)
    allowed = tuning.curve.least_bound(1.0) - 30_000_000
    assert tuning.point(30_000_000, allowed).refused == 0 and tuning.point(30_000_000, allowed - 1_000_000).refused > 0
    assert 14 * MINUTE < allowed < 17 * MINUTE
    assert tuning.point(30_000_000, allowed).state == 1 + allowed / MINUTE


def test_where_nothing_was_late_there_is_nothing_to_correct(spark, tmp_path):
    rows = payments(2_000)
    pipeline = pipeline_over(tmp_path, rows, ev.divert())
    pipeline.run(spark)
    for against in ("archive", "late"):
        found = reconcile(pipeline, against=against, spark=spark)
        assert (found.corrected, found.report[LATE].rows, found.report.explained) == (0, 0, True)


def test_totals_may_be_larger_than_any_number_of_their_type(spark, tmp_path):
    rows = payments(60, late_every=10, amount=2**60)
    pipeline = pipeline_over(tmp_path, rows, ev.divert())
    pipeline.run(spark)
    for against in ("archive", "late"):
        found = reconcile(pipeline, against=against, spark=spark)
        assert found.report.explained
        whole = sum(complete_to(rows, found)["paise"].to_list())
        assert found.report[EMITTED].values["total"] + found.report[LATE].values["total"] == whole > 2**63


def test_an_archive_younger_than_the_run_corrects_nothing_that_it_does_not_have(spark, tmp_path):
    rows = payments(3_000, late_every=40)
    pipeline = pipeline_over(tmp_path, rows, ev.drop())
    old = ev.Pipeline("upi", *pipeline.outputs, state=pipeline.state)
    later = tmp_path / "landing" / "2.parquet"
    later.rename(tmp_path / "2.parquet")
    old.run(spark)
    (tmp_path / "2.parquet").rename(later)
    pipeline.run(spark)
    with pytest.raises(ev.DefinitionError, match=r"Nothing was written\. Reconcile the days that it has") as refused:
        reconcile(pipeline, spark=spark)
    assert "upi_minute_corrections" not in {name for (name,) in query(tmp_path, "select name from sqlite_master")}
    since = str(refused.value).split('since="')[1].split('"')[0]
    assert reconcile(pipeline, since=since, spark=spark).report.explained


def test_a_key_called_op_and_aggregates_that_are_estimates(spark, tmp_path):
    rows = payments(4_000, late_every=50).with_columns((pl.col("paise") / 7).alias("share")).rename({"bank": "op"})
    (tmp_path / "landing").mkdir()
    rows.write_parquet(tmp_path / "landing" / "a.parquet")
    source = ev.files(
        "payments", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("30 s"),
        schema=SCHEMA.replace("bank", "op") + ", share double",
    )  # fmt: skip
    minutes = source.window(ev.tumbling("10 minutes"), by="op").agg(
        total=ev.sum("paise"), shares=ev.sum("share"), mean=ev.mean("share"), median=ev.quantile("share", 0.5)
    )
    out = minutes.to("upi", ev.sqlite(str(tmp_path / "upi.db")), late=ev.drop())
    pipeline = ev.Pipeline("upi", out, state=str(tmp_path / "state"), archive=str(tmp_path / "archive"))
    pipeline.run(spark)
    found = reconcile(pipeline, spark=spark)
    whole = complete_to(rows, found, 10 * MINUTE)
    assert found.report.explained and found.report.strange == 0
    assert query(tmp_path, "select sum(total) from upi_corrected")[0][0] == whole["paise"].sum()
    corrected = query(tmp_path, "select window_id, rows from upi_corrections order by 1")
    assert corrected and all(rows > 0 for _, rows in corrected)
    reconcile(pipeline, spark=spark)
    assert query(tmp_path, "select window_id, rows from upi_corrections order by 1") == corrected


def test_an_output_under_a_view_is_refused_and_told_what_to_do_instead(tmp_path):
    """Results that `where` holds back would be taken for results that are missing."""
    payments = ev.files("p", str(tmp_path), schema="ts timestamp, paise bigint", event_time="ts", watermark=ev.bounded("0 s"))
    shown = payments.window(ev.tumbling("1 minute")).agg(n=ev.count()).where("n > 2")
    pipe = ev.Pipeline("view", shown.to("big", late=ev.accumulate("5 s")), state=str(tmp_path / "state"))
    with pytest.raises(ev.DefinitionError, match=r"'big' shows its results under a view \(where\(\"n\" > 2\)\)"):
        reconcile(pipe)
    with pytest.raises(ev.DefinitionError, match=r"under a view.*backfill\(deliver=True\)"):
        features(pipe, None)


def test_rows_that_no_output_kept_are_not_folded_in_and_the_one_that_kept_them_is_named(tmp_path):
    payments = ev.files("p", str(tmp_path), schema="ts timestamp, paise bigint", event_time="ts", watermark=ev.bounded("0 s"))
    counts = payments.window(ev.tumbling("1 minute")).agg(n=ev.count())
    wall, aside = counts.to("wall", late=ev.drop()), counts.to("aside", late=ev.divert())
    for outputs, told in (([wall], "the archive$"), ([wall, aside], r"or an output that keeps them \(--output\): 'aside'$")):
        pipe = ev.Pipeline("several", *outputs, state=str(tmp_path / "state"))
        with pytest.raises(ev.DefinitionError, match=rf"'wall' keeps no late rows.*{told.replace('$', '')}\.$"):
            reconcile(pipe, against="late")


def test_sessions_are_refused_and_told_what_to_do_instead(spark, tmp_path):
    pipeline = pipeline_over(tmp_path, payments(50), ev.drop())
    sessions = pipeline.aggregation.stream.window(ev.session("1 minute"), "bank").agg(n=ev.count())
    with pytest.raises(ev.DefinitionError, match=r"pipeline\.backfill\(deliver=True\) computes them again"):
        reconcile(ev.Pipeline("s", sessions.to("s", late=ev.drop()), state=str(tmp_path / "s")), spark=spark)


def lines(emitted, late, left, rows=0):
    return (Line("emitted", 1, emitted), Line(LATE, 1, late), Line(UNEXPLAINED, rows, left))


def test_what_counts_as_explained():
    assert Report(lines({"total": 1e10}, {"total": 3.0}, {"total": -1.3e-5})).explained  # rounding
    assert not Report(lines({"total": 4e-7}, {"total": 4e-7}, {"total": 8e-7})).explained
    assert not Report(lines({"total": 5}, {"total": 0}, {"total": 1})).explained
    assert not Report(lines({}, {}, {}, rows=2)).explained
    assert not Report(lines({}, {}, {}), strange=1).explained and Report(lines({}, {}, {})).explained
    inf, nan = float("inf"), float("nan")
    assert Report(lines({"total": nan}, {"total": nan}, {"total": 0.0}), rounding={"total": nan}).explained
    assert not Report(lines({"total": inf}, {"total": 1.0}, {"total": -inf}), rounding={"total": inf}).explained
    assert not Report(lines({"total": inf}, {"total": 1.0}, {"total": 5.0}), rounding={"total": inf}).explained
    assert Report(lines({"total": 0.0}, {"total": 0.0}, {"total": 3.0}), rounding={"total": 4.0}).explained  # sums that cancel
