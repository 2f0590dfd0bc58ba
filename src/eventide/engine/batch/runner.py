"""Who does the work of a batch: Spark's executors, or whoever else can run tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from eventide.engine.between_tasks import ready_for_the_next

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH = 8
"""For each core at most so many tasks of Spark's: above that, several of ours are one of them."""


class Runner(Protocol):
    """Runs tasks that take nothing and give a line of text each."""

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """Run all tasks, in any order and place; give their lines in order."""


class SparkRunner:
    """Runs tasks on Spark's executors, one partition each, or a handful of them where there are thousands."""

    def __init__(self, spark: SparkSession) -> None:
        self.context = spark.sparkContext

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """Run all tasks as one Spark job.

        Each of Spark's tasks is sent its own share as data: what travels with the function goes to every one of them whole.
        """
        from pyspark.cloudpickle import dumps

        if not tasks:
            return []
        shares = in_shares(tasks, EACH * int(self.context.defaultParallelism))
        sent = [dumps(share) for share in shares]  # type: ignore[no-untyped-call]
        told: list[list[str]] = self.context.parallelize(sent, len(sent)).map(_run).collect()
        return [line for lines in told for line in lines]


def in_shares(tasks: Sequence[Callable[[], str]], most: int) -> list[Sequence[Callable[[], str]]]:
    """Tasks in order, in at most so many shares that are as long as each other, or one longer.

    >>> [len(share) for share in in_shares([str] * 7, 3)], len(in_shares([str] * 2, 3))
    ([2, 2, 3], 2)
    """
    number = min(most, len(tasks))
    edges = [len(tasks) * nth // number for nth in range(number + 1)]
    return [tasks[low:high] for low, high in pairwise(edges)]


def _run(share: bytes) -> list[str]:
    try:
        return [task() for task in pickle.loads(share)]  # noqa: S301 (our own, of a moment ago)
    finally:
        ready_for_the_next()
