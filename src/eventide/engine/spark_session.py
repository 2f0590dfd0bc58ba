"""A Spark session that fits: found Java, this Python on the workers, and only the connectors that a pipeline needs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from eventide.definition.pipeline import Pipeline
from eventide.engine.connectors import jars_of
from eventide.engine.java import SparkUnavailable, show_java
from eventide.engine.s3a import s3a_settings
from eventide.engine.spark_compat import line_of, packages_of
from eventide.errors import EventideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkGone(EventideError):
    """Spark's JVM ended under a running query."""


def is_gone(error: BaseException) -> bool:
    """Whether an error says that the JVM no longer answers."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JJavaError):
        return False
    broken = isinstance(error, Py4JError) and "Answer from Java side" in str(error)
    return broken or isinstance(error, Py4JNetworkError | ConnectionError)


def local_session(
    packages: Iterable[str] = (),
    *,
    cores: int | None = None,
    name: str = "eventide",
    master: str | None = None,
    jars: Iterable[str] = (),
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with quiet defaults, on all cores of this machine unless told otherwise; one that runs already is used as it is.

    `packages` are fetched once and handed over as files, unless `jars` names them by path; `conf` is Spark's own and wins over the defaults.
    """
    import pyspark
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    line_of(pyspark.__version__)
    show_java()
    packages = list(packages)
    cores = cores or len(os.sched_getaffinity(0))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master or f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Xss16m -Dlog4j2.level=ERROR")
        .config("spark.executorEnv.POLARS_MAX_THREADS", "1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
        .config("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
        .config("spark.log.level", "ERROR")
    )
    if found := jars_of(packages, jars):
        builder = builder.config("spark.jars", ",".join(found))
    if any("delta-spark" in package for package in packages):
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for key, value in {**s3a_settings(packages), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkUnavailable(
            "Spark did not start: it needs Java 17 or newer, and `java -version` (or the one in JAVA_HOME) shows what is there."
        ) from error


def hush(spark: SparkSession) -> None:
    """Spark's Python side prints and logs tracebacks of its own when the JVM ends; what that means is told elsewhere, once."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.module not in ("java_gateway", "clientserver"))
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        told = server.handle_error
        server.handle_error = lambda *about: None if isinstance(sys.exc_info()[1], EOFError) else told(*about)


def session_for(pipeline: Pipeline, given: SparkSession | None = None) -> SparkSession:
    """The session that a pipeline runs on: the user's own, once its workers are known to be able, or one with what its sources need."""
    if given is None:
        return local_session(packages_of(pipeline.sources), name=pipeline.name)
    refuse_connect(given)
    _check_workers(given)
    return given


def _check_workers(spark: SparkSession) -> None:
    """Have one task say what Python it runs on, before a batch dies of it; asked once for each session."""
    context = spark.sparkContext
    if context.applicationId in _checked:
        return
    try:
        [(version, missing)] = context.parallelize([0], 1).map(_worker_facts).collect()
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
            "spark-submit --archives."
        )
    _checked.add(context.applicationId)


_checked: set[str] = set()


def _worker_facts(_: int) -> tuple[str, list[str]]:
    import importlib.util

    lacking = [name for name in ("polars", "pyarrow", "eventide") if importlib.util.find_spec(name) is None]
    return ".".join(map(str, sys.version_info[:2])), lacking


def refuse_connect(spark: SparkSession) -> None:
    """Spark Connect has no JVM gateway and no RDDs, which the engine needs."""
    if "connect" in type(spark).__module__:
        raise SparkUnavailable(
            "this is a Spark Connect session. Eventide needs the JVM gateway of a classic session (foreachBatch with its own jobs); "
            "start it with SparkSession.builder.master(…) instead of .remote(…)."
        )
