"""The same answers from Spark: the drift check, the adapter, the backfill, and maps of a pipeline's rows."""

from __future__ import annotations

import os
from dataclasses import replace

import polars as pl
import pytest

import eventide as ev
from eventide.migration import DriftWatch, Upcast, upcast
from eventide.migration.data.drift import DriftCheck
from eventide.migration.data.drift_spark import counts, spark_drift, with_kind
from eventide.migration.data.history import Filled, fill
from eventide.migration.plan.planning import propose
from tests.migration.desk import CREATED_AT, RENAME, SIGNUP_DATE, USER_ID, record
from tests.migration.test_drift import DATES, FARES, FOUR, rides

PLAN = propose("AVRO", record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), said=RENAME)


def spoilt(count: int) -> pl.DataFrame:
    """Rides of which every 97th drifts, in all three ways."""
    wrong, kind = pl.col("ride_id") % 97 == 3, pl.col("ride_id") // 97 % 3
    return rides(count).with_columns(
        pl.when(wrong & (kind == 0)).then(None).when(wrong & (kind == 1)).then(-1).otherwise("fare_cents").alias("fare_cents"),
        pl.when(wrong & (kind == 2)).then(None).otherwise("pricing").alias("pricing"),
    )


def on_spark(spark, frame: pl.DataFrame, path):
    frame.write_parquet(path)
    return spark.read.parquet(str(path))


def test_both_engines_count_alike(spark, tmp_path):
    for frame, mapping in ((spoilt(5_000), FARES), (FOUR, DATES)):
        here = DriftCheck((mapping,))(frame)
        there = spark_drift(on_spark(spark, frame, tmp_path / f"{mapping.change}.parquet"), (mapping,), most=3)
        assert there.counts == here.counts and len(there.examples) == min(3, here.drifted)


def test_a_query_of_ones_own_can_observe_the_kinds(spark, tmp_path):
    from pyspark.sql import Observation

    seen = Observation("drift")
    frame = with_kind(on_spark(spark, spoilt(1_000), tmp_path / "a.parquet"), (FARES,)).observe(seen, *counts())
    assert frame.count() == 1_000
    assert seen.get == DriftCheck((FARES,))(spoilt(1_000)).counts


@pytest.mark.parametrize("shape", ["old", "both", "new"])
def test_both_engines_read_either_shape_alike(spark, tmp_path, shape):
    frame = {"old": rides(50).drop("pricing"), "new": rides(50).drop("fare_cents"), "both": spoilt(500)}[shape]
    there = on_spark(spark, frame, tmp_path / "a.parquet")
    for to in ("new", "old"):
        here = upcast(frame, FARES, to=to)
        found = pl.from_arrow(upcast(there, FARES, to=to).toArrow())
        assert found.sort("ride_id").select(here.columns).to_dicts() == here.sort("ride_id").to_dicts()
    dates = {"old": FOUR.drop("created_at"), "new": FOUR.drop("signup_date"), "both": FOUR}[shape]
    found = upcast(on_spark(spark, dates, tmp_path / "b.parquet"), PLAN)
    assert found.columns == ["user_id", "created_at"] and dict(found.dtypes)["created_at"] == "timestamp"


def test_a_backfill_is_shared_out_among_tasks(spark, tmp_path):
    for i in range(5):
        rides(20).drop("pricing").write_parquet(tmp_path / f"{i}.parquet")
    assert fill(str(tmp_path), Upcast.of(FARES, keep=True), "m", spark=spark) == Filled(5, 0, 100)
    assert fill(str(tmp_path), Upcast.of(FARES, keep=True), "m", spark=spark) == Filled(0, 5, 0)
    assert (
        pl.read_parquet(tmp_path / "3.parquet")["pricing"].struct.field("base").to_list() == rides(20)["fare_cents"].to_list()
    )


