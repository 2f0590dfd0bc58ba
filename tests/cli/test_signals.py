"""Ctrl-C and SIGTERM at any moment: the closing table, the promised exit code, and a state that the next run goes on from."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from at_work import FILES, ROWS, AtWork, prepared

from eventide.cli.loading import load

CODES = {signal.SIGINT: 130, signal.SIGTERM: 0}


def ended_well(work: AtWork, code: int, seconds: float = 120) -> str:
    assert work.ended(seconds) == code, work.said
    assert "Traceback" not in work.said and "Error" not in work.said and "Exception" not in work.said, work.said
    return work.said


def goes_on(spark: Any, root: Path) -> None:
    """The state is free and sound: the rest is read, and the sink has every row once."""
    load(str(root / "pipe.py")).run(spark, drain=True)
    everything_is_there_once(root)


def everything_is_there_once(root: Path) -> None:
    with sqlite3.connect(root / "out.db") as base:
        assert base.execute("select sum(n), sum(total) from out").fetchone() == (FILES * ROWS, FILES * sum(range(ROWS)))


@pytest.mark.parametrize("number", CODES)
def test_while_the_file_is_read(tmp_path: Path, number: signal.Signals) -> None:
    work = AtWork("run", str(prepared(tmp_path)), SLOW_LOAD="60")
    work.until((tmp_path / "loading").exists)
    work.interrupt(number)
    assert "nothing was done" in ended_well(work, CODES[number], 20)


def test_while_spark_starts_ctrl_c_in_a_terminal(spark: Any, tmp_path: Path) -> None:
    work = AtWork("run", str(prepared(tmp_path)), terminal=True)
    work.until((tmp_path / "state.spark.log").exists)
    work.interrupt()
    said = ended_well(work, 130)
    assert "Where every row went" in said and "0 in" in said
    goes_on(spark, tmp_path)


def test_between_batches_ctrl_c_in_a_terminal(spark: Any, tmp_path: Path) -> None:
    work = AtWork("run", str(prepared(tmp_path)), terminal=True)
    work.until(lambda: "watermark" in work.said)
    work.interrupt()
    said = ended_well(work, 130)
    assert "Where every row went" in said and said.count("✓") == 2 and "✗" not in said
    goes_on(spark, tmp_path)


@pytest.mark.parametrize("group", [False, True])
def test_while_a_batch_is_delivered_sigterm(spark: Any, tmp_path: Path, group: bool) -> None:
    """Sent to the process, it ends after the batch; sent to Spark's JVM as well, as a service manager may, it ends at once."""
    work = AtWork("run", str(prepared(tmp_path)), SLOW_DELIVERY="3")
    work.until((tmp_path / "delivering").exists)
    work.interrupt(signal.SIGTERM, group=group)
    said = ended_well(work, 0)
    assert "Where every row went" in said and "✗" not in said
    assert not [mark for mark in ("\x1b", "\r", "WARN", "log4j", "Ivy", ":: ", "SLF4J") if mark in said], (
        "plain lines, and ours alone"
    )
    if not group:
        assert said.count("✓") == 2 and "stopping after the batch at work" in said and " 0 in" not in said
    goes_on(spark, tmp_path)


def test_a_second_signal_leaves_the_batch_to_the_next_run(spark: Any, tmp_path: Path) -> None:
    work = AtWork("run", str(prepared(tmp_path)), SLOW_DELIVERY="300")
    work.until((tmp_path / "delivering").exists)
    work.interrupt()
    work.until(lambda: "a second signal leaves it" in work.said)
    work.interrupt()
    assert "Where every row went" in ended_well(work, 130, 30)
    goes_on(spark, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_at_any_moment_without_spark(tmp_path: Path, seed: int) -> None:
    interrupted_without_spark(tmp_path, random.Random(seed))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_at_two_hundred_moments_without_spark(tmp_path: Path) -> None:
    for seed in range(200):
        (tmp_path / str(seed)).mkdir()
        interrupted_without_spark(tmp_path / str(seed), random.Random(seed))


def interrupted_without_spark(root: Path, rng: random.Random) -> None:
    """Once or twice, from the first line of the file on, then to the end of the input: every row is there once."""
    file = str(prepared(root))
    for number in rng.sample(list(CODES), rng.randint(1, 2)):
        slow = {"SLOW_DELIVERY": str(rng.choice([0, 0.1, 0.5]))}
        work = AtWork("run", file, spark=False, terminal=rng.random() < 0.5, **slow)
        work.until((root / "loading").exists)
        (root / "loading").unlink()
        time.sleep(rng.uniform(0, 3))
        work.interrupt(number)
        said = ended_well(work, CODES[number])
        assert ("Where every row went" in said or "nothing was done" in said) and "✗" not in said
    work = AtWork("run", file, "--until-caught-up", "--drain", spark=False)
    assert f"{FILES * ROWS:,} in" in ended_well(work, 0)
    everything_is_there_once(root)
    work = AtWork("run", file, spark=False)
    assert work.ended() == 2 and "is finished" in work.said and "--start-over" in work.said


def test_a_sink_that_dies_ends_the_run_with_its_reason_and_the_table(tmp_path: Path) -> None:
    work = AtWork("run", str(prepared(tmp_path)), spark=False, FAIL_DELIVERY="the far end said no")
    assert work.ended() == 1, work.said
    assert "the far end said no" in work.said and "Where every row went" in work.said and "Traceback" not in work.said
    assert "the far end said no" in (tmp_path / "state.spark.log").read_text()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(20))
def test_at_any_moment(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    number = rng.choice(list(CODES))
    work = AtWork("run", str(prepared(tmp_path)), terminal=rng.random() < 0.5, SLOW_DELIVERY=str(rng.choice([0, 0, 0.3])))
    time.sleep(rng.uniform(0.3, 25))
    work.interrupt(number)
    ended_well(work, CODES[number])
    goes_on(spark, tmp_path)
