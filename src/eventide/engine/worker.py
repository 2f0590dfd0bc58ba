"""Python workers: whether they are able to do our tasks, and made ready while a run starts."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from eventide.engine.between_tasks import ready_for_the_next
from eventide.engine.java import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("polars", "pyarrow", "eventide")


def prepared_workers(spark: SparkSession) -> Callable[[], None]:
    """See to it that workers are able; what is given says so, or raises why they are not.

    On this machine, with this Python, it goes on beside what else a run begins with, and every worker imports what its first task needs.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local[") or context.pythonExec != sys.executable:
        check_workers(spark)
        return lambda: None
    done: Future[None] = Future()

    def prepare() -> None:
        try:
            check_workers(spark, int(context.defaultParallelism))
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=prepare, name="workers", daemon=True).start()
    return done.result


def check_workers(spark: SparkSession, workers: int = 0) -> None:
    """Have one task say what Python it runs on, before a batch dies of it, and so many make ready; asked once for each session."""
    context = spark.sparkContext
    if context.applicationId in _checked:
        return
    try:
        tasks = context.parallelize(range(max(workers, 1)), max(workers, 1)).map(_made_ready if workers else _facts)
        version, missing = tasks.collect()[0]
    except Exception as error:
        if "PYTHON_VERSION_MISMATCH" not in str(error) and "different version in worker" not in str(error):
            raise
        version, missing = "another version", []
    mine = ".".join(map(str, sys.version_info[:2]))
    if version != mine or missing:
        lacks = f" without {', '.join(missing)}" if missing else ""
        raise SparkUnavailable(
            f"Spark's workers run on Python {version}{lacks} ({context.pythonExec}), this program on {mine} ({sys.executable}): every batch "
            f"would fail. Set PYSPARK_PYTHON={sys.executable} before the session is made, or on a cluster ship this environment with "
            "spark-submit --archives (docs/clusters.md)."
        )
    _checked.add(context.applicationId)


_checked: set[str] = set()


def _facts(_: int) -> tuple[str, list[str]]:
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return ".".join(map(str, sys.version_info[:2])), lacking


def _made_ready(number: int) -> tuple[str, list[str]]:
    version, lacking = _facts(number)
    if not lacking:
        # What the first task would have to import: nearly a second for each worker.
        from eventide.engine.batch import read, row_task  # noqa: F401

        ready_for_the_next()
    return version, lacking
