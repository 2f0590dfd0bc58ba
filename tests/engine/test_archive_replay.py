"""What the archive gives back when it is read again: the same rows, and the same dead letters for the same reasons."""

import datetime as dt
import os

import polars as pl
import pytest

import eventide as ev
from eventide.engine.run import Run
from eventide.state.journal import Journal
from eventide.state.records import record_files

START = dt.datetime(2026, 11, 8, 12, tzinfo=dt.UTC)


def instants(seconds):
    return [None if s is None else START + dt.timedelta(seconds=s) for s in seconds]


def land(place, frame, arrival):
    place.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(place)
    os.utime(place, (arrival, arrival))


def after_start(seconds):
    return START.timestamp() + seconds


def clicks(tmp_path, name, time, **more):
    return ev.files(
        name, str(tmp_path / name), event_time=time, watermark=ev.bounded("10 s"), files_per_batch=1,
        schema=f"{time} timestamp, shop string, n bigint", **more,
    )  # fmt: skip


def pipeline_of(tmp_path, stream):
    minutes = stream.window(ev.tumbling("1 minute"), by="shop").agg(total=ev.sum("n"))
    late = ev.divert()
    return ev.Pipeline("clicks", minutes.to("m", late=late), state=str(tmp_path / "state"), archive=str(tmp_path / "archive"))


def counts(rows):
    return {name: rows.get(name, 0) for name in ("in", "dead", "late_at_source")}


def verdicts(outputs):
    return {name: outputs["m"].get(name, 0) for name in ("on_time", "admitted", "refused")}


def assert_replayed_alike(pipeline, spark):
    ledger = Journal(record_files(pipeline.state)).last()["ledger"]
    done = pipeline.backfill(spark=spark)
    assert counts(done.rows) == counts(ledger["rows"])
    assert verdicts(done.outputs) == verdicts(ledger["outputs"])
    reasons = [sorted((r["offset"], r["reason"]) for r in p.dead_letters(spark).collect()) for p in (done.pipeline, pipeline)]
    assert reasons[0] == reasons[1]
    return done


def test_dead_letters_stay_dead_and_late_rows_keep_their_place(spark, tmp_path):
    shops = ["a", "b", "a", "b", "a"]
    times = pl.Series("ts", instants([0, 1, None, 70, 150]), dtype=pl.Datetime("us", "UTC"))
    unfit = pl.DataFrame([times, pl.Series("shop", shops), pl.Series("n", ["1", "many", "3", "4", "few"])])
    land(tmp_path / "web" / "0.parquet", unfit, after_start(200))
    later = pl.Series("ts", instants([300, 5]), dtype=pl.Datetime("us", "UTC"))
    land(
        tmp_path / "web" / "1.parquet",
        pl.DataFrame([later, pl.Series("shop", ["a", "b"]), pl.Series("n", [6, 7])]),
        after_start(400),
    )
    pipeline = pipeline_of(tmp_path, clicks(tmp_path, "web", "ts"))
    pipeline.run(spark)
    done = assert_replayed_alike(pipeline, spark)
    assert counts(done.rows)["dead"] == 3
    late = done.pipeline.late(spark).collect()
    assert [(row["n"], row["_lane"], row["_offset"]) for row in late] == [
        (row["n"], row["_lane"], row["_offset"]) for row in pipeline.late(spark).collect()
    ]
    assert len(late) == 1


@pytest.mark.parametrize("unit", ["us", "s"])
def test_merged_sources_whose_time_columns_have_other_names_are_replayed(spark, tmp_path, unit):
    start = int(START.timestamp()) * (1 if unit == "s" else 1_000_000)
    step = 1 if unit == "s" else 1_000_000
    numbers = pl.DataFrame({"created": [start, start + 61 * step, None], "shop": ["a", "b", "a"], "n": [1, 2, 3]})
    land(tmp_path / "app" / "0.parquet", numbers, after_start(100))
    times = pl.Series("ts", instants([0, 65]), dtype=pl.Datetime("us", "UTC"))
    land(
        tmp_path / "web" / "0.parquet",
        pl.DataFrame([times, pl.Series("shop", ["a", "b"]), pl.Series("n", [6, 7])]),
        after_start(90),
    )
    app = ev.files(
        "app", str(tmp_path / "app"), event_time="created", watermark=ev.bounded("10 s"), time_unit=unit,
        schema="created bigint, shop string, n bigint",
    )  # fmt: skip
    pipeline = pipeline_of(tmp_path, ev.merge(clicks(tmp_path, "web", "ts"), app))
    pipeline.run(spark)
    done = assert_replayed_alike(pipeline, spark)
    assert counts(done.rows)["in"] == 5 and counts(done.rows)["dead"] == 1


def test_a_batch_run_again_with_a_mended_transform_is_archived_once(spark, tmp_path):
    times = pl.Series("ts", instants([0, 1]), dtype=pl.Datetime("us", "UTC"))
    land(
        tmp_path / "web" / "0.parquet",
        pl.DataFrame([times, pl.Series("shop", ["a", "b"]), pl.Series("n", [1, 2])]),
        after_start(9),
    )
    source = clicks(tmp_path, "web", "ts")
    days = source.transform(lambda rows: rows.withColumn("ts", rows["ts"] - dt.timedelta(days=1)))

    def die(point):
        if point == "scan":
            raise RuntimeError("killed")

    run = Run(pipeline_of(tmp_path, days), spark, str(tmp_path / "state"), hook=die)
    run.open()
    with pytest.raises(Exception, match="killed"):
        run.start(available_now=True).awaitTermination()
    run.close()
    mended = pipeline_of(tmp_path, source.transform(lambda rows: rows))
    mended.run(spark)
    assert mended.archived(spark).count() == 2


def marked(tmp_path):
    """A source whose marker records say how far it is complete, in a column of its own."""
    return ev.files(
        "web", str(tmp_path / "web"), event_time="ts", watermark=ev.punctuated(when="shop = 'marker'", value="upto"),
        schema="ts timestamp, shop string, n bigint, upto timestamp",
    )  # fmt: skip


def land_marked(tmp_path):
    times = pl.Series("ts", instants([0, None, 61, 5]), dtype=pl.Datetime("us", "UTC"))
    upto = pl.Series("upto", instants([None, 60, None, None]), dtype=pl.Datetime("us", "UTC"))
    shops = pl.Series("shop", ["a", "marker", "a", "a"])
    land(tmp_path / "web" / "0.parquet", pl.DataFrame([times, shops, pl.Series("n", [1, 0, 3, 4]), upto]), after_start(90))


def test_markers_are_markers_again(spark, tmp_path):
    land_marked(tmp_path)
    pipeline = pipeline_of(tmp_path, marked(tmp_path))
    pipeline.run(spark)
    done = assert_replayed_alike(pipeline, spark)
    assert done.rows["markers"] == 1 and verdicts(done.outputs)["refused"] == 1


def test_a_watermark_whose_column_was_not_archived_is_refused(spark, tmp_path):
    land_marked(tmp_path)
    times = pl.Series("ts", instants([0]), dtype=pl.Datetime("us", "UTC"))
    land(tmp_path / "app" / "0.parquet", pl.DataFrame([times, pl.Series("shop", ["a"]), pl.Series("n", [6])]), after_start(90))
    pipeline = pipeline_of(tmp_path, ev.merge(marked(tmp_path), clicks(tmp_path, "app", "ts")))
    pipeline.run(spark)
    with pytest.raises(ev.DefinitionError, match="watermark of source 'web' reads upto"):
        pipeline.backfill(spark=spark)
