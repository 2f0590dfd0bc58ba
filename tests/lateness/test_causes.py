"""Late rows by cause while a pipeline runs."""

import datetime as dt

import polars as pl
import pytest

import eventide as ev
from eventide.lateness.witness import DISORDER, IDLENESS
from eventide.tuning.tune import tune

NOON = dt.datetime(2026, 11, 8, 12, tzinfo=dt.UTC)
DEFINITION = """
import eventide as ev
source = ev.files("clicks", r"{root}/landing", event_time="ts", arrival="at", watermark=ev.bounded("1 s"), lane="directory",
                  idle_after="1 minute", schema="ts timestamp, at timestamp, region string")
minutes = source.window(ev.tumbling("1 minute")).agg(n=ev.count())
pipeline = ev.Pipeline("clicks", minutes.to("strict", late=ev.drop()), minutes.to("patient", late=ev.accumulate("1 hour")),
                       state=r"{root}/state", measure=["region"])
"""


def instant(second):
    return None if second is None else NOON + dt.timedelta(seconds=second)


def land(place, rows, region):
    place.mkdir(parents=True)
    frame = pl.DataFrame([(instant(t), instant(a)) for t, a in rows], ["ts", "at"], orient="row")
    frame.with_columns(pl.all().cast(pl.Datetime("us", "UTC")), pl.lit(region).alias("region")).write_parquet(
        place / "0.parquet"
    )


@pytest.fixture(scope="module")
def clicks(spark, tmp_path_factory):
    """Lane a never stops, and 5 of its rows come 5 minutes late; lane b is away from 12:02 to 12:10 and then brings what it held back."""
    root = tmp_path_factory.mktemp("clicks")
    land(
        root / "landing" / "a",
        sorted([(s, s) for s in range(1_200)] + [(600 + i, 900 + i) for i in range(5)], key=lambda r: r[1]),
        "north",
    )
    land(
        root / "landing" / "b", [(s, s) for s in range(120)] + [(None, 119)] + [(120 + s, 600 + s) for s in range(30)], "south"
    )
    file = root / "clicks.py"
    file.write_text(DEFINITION.format(root=root))
    scope: dict = {}
    with pytest.warns(UserWarning):
        exec(file.read_text(), scope)
    pipeline = scope["pipeline"]
    pipeline.run(spark)
    return pipeline, file


def test_a_late_row_is_counted_under_the_cause_that_made_it_late(spark, clicks):
    pipeline, _ = clicks
    measured = pipeline.lateness()
    for output in ("strict", "patient"):
        assert measured.causes(output) == {DISORDER: 5, IDLENESS: 30}
    assert b'"region":"south"' in bytes(pipeline.dead_letters(spark).first()["raw"])
    assert measured.verdicts("strict")["refused"] == measured.verdicts("patient")["admitted"] == 35
    assert tune(pipeline, spark=spark).causes(1_000_000) == measured.causes("strict")


def test_sessions_count_causes_too(spark, tmp_path):
    rows = [(0, 0), (100, 100), (5, 101), (102, 102)]
    land(tmp_path / "landing" / "a", rows, "north")
    source = ev.files(
        "clicks", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("1 s"), lane="directory",
        schema="ts timestamp, at timestamp, region string",
    )  # fmt: skip
    visits = source.window(ev.session("10 s")).agg(n=ev.count())
    pipeline = ev.Pipeline("visits", visits.to("visits", late=ev.drop()), state=str(tmp_path / "state"), measure=True)
    pipeline.run(spark)
    assert pipeline.lateness().causes("visits") == {DISORDER: 1, IDLENESS: 0}
