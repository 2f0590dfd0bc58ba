"""Lateness measured by the scan itself, and the archive that the same scan keeps."""

import datetime as dt
import os

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import eventide as ev
from eventide.cli.main import main
from eventide.engine.run import Run
from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, TIME
from eventide.lateness import measured as live
from eventide.lateness.bias import bias
from eventide.lateness.measured import Lateness, compact, merge_parts
from eventide.lateness.witness import HOUR, LATENESS, LatenessWitness
from eventide.model.window import Sliding
from eventide.state.archive import archived_files
from eventide.state.ledger import Ledger
from eventide.state.store import Store
from eventide.tuning.tune import tune

SECOND = 1_000_000
NIGHT = dt.datetime(2026, 11, 8, 23, 30, tzinfo=dt.UTC)


def seen_rows(rows, seed=1, slow=None):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 3 * HOUR, rows))
    region = rng.integers(0, 20, rows)
    late = rng.exponential(6 * SECOND, rows) * np.where(region == slow, 20, 1)
    time = (arrival - late).astype(np.int64)
    top = np.maximum.accumulate(time)
    frame = {ARRIVAL: arrival, TIME: time, "__before": np.concatenate([[-(2**63)], top[:-1]]), "region": region.astype(str)}
    return pl.DataFrame(frame).with_columns(pl.lit(None, dtype=pl.String).alias(DEAD), pl.lit(False).alias(MARKER))


def witnessed(rows, tmp_path, chunk, batches=1, dimensions=("region",)):
    store = Store(str(tmp_path))
    size = len(rows) // batches
    for batch in range(batches):
        witness = LatenessWitness(store, batch, (0, "0"), "clicks", Sliding(60 * SECOND, 60 * SECOND), dimensions)
        for start in range(batch * size, (batch + 1) * size, chunk):
            witness.see(rows[start : min(start + chunk, (batch + 1) * size)])
        witness.close()
    return store


LEDGER = Ledger(batch=99)
SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


def rank_errors(line, exact):
    return {label: abs(np.searchsorted(exact, line[label]) / len(exact) - share) for label, share in SHARES}


def lateness_of(rows):
    return np.sort((rows[ARRIVAL] - rows[TIME]).to_numpy())


