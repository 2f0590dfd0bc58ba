"""`eventide tune` on Spark: one job, the known counts, and lines that can be pasted."""

from datetime import timedelta

import polars as pl
import pytest

import eventide as ev
from eventide.testing.recipes import SECOND, delayed_stream, two_partitions
from eventide.tuning.plot import write_plot
from eventide.tuning.tune import tune


def landed(events, directory, name="a"):
    directory.mkdir(parents=True, exist_ok=True)
    times = {"event_time": [e.event_time for e in events], "arrived": [e.arrival for e in events]}
    rows = pl.DataFrame(times).with_columns(pl.all().cast(pl.Datetime("us", "UTC")))
    rows.with_columns(
        pl.Series("part", [e.lane for e in events]), pl.Series("place", [e.offset for e in events])
    ).write_parquet(directory / f"{name}.parquet")


@pytest.fixture(scope="module")
def delayed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("delayed")
    landed(delayed_stream(), directory)
    return directory


def source(directory, **changes):
    return ev.files(
        "clicks", str(directory), event_time="event_time", arrival="arrived", watermark=ev.bounded("5 s"), **changes
    )


def test_the_whole_curve_is_one_spark_job_with_the_known_counts(spark, delayed):
    spark.sparkContext.setJobGroup("tune", "the curve")
    tuning = tune(source(delayed), ev.tumbling("10 s"), spark=spark)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("tune")) == 1
    refused = {bound: tuning.point(bound * SECOND).refused for bound in (0, 2, 5, 10, 20, 40)}
    assert refused == {0: 6832, 2: 4923, 5: 2999, 10: 1307, 20: 105, 40: 0}
    admitted = {allowed: tuning.point(5 * SECOND, allowed * SECOND).admitted for allowed in (0, 5, 15, 30)}
    assert admitted == {0: 0, 5: 1692, 15: 2894, 30: 2999}


def test_lanes_read_by_the_worker_and_rows_through_spark_give_the_same_curve(spark, tmp_path):
    events = two_partitions()
    for lane in ("a", "b"):
        landed([e for e in events if e.lane == lane], tmp_path / lane)
    window = ev.tumbling("10 s")
    by_file = tune(source(tmp_path, lane="directory"), window, spark=spark)
    by_column = tune(source(tmp_path, lane="column:part"), window, spark=spark)
    frame = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path))
    rows = ev.stream(
        "clicks", frame, event_time="event_time", arrival="arrived", watermark=ev.bounded("5 s"), lane="part", offset="place"
    )
    by_row = tune(rows, window, spark=spark)
    assert by_file.curve == by_column.curve == by_row.curve
    assert by_file.point(SECOND) == by_row.point(SECOND)


@pytest.mark.parametrize(("name", "begins"), [("t.png", b"\x89PNG"), ("t.html", b"<!doctype html>"), ("t.svg", b"<?xml")])
def test_the_curve_is_drawn_in_three_ways_and_names_are_text(spark, delayed, tmp_path, name, begins):
    named = ev.files("_a <b> $x$", str(delayed), event_time="event_time", arrival="arrived", watermark=ev.bounded("5 s"))
    write_plot(tune(named, ev.tumbling("10 s"), spark=spark), str(tmp_path / name))
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(begins)
    if name.endswith(".html"):
        assert b"watermark=ev.bounded" in drawn and b"<b>" not in drawn


def test_a_map_reads_its_columns_in_the_history_too(spark, tmp_path):
    landed(delayed_stream(), tmp_path)
    plain, mapped = source(tmp_path), source(tmp_path).map(lambda rows: rows.filter(pl.col("part").is_not_null()))
    assert tune(mapped, ev.tumbling("10 s"), spark=spark).curve == tune(plain, ev.tumbling("10 s"), spark=spark).curve


