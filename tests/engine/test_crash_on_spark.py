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


def life(root: Path, shift: int, kill_after: float | None) -> str:
    """Run until done, or until so long after the session is up; then kill the whole group, JVM and workers included."""
    source = str(HERE.parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "POLARS_MAX_THREADS": "1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [sys.executable, str(HERE / "spark_crash_driver.py"), str(root), str(shift)],
        cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "session\n", process.communicate()[1][-3000:]
    try:
        out, err = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return f"killed after {len(out.splitlines())} batches"
    assert process.returncode == 0 and "done" in out, err[-3000:]
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
            ended = life(root, rng.choice([-HOUR, 0, HOUR]), rng.uniform(1, 16) if len(kills) < KILLS else None)
            if ended != "done":
                kills.append(ended)
        assert_nothing_lost_or_doubled(root, want)
    print(f"\n{len(kills)} kills in {runs} runs: {kills}")


def prepared(root: Path, landed: Path) -> Path:
    root.mkdir()
    shutil.copytree(landed, root / "in")
    return root