@pytest.mark.parametrize(("chunk", "batches"), [(5_000, 1), (5_000, 6), (450_000, 1), (900_000, 2)])
def test_percentiles_are_within_one_percent_of_rank_by_lane_hour_and_value(tmp_path, chunk, batches):
    rows = seen_rows(900_000, slow=13)
    measured = Lateness(live._standing(witnessed(rows, tmp_path, chunk, batches), LEDGER)[0], {}, {})
    cells = [(measured.by()[0], rows)]
    for hour in measured.by("hour"):
        cells.append((hour, rows.filter(pl.col(ARRIVAL) // HOUR == hour["hour"])))
    for value in measured.by("value", dimension="region"):
        cells.append((value, rows.filter(pl.col("region") == value["value"])))
    for cell in measured.by("hour", "value", dimension="region"):
        mine = (pl.col(ARRIVAL) // HOUR == cell["hour"]) & (pl.col("region") == cell["value"])
        cells.append((cell, rows.filter(mine)))
    assert len(cells) == 1 + 3 + 20 + 60
    for line, mine in cells:
        exact = lateness_of(mine)
        errors = rank_errors(line, exact)
        assert max(errors.values()) < 0.01, (line, errors)
        assert errors["p99"] < 0.003 and errors["p999"] < 0.001, (line, errors)
        assert (line["max"], line["rows"]) == (exact[-1], len(exact))


def test_a_lane_in_which_every_fourth_row_is_slow_is_not_taken_for_a_slow_one(tmp_path):
    rows = seen_rows(600_000)
    slow = np.where(np.arange(len(rows)) % 4 == 0, 600 * SECOND, 0)
    rows = rows.with_columns(pl.col(TIME) - slow)
    measured = Lateness(live._standing(witnessed(rows, tmp_path, 600_000, dimensions=()), LEDGER)[0], {}, {})
    assert max(rank_errors(measured.by()[0], lateness_of(rows)).values()) < 0.01


@pytest.mark.parametrize("chunk", [5_000, 250_000])
def test_what_is_counted_by_value_is_exact(tmp_path, chunk):
    rows = seen_rows(500_000)
    measured = Lateness(live._standing(witnessed(rows, tmp_path, chunk, batches=2), LEDGER)[0], {}, {})
    late = rows.filter(pl.col(TIME) // (60 * SECOND) * (60 * SECOND) + 60 * SECOND <= pl.col("__before"))
    counts = measured.counts("region")
    assert len(counts) == 20
    for value, (number, total) in counts.items():
        mine = pl.col("region") == value
        assert (number, total) == (len(late.filter(mine)), len(rows.filter(mine)))


def test_compaction_changes_no_number_and_survives_being_cut_short(tmp_path, monkeypatch):
    store = witnessed(seen_rows(30_000), tmp_path, 1_000, batches=6)
    before = Lateness(live._standing(store, LEDGER)[0], {}, {}).by("lane", dimension="region")
    monkeypatch.setattr(live, "COMPACT_EVERY", 3)
    monkeypatch.setattr(Store, "delete", lambda self, paths: None)
    compact(store, Ledger(batch=3))
    between = Lateness(live._standing(store, LEDGER)[0], {}, {}).by("lane", dimension="region")
    monkeypatch.undo()
    monkeypatch.setattr(live, "COMPACT_EVERY", 3)
    compact(store, Ledger(batch=3))
    after = Lateness(live._standing(store, LEDGER)[0], {}, {}).by("lane", dimension="region")
    for line in (between, after):
        assert [(x["rows"], x["max"], x["late_at_window"]) for x in line] == [
            (x["rows"], x["max"], x["late_at_window"]) for x in before
        ]
    assert len(store.files(LATENESS)) == 3


def test_a_slow_region_is_named_by_what_the_run_measured_of_itself(tmp_path):
    store = witnessed(seen_rows(200_000, slow=13), tmp_path, 20_000)
    found = bias(Lateness(live._standing(store, LEDGER)[0], {}, {}).counts("region"))
    assert found[0].value == "13" and found[0].flagged and not found[1].flagged


def payments(rows=3_000, seed=3):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 7_200, rows))
    delay = np.where(rng.random(rows) < 0.02, rng.integers(600, 1500, rows), rng.integers(0, 20, rows))
    start = np.datetime64(NIGHT.replace(tzinfo=None), "us")
    frame = pl.DataFrame(
        {"ts": start + (arrival - delay).astype("timedelta64[s]"), "at": start + arrival.astype("timedelta64[s]")}
    )
    return frame.with_columns(
        pl.all().dt.replace_time_zone("UTC"),
        pl.Series("bank", rng.integers(0, 3, rows).astype(str)),
        pl.Series("paise", rng.integers(100, 50_000, rows)),
    )


def upi(tmp_path, **more):
    source = ev.files(
        "payments", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("30 s"), files_per_batch=1,
        schema="ts timestamp, at timestamp, bank string, paise bigint",
    )  # fmt: skip
    minutes = source.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    return ev.Pipeline("upi", minutes.to("minutes", late=ev.accumulate("5 minutes")), state=str(tmp_path / "state"), **more)


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("upi")
    (tmp_path / "landing").mkdir()
    rows = payments()
    for nth in range(3):
        place = tmp_path / "landing" / f"{nth}.parquet"
        rows[nth * 1_000 : (nth + 1) * 1_000].write_parquet(place)
        os.utime(place, (1_700_000_000 + nth, 1_700_000_000 + nth))
    pipeline = upi(tmp_path, archive=str(tmp_path / "archive"), measure=["bank"])
    pipeline.run(spark)
    return pipeline, rows


def test_the_archive_holds_every_event_once_by_day_of_arrival_and_event(spark, ran):
    pipeline, rows = ran
    kept = pipeline.archived(spark)
    assert kept.count() == 3_000 and kept.select("_lane", "_offset").distinct().count() == 3_000
    assert kept.agg({"paise": "sum"}).first()[0] == rows["paise"].sum()
    days = {tuple(part.split("=")[1] for part in f.path.split("/")[-3:-1]) for f in archived_files(pipeline)}
    assert ("2026-11-08", "2026-11-08") in days and ("2026-11-09", "2026-11-08") in days


def killed(pipeline, spark, point):
    def die(at):
        if at == point:
            raise RuntimeError(f"killed at {at}")

    run = Run(pipeline, spark, str(pipeline.state), hook=die)
    run.open()
    with pytest.raises(Exception, match="killed at"):
        run.start(available_now=True).awaitTermination()
    run.close()


def test_killed_anywhere_in_a_batch_the_archive_holds_every_event_once(spark, tmp_path):
    (tmp_path / "landing").mkdir()
    payments(500).write_parquet(tmp_path / "landing" / "0.parquet")
    pipeline = upi(tmp_path, archive=str(tmp_path / "archive"), measure=True)
    for point in ("scan", "deliver"):
        killed(pipeline, spark, point)
        with pytest.raises(ev.DefinitionError, match="holds nothing yet"):
            pipeline.archived(spark)
    pipeline.run(spark)
    assert pipeline.archived(spark).count() == 500
    assert pipeline.lateness().by()[0]["rows"] == 500


def test_a_batch_run_again_writes_the_archive_once(spark, ran):
    pipeline, _ = ran
    before = len(archived_files(pipeline))
    pipeline.run(spark)
    assert len(archived_files(pipeline)) == before and pipeline.archived(spark).count() == 3_000


def test_a_backfill_from_the_archive_gives_the_verdicts_of_the_live_run(spark, ran):
    pipeline, _ = ran
    live_counts = pipeline.panes(spark).groupBy("timing").count()
    done = pipeline.backfill(spark=spark)
    assert done.rows["in"] == 3_000
    from eventide.state.journal import Journal, LocalFiles

    verdicts = Journal(LocalFiles(str(pipeline.state))).last()["ledger"]["outputs"]["minutes"]
    assert {k: done.outputs["minutes"].get(k, 0) for k in ("on_time", "admitted", "refused")} == {
        k: verdicts.get(k, 0) for k in ("on_time", "admitted", "refused")
    }
    assert live_counts.count() >= 1


def test_tune_asks_the_archive_of_a_pipeline_that_keeps_one(spark, ran):
    pipeline, _ = ran
    tuning = tune(pipeline, spark=spark)
    from eventide.state.journal import Journal, LocalFiles

    verdicts = Journal(LocalFiles(str(pipeline.state))).last()["ledger"]["outputs"]["minutes"]
    point = tuning.point(30 * SECOND, 300 * SECOND)
    assert (point.on_time, point.admitted, point.refused) == tuple(
        verdicts.get(k, 0) for k in ("on_time", "admitted", "refused")
    )


def test_a_run_reports_its_own_lateness(ran):
    pipeline, rows = ran
    measured = pipeline.lateness()
    line = measured.by("source", "lane")[0]
    assert (line["source"], line["rows"]) == ("payments", 3_000)
    assert line["max"] == (rows["at"] - rows["ts"]).max() // dt.timedelta(microseconds=1)
    assert {x["value"] for x in measured.by("value", dimension="bank")} == {"0", "1", "2"}
    assert merge_parts(measured.parts, ("source",))["rows"].sum() == 6_000  # once for all, once by bank


def test_the_archive_measured_by_a_column_says_what_the_run_said(spark, ran):
    pipeline, _ = ran
    past, live = pipeline.past_lateness(["bank"], spark=spark), pipeline.lateness()

    def exact(lines):
        return [{k: v for k, v in line.items() if not k.startswith("p")} for line in lines]

    assert exact(past.by("lane", "hour")) == exact(live.by("lane", "hour"))
    assert exact(past.by("hour", "value", dimension="bank")) == exact(live.by("hour", "value", dimension="bank"))
    assert all(line["p999"] <= line["max"] for line in (*past.by("hour"), *live.by("hour")))
    assert past.counts("bank") == live.counts("bank") and past.shares == live.shares
    assert past.verdicts("minutes") == live.verdicts("minutes") and past.causes("minutes") == live.causes("minutes")
    assert pipeline.archived(spark).count() == 3_000  # nothing was added


def test_the_command_measures_the_archive_by_columns_that_the_run_did_not(spark, ran, tmp_path):
    pipeline, _ = ran
    place = tmp_path / "upi.py"
    landing = pipeline.aggregation.stream.sources[0].path
    place.write_text(
        "import eventide as ev\n"
        f"payments = ev.files('payments', {landing!r}, event_time='ts', arrival='at', watermark=ev.bounded('30 s'), files_per_batch=1,"
        " schema='ts timestamp, at timestamp, bank string, paise bigint')\n"
        "minutes = payments.window(ev.tumbling('1 minute'), by='bank').agg(total=ev.sum('paise'), n=ev.count())\n"
        f"pipeline = ev.Pipeline('upi', minutes.to('minutes', late=ev.accumulate('5 minutes')), state={pipeline.state!r},"
        f" archive={pipeline.archive!r})\n"
    )
    done = CliRunner().invoke(main, ["lateness", str(place), "--archive", "--column", "bank"])
    assert done.exit_code == 0, done.output
    assert "3,000 rows" in done.output and "By bank" in done.output
    refused = CliRunner().invoke(main, ["lateness", str(place), "--column", "bank"])
    assert refused.exit_code == 2 and "--archive" in refused.output
