"""The same stream on Spark, cut anyhow: the same verdicts, late rows and tables, and those of the oracle. A soak takes 200,000 rows."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from landing import LANES, Answer, answer_of, answer_of_the_oracle, assert_same, land, lane_rows, pipeline

ROWS = int(os.environ.get("EVENTIDE_ROWS", "20000"))


def live(
    spark: Any, root: Path, files: list[int], order: str, per_batch: int | None, batches: int | None, **how: Any
) -> Answer:
    written = land(root / "in", lane_rows(ROWS), files, order)
    pipe = pipeline(str(root / "in"), str(root / "state"), per_batch, **how)
    seen: list[int] = []
    handle = pipe.run(spark, on_progress=lambda progress: seen.append(progress.batch))
    if batches is not None:
        assert len(seen) == batches, f"{written} files fell into {len(seen)} batches"
    return answer_of(pipe, spark, handle.rows, handle.outputs)


@pytest.fixture(scope="module")
def theirs() -> Answer:
    return answer_of_the_oracle(ROWS)


def test_one_batch_equals_the_oracle(spark: Any, tmp_path: Path, theirs: Answer) -> None:
    assert_same(live(spark, tmp_path, [1, 1, 1, 1], "evenly", None, 1), theirs)


def test_seven_batches_of_lanes_read_evenly_equal_the_oracle(spark: Any, tmp_path: Path, theirs: Answer) -> None:
    assert_same(live(spark, tmp_path, [7, 7, 7, 7], "evenly", 4, 7), theirs)


def test_seven_batches_of_one_lane_after_the_other_equal_the_oracle(spark: Any, tmp_path: Path, theirs: Answer) -> None:
    assert_same(live(spark, tmp_path, [4, 4, 4, 2], "lane by lane", 2, 7), theirs)


def test_random_batches_of_lanes_read_unevenly_equal_the_oracle(spark: Any, tmp_path: Path, theirs: Answer) -> None:
    rng = random.Random(3)
    assert_same(live(spark, tmp_path, [rng.randint(1, 9) for _ in LANES], "unevenly", 3, None), theirs)


def test_rows_read_through_spark_equal_rows_read_in_the_worker(spark: Any, tmp_path: Path, theirs: Answer) -> None:
    assert_same(live(spark, tmp_path, [3, 2, 4, 1], "unevenly", 3, None, read="spark"), theirs)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("order", ["evenly", "unevenly", "lane by lane"])
def test_fifty_batches_equal_the_oracle(spark: Any, tmp_path: Path, theirs: Answer, order: str) -> None:
    assert_same(live(spark, tmp_path, [20, 15, 10, 5], order, 1, 50), theirs)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_any_random_batches_equal_the_oracle(spark: Any, tmp_path: Path, theirs: Answer, seed: int) -> None:
    rng = random.Random(seed)
    files = [rng.randint(1, 12) for _ in LANES]
    assert_same(live(spark, tmp_path, files, "unevenly", rng.randint(1, 5), None), theirs)
