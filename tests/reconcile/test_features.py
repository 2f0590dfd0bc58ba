"""Training against serving: one definition, a fast value and a complete one, and the table between them."""

import polars as pl

import eventide as ev
from eventide.reconcile import features
from tests.reconcile.test_reconcile import SCHEMA, payments


def test_the_difference_between_served_and_trained_is_what_came_late(spark, tmp_path):
    rows = payments(5_000, late_every=50)
    (tmp_path / "landing").mkdir()
    rows.write_parquet(tmp_path / "landing" / "a.parquet")
    source = ev.files(
        "clicks", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("2 s"), schema=SCHEMA
    )
    minutes = source.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    pipeline = ev.Pipeline(
        "clicks",
        minutes.to("serving", late=ev.drop()),
        minutes.to("training", late=ev.accumulate("1 hour")),
        state=str(tmp_path / "state"),
        archive=str(tmp_path / "archive"),
    )
    pipeline.run(spark)
    table = pl.from_arrow(features(pipeline, spark, served="serving", trained="training").toArrow())
    served, trained = table["n_served"].sum(), table["n_trained"].sum()
    assert served < trained
    assert table["n_difference"].sum() == trained - served
    whole = rows.group_by(pl.col("ts").dt.truncate("1m").alias("window_start"), "bank").agg(
        pl.len().alias("n"), pl.col("paise").sum()
    )
    joined = table.join(whole, on=["window_start", "bank"], how="inner")
    assert (joined["n_trained"] == joined["n"]).all() and (joined["total_trained"] == joined["paise"]).all()
    complete = pl.from_arrow(features(pipeline, spark, served="serving", trained="archive").toArrow())
    assert complete["n_trained"].sum() == 5_000 and complete["n_served"].sum() == served