def landed(tmp_path, frame: pl.DataFrame, files: int = 4):
    timed = frame.with_columns(ts=pl.from_epoch(pl.col("ride_id"), time_unit="s").dt.replace_time_zone("UTC"))
    (tmp_path / "in").mkdir()
    for i, part in enumerate(timed.iter_slices(-(-len(timed) // files))):
        path = tmp_path / "in" / f"{i}.parquet"
        part.write_parquet(path)
        os.utime(path, (1_700_000_000 + i,) * 2)  # files of one moment have no order among themselves
    return str(tmp_path / "in")


def total(rows: pl.DataFrame) -> pl.DataFrame:
    pricing = pl.col("pricing").struct
    return rows.with_columns(amount=pricing.field("base") + pricing.field("surge") + pricing.field("tax"))


def pipeline(tmp_path, source, watch, state: str = "state"):
    sums = source.map(watch).map(Upcast.of(FARES)).map(total).window(ev.tumbling("1 minute")).agg(total=ev.sum("amount"))
    return ev.Pipeline("rides", sums.to("totals", late=ev.drop()), state=str(tmp_path / state))


def test_a_pipeline_checks_every_event_and_reads_either_shape(spark, tmp_path):
    frame = spoilt(4_000)
    source = ev.files(
        "rides", landed(tmp_path, frame), event_time="ts", watermark=ev.ascending(), max_ahead=None, files_per_batch=1
    )
    watch = DriftWatch("m", (FARES,), key=("ride_id",))
    made = pipeline(tmp_path, source, watch)
    handle = made.run(spark)
    assert handle.rows["in"] == 4_000
    assert watch.total.counts == DriftCheck((FARES,))(frame).counts
    assert [e["ride_id"] for e in watch.total.examples][:3] == [3, 100, 197]
    found = {r["window_start"]: r["total"] for r in made.panes(spark).collect()}
    wanted = (
        total(upcast(frame, FARES)).group_by(pl.col("ride_id") // 60).agg(pl.sum("amount")).sort("ride_id")["amount"].to_list()
    )
    assert list(dict(sorted(found.items())).values()) == wanted[: len(found)] and len(found) >= 65


def test_a_batch_that_is_run_again_is_told_again_alike(spark, tmp_path):
    """The process dies after the observers were told and before the batch was committed."""
    from eventide.engine.run import Run

    frame = spoilt(4_000)
    source = ev.files(
        "rides", landed(tmp_path, frame), event_time="ts", watermark=ev.ascending(), max_ahead=None, files_per_batch=1
    )
    told: dict[int, list] = {}

    class Noting(DriftWatch):
        def told(self, pipeline, batch, seen):
            told.setdefault(batch, []).append(
                {k: sum(s["counts"][k] for s in seen) for k in ("agree", "differ", "old_only", "new_only")}
            )

    class Died(Exception):
        pass

    def run(dies_in: int | None) -> None:
        made = Run(pipeline(tmp_path, source, Noting("m", (FARES,))), spark, str(tmp_path / "state"))
        made.open()
        commit = made.journal.commit

        def dying(ledger, facts):
            if ledger.batch == dies_in:
                raise Died
            return commit(ledger, facts)

        made.journal.commit = dying
        try:
            made.start(available_now=True).awaitTermination()
        finally:
            made.close()

    with pytest.raises(Exception, match="Died"):
        run(2)
    run(None)
    assert sorted(told) == [0, 1, 2, 3] and len(told[2]) == 2 and told[2][0] == told[2][1]
    sums = {k: sum(batch[-1][k] for batch in told.values()) for k in ("agree", "differ", "old_only", "new_only")}
    here = DriftCheck((FARES,))(frame).counts
    assert sums == {k: here[k] for k in sums}


def test_what_cannot_be_compared_is_said_before_the_first_row(spark, tmp_path):
    source = ev.files("rides", landed(tmp_path, rides(60)), event_time="ts", watermark=ev.ascending(), max_ahead=None)
    texts = replace(FARES, backward={"fare_cents": "CAST(pricing.base AS STRING)"})
    with pytest.raises(ev.DefinitionError, match="the drift of migration 'm' cannot be checked"):
        pipeline(tmp_path, source, DriftWatch("m", (texts,))).run(spark)
