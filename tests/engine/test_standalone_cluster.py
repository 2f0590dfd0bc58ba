"""The same pipeline, unchanged, on a Spark standalone cluster of two workers: the same answers as everywhere."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from landing import answer_of_the_oracle, assert_same, land, lane_rows

HERE = Path(__file__).parent
ROWS = 20_000


def environment(root: Path) -> dict[str, str]:
    source = str(HERE.parents[1] / "src")
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")])),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(root / "local"),
        "SPARK_NO_DAEMONIZE": "1",
        "POLARS_MAX_THREADS": "1",
    }


def started(root: Path, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A daemon of Spark in a working directory of its own; spark-class ends in exec, so the process is the daemon."""
    here = root / name
    here.mkdir(parents=True)
    log = here / "log.txt"
    spark_class = Path(pyspark.__file__).parent / "bin/spark-class"
    with log.open("wb") as out:
        process = subprocess.Popen([str(spark_class), *arguments], cwd=here, env=environment(root), stdout=out, stderr=out)
    return process, log


def said(process: subprocess.Popen[bytes], log: Path, pattern: str, seconds: float = 90) -> str:
    """Wait until a daemon's log says something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        assert process.poll() is None, f"it ended: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.1)
    raise AssertionError(f"{log} does not say {pattern!r} within {seconds} s: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    daemons = []
    try:
        deploy = "org.apache.spark.deploy"
        master, log = started(
            tmp_path, "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        daemons.append(master)
        address = said(master, log, r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            worker, log = started(
                tmp_path, f"worker {number}".replace(" ", "-"), f"{deploy}.worker.Worker", "--cores", "1", "--memory", "700m",
                "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(tmp_path / f"work-{number}"), address,
            )  # fmt: skip
            daemons.append(worker)
            said(worker, log, "Successfully registered with master")
        yield address
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_runs_unchanged_on_a_cluster_of_two_workers(cluster: str, tmp_path: Path) -> None:
    land(tmp_path / "in", lane_rows(ROWS), [3, 2, 2, 1], "unevenly")
    driver = [sys.executable, str(HERE / "cluster_driver.py"), cluster, str(tmp_path), str(tmp_path / "answer")]
    done = subprocess.run(driver, cwd=HERE, env=environment(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs: Any = answer_of_the_oracle(ROWS)
    for read in ("worker", "spark"):
        _, places, mine = pickle.loads((tmp_path / f"answer-{read}").read_bytes())
        assert len(places) == 2 and all("work-" in place for place in places), places
        assert_same(mine, theirs)
