"""Spark runs a task again when an executor is lost, and sometimes twice at once: what users read must not show it."""

import copy
import datetime as dt
import os

import polars as pl
import pytest

import eventide as ev
from eventide.engine.batch.runner import SparkRunner
from eventide.state.store import lane_name

START = dt.datetime(2026, 11, 8, 12, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, at timestamp, bank string, paise bigint"


def land(tmp_path):
    """Two lanes; every tenth row is an hour late, every twentieth has no event time."""
    for lane in ("north/1", "south"):
        at = [START + dt.timedelta(seconds=10 * n) for n in range(600)]
        ts = [None if n % 20 == 5 else t - dt.timedelta(hours=n % 10 == 0) for n, t in enumerate(at)]
        frame = pl.DataFrame({"ts": ts, "at": at, "bank": [f"bank {n % 7}" for n in range(600)], "paise": range(600)})
        place = tmp_path / "landing" / lane.replace("/", "_")
        place.mkdir(parents=True)
        frame.write_parquet(place / "0.parquet")


def defined(tmp_path, state, windows):
    source = ev.files(
        "upi", str(tmp_path / "landing"), event_time="ts", arrival="at", watermark=ev.bounded("30 s"), lane="directory", schema=SCHEMA
    )  # fmt: skip
    sums = source.window(windows, by="bank").agg(total=ev.sum("paise"), n=ev.count())
    outputs = (sums.to("kept", late=ev.divert()), sums.to("corrected", late=ev.retract("2 hours")))
    more = {"archive": str(tmp_path / f"archive-{state}"), "measure": ["bank"]}
    return ev.Pipeline("upi", *outputs, state=str(tmp_path / state), **more)


def told(pipeline, spark):
    """Everything that a user can read of a run."""
    tables = [pipeline.panes(spark, "kept"), pipeline.panes(spark, "corrected"), pipeline.late(spark, "kept")]
    tables += [pipeline.dead_letters(spark), pipeline.archived(spark)]
    read = [sorted(map(str, t.drop("emitted_at", "raw", "_raw").collect())) for t in tables]
    return [*read, pipeline.lateness().by("lane"), pipeline.lateness().counts("bank")]


@pytest.mark.parametrize("windows", [ev.tumbling("1 minute"), ev.session("1 minute")], ids=["tumbling", "session"])
def test_tasks_that_ran_twice_are_told_once(spark, tmp_path, monkeypatch, windows):
    land(tmp_path)
    once = defined(tmp_path, "once", windows)
    once.run(spark)
    run = SparkRunner.run

    def twice(task):
        copy.deepcopy(task)()
        return task()

    monkeypatch.setattr(SparkRunner, "run", lambda self, tasks: run(self, [lambda task=task: twice(task) for task in tasks]))
    again = defined(tmp_path, "again", windows)
    again.run(spark)
    for first, second in zip(told(once, spark), told(again, spark), strict=True):
        assert first and first == second


def test_lanes_with_long_names_have_files_of_their_own():
    names = {lane_name((source, "k" * 400 + end)) for source in (0, 1) for end in "ab"}
    assert len(names) == 4 and max(map(len, names)) < 200


def test_a_worker_that_dies_costs_a_try_and_not_the_run(spark, tmp_path, monkeypatch):
    land(tmp_path)
    once = defined(tmp_path, "once", ev.tumbling("1 minute"))
    once.run(spark)
    run, died = SparkRunner.run, tmp_path / "died"

    def dies_once(task):
        if not died.exists():
            died.touch()
            os._exit(1)
        return task()

    monkeypatch.setattr(
        SparkRunner, "run", lambda self, tasks: run(self, [lambda task=task: dies_once(task) for task in tasks])
    )
    again = defined(tmp_path, "again", ev.tumbling("1 minute"))
    again.run(spark)
    assert died.exists() and told(once, spark) == told(again, spark)
