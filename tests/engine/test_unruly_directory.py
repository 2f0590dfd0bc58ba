"""Whatever happens to the files of a landing directory: each row is read once, each bad file told once, and the answers are the oracle's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from killing import catch_up
from unruly_directory import TOTALS, Unruly

SOAK = int(os.environ.get("EVENTIDE_EXAMPLES", "100"))


class OnSpark(Unruly):
    """The same with Spark's own listings, checkpoints and batches, in every format, and with lanes that a column names."""

    spark: ClassVar[Any] = None

    def form(self) -> str:
        return self.rng.choice(["parquet", "json", "csv"])

    def lanes(self) -> str:
        return self.rng.choice(["source", "directory", "directory", "column:bank"])

    def session(self) -> Any:
        return self.spark

    def refuse_other_rows(self) -> None:
        """Seen without Spark: here it would cost a query each time."""

    def batch(self) -> None:
        catch_up(self.run)

    def until_caught_up(self) -> None:
        self.batch()


def through(kind: type[Unruly], seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="eventide-unruly-") as root:
        unruly = kind(Path(root) / "it", seed)
        unruly.go(steps)
        unruly.check()
        unruly.close()


@pytest.mark.parametrize("seed", range(12))
def test_an_unruly_directory(seed: int) -> None:
    through(Unruly, seed, 8)


def test_an_unruly_directory_on_spark(spark: Any) -> None:
    OnSpark.spark = spark
    for seed in range(1, 4):
        through(OnSpark, seed, 4)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_unruly_directories_on_spark(spark: Any) -> None:
    OnSpark.spark = spark
    for seed in range(1_000, 1_000 + SOAK):
        through(OnSpark, seed, 6)
    print(f"\n{dict(TOTALS)}")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_unruly_directories() -> None:
    for seed in range(10_000, 10_000 + 10 * SOAK):
        through(Unruly, seed, 10)
    print(f"\n{dict(TOTALS)}")
