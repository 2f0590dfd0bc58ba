"""Law 6 with nothing stood in for: a local Spark process, driver, JVM and workers, killed at random moments of its query."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from landing import land, lane_rows
from test_crash import HOUR, ROWS, assert_nothing_lost_or_doubled, sinks_of

HERE = Path(__file__).parent
KILLS = int(os.environ.get("EVENTIDE_KILLS", "10"))


def life(root: Path, shift: int, batches: int | None, then: float = 0.0) -> str:
    """Run until done; or until so many batches are committed and so much time has passed, then kill JVM, workers and all.

    A random moment counts from a batch, not from the start: on a slow machine every kill would else hit the start-up.
    """
    source = str(HERE.parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "POLARS_MAX_THREADS": "1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [sys.executable, str(HERE / "spark_crash_driver.py"), str(root), str(shift)],
        cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "session\n", process.communicate()[1][-3000:]
    if batches is not None:
        for _ in range(batches):
            if not process.stdout.readline().startswith("batch"):
                break
        try:
            process.wait(then)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            return f"killed after {batches + len(out.splitlines())} batches"
    _, err = process.communicate()
    assert process.returncode == 0, err[-3000:]
    return "done"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_spark_process_killed_at_random_moments_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    landed = tmp_path / "landed"
    land(landed, lane_rows(ROWS), [12, 9, 8, 7], "unevenly")
    undisturbed = prepared(tmp_path / "undisturbed", landed)
    assert life(undisturbed, 0, None) == "done"
    want: dict[str, Any] = sinks_of(undisturbed)
    rng, kills, runs = random.Random(9), [], 0
    while len(kills) < KILLS:
        root = prepared(tmp_path / f"run-{runs}", landed)
        runs += 1
        ended = ""
        while ended != "done":
            enough = len(kills) >= KILLS
            ended = life(root, rng.choice([-HOUR, 0, HOUR]), None if enough else rng.randint(0, 3), rng.uniform(0, 6))
            if ended != "done":
                kills.append(ended)
        assert_nothing_lost_or_doubled(root, want)
    print(f"\n{len(kills)} kills in {runs} runs: {kills}")


def prepared(root: Path, landed: Path) -> Path:
    root.mkdir()
    shutil.copytree(landed, root / "in")
    return root
