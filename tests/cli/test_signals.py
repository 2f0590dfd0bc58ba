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
    assert "Where every row went" in said and said.count("✓") == 2
    assert not said.rstrip().endswith("0 in") and "stopping after the batch at work" in said
    goes_on(spark, tmp_path)


def test_a_second_signal_leaves_the_batch_to_the_next_run(spark: Any, tmp_path: Path) -> None:
    work = AtWork("run", str(prepared(tmp_path)), SLOW_DELIVERY="300")
    work.until((tmp_path / "delivering").exists)
    work.interrupt()
    work.until(lambda: "a second signal leaves it" in work.said)
    work.interrupt()
    assert "Where every row went" in ended_well(work, 130, 30)
    goes_on(spark, tmp_path)


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