def test_lines_fit_the_policies_of_the_pipeline_and_say_what_they_need(spark, delayed, tmp_path):
    clicks = source(delayed, idle_after="1 hour").window(ev.tumbling("10 s")).agg(n=ev.count())
    kept = ev.divert(ev.parquet(str(tmp_path / "late")))
    outputs = {"board": ev.drop(), "books": ev.retract("5 s", refused=kept), "side": ev.divert(), "sums": ev.accumulate("3 s")}
    pipeline = ev.Pipeline("clicks", *(clicks.to(name, late=late) for name, late in outputs.items()), state=str(tmp_path / "s"))
    tuning = tune(pipeline, spark=spark)
    lines = {line.partition("# ")[2].partition(":")[0]: line for line in tuning.lines() if "idle_after" not in line}
    assert lines["clicks"].startswith('watermark=ev.bounded("19 seconds"),')
    assert 'takes effect on the state that is there, instead of bounded("5 seconds")' in lines["clicks"]
    span = tuning.allowed // SECOND
    refused = tuning.point(tuning.bound).refused
    assert lines["board"] == f"late=ev.drop(),  # board: as it is; {refused:,} rows of this history would be dropped"
    assert lines["side"] == f"late=ev.divert(),  # side: as it is; {refused:,} rows of this history would be diverted"
    assert lines["books"].startswith(f'late=ev.retract("{span} seconds", refused=…),')
    for name in ("books", "sums"):
        assert lines[name].endswith("needs a new state: eventide run FILE --start-over")
    idle = [line for line in tuning.lines() if "idle_after" in line]
    assert len(idle) == 1 and "takes effect on the state that is there" in idle[0]
    same = ev.Pipeline(
        "clicks", clicks.to("sums", late=ev.accumulate(timedelta(microseconds=tuning.allowed))), state=str(tmp_path / "s")
    )
    assert tune(same, spark=spark).lines()[-1].endswith("# sums: as it is")


def test_of_several_windows_those_of_the_output_that_is_named_are_asked_for(spark, delayed, tmp_path):
    clicks = source(delayed)
    short = clicks.window(ev.tumbling("10 s")).agg(n=ev.count()).to("board", late=ev.drop())
    long = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count()).to("minutes", late=ev.drop())
    pipeline = ev.Pipeline("clicks", short, long, state=str(tmp_path / "s"))
    first, second = tune(pipeline, spark=spark), tune(pipeline, spark=spark, output="minutes")
    assert (first.output, second.output) == ("board", "minutes")
    assert second.answer.question.window == ev.tumbling("1 minute")
    assert second.bound == tune(clicks, ev.tumbling("1 minute"), spark=spark).bound
    [other] = [line for line in second.lines() if "# board:" in line]
    assert 'it reads tumbling("10 seconds"), which this says nothing of' in other


def test_of_a_stage_the_windows_that_rows_come_to_are_asked_for(spark, delayed, tmp_path):
    tens = source(delayed).window(ev.tumbling("10 s")).agg(n=ev.count())
    most = tens.results(late=ev.accumulate("5 s")).window(ev.tumbling("1 minute")).agg(most=ev.max("n"))
    tuning = tune(ev.Pipeline("clicks", most.to("most", late=ev.accumulate("5 s")), state=str(tmp_path / "s")), spark=spark)
    assert tuning.answer.question.window == ev.tumbling("10 s")
    assert tuning.lines()[-1].endswith("results(late=…) below it must allow as much")


def test_an_output_is_named_of_a_pipeline_that_has_it(delayed, tmp_path):
    clicks = source(delayed)
    pipeline = ev.Pipeline("clicks", clicks.window(ev.tumbling("10 s")).agg(n=ev.count()).to("board", late=ev.drop()))
    with pytest.raises(ev.DefinitionError, match="has no output 'minutes'"):
        tune(pipeline, output="minutes", spark=object())
    with pytest.raises(ev.DefinitionError, match="leave it out beside a window or a source"):
        tune(clicks, ev.tumbling("10 s"), output="board", spark=object())
