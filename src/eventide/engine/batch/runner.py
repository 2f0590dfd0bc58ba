"""Who does the work of a batch: Spark's executors, or whoever else can run tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from eventide.engine.between_tasks import ready_for_the_next

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Runner(Protocol):
    """Runs tasks that take nothing and give a line of text each."""

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """Run all tasks, in any order and place; give their lines in order."""


class SparkRunner:
    """Runs tasks on Spark's executors, one partition each."""

    def __init__(self, spark: SparkSession) -> None:
        self.context = spark.sparkContext

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """Run all tasks as one Spark job."""
        if not tasks:
            return []
        lines: list[str] = self.context.parallelize(range(len(tasks)), len(tasks)).map(partial(_one_of, tasks)).collect()
        return lines


def _one_of(tasks: list[Callable[[], str]], index: int) -> str:
    try:
        return tasks[index]()
    finally:
        ready_for_the_next()
