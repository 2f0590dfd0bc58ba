"""A Spark session that fits: found Java, this Python on the workers, and only the connectors that a pipeline needs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from eventide.definition.pipeline import Pipeline
from eventide.engine.class_archive import ClassArchive
from eventide.engine.connectors import jars_of
from eventide.engine.given_settings import given_settings, is_submitted
from eventide.engine.java import SparkUnavailable, show_file_names, show_java
from eventide.engine.s3a import s3a_settings
from eventide.engine.spark_compat import line_of, packages_of
from eventide.engine.worker import check_workers
from eventide.errors import EventideError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TRIES = 4
"""Of a task, as on a cluster. On one machine Spark gives one, and so a worker that dies ends the run; now and then Spark itself closes one that it gives a task to."""


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
    record: bool = False,
) -> SparkSession:
    """A session with quiet defaults, on all cores of this machine unless told otherwise, with the tries of a cluster; one that runs already is used as it is.

    `packages` are fetched once and handed over as files, unless `jars` names them by path; `conf` is Spark's own and wins over the defaults,
    as does what spark-submit or spark-defaults.conf say. With `record`, classes that are loaded are kept for the next start.
    """
    import pyspark
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    line_of(pyspark.__version__)
    show_java()
    show_file_names()
    packages, theirs = [] if is_submitted() else list(packages), {**given_settings(), **(conf or {})}
    master = master or theirs.get("spark.master") or f"local[{cores or '*'},{TRIES}]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    ours = {**_defaults(cores or len(os.sched_getaffinity(0)), name), **_for_delta(packages), **s3a_settings(packages)}
    settings = {**ours, **theirs, "spark.master": master}
    if master.startswith("local"):  # elsewhere workers must be able to call the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not is_submitted():
        given = [*_listed(theirs.get("spark.jars", ""), ","), *jars]
        settings |= _of_the_jvm(settings, theirs, jars_of(packages, given), record)
    return _started(settings)


def _of_the_jvm(settings: dict[str, str], theirs: dict[str, str], jars: list[str], record: bool) -> dict[str, str]:
    """What must be said before the JVM starts: its jars and its options."""
    own = theirs.get(JAVA_OPTIONS, "")
    options = [_defaults(1, "")[JAVA_OPTIONS], own]  # of two that contradict each other Java takes the later
    listed = {"spark.jars": ",".join(jars)} if jars else {}
    if not settings["spark.master"].startswith("local["):
        return {JAVA_OPTIONS: " ".join(options).strip(), **listed}
    # Spark would copy jars of its own list at each start, and Java keeps no classes of them. But what that list says is Spark's to read (addresses,
    # patterns), and a jar on the class path does not see those that stand in it: where one does, all do.
    is_plain = not theirs.get("spark.jars") and all(os.path.isfile(jar) for jar in jars)
    class_path = [*(jars if is_plain else []), *_listed(theirs.get(CLASS_PATH, ""), os.pathsep)]
    options.insert(1, _kept_classes(class_path, own, record))
    placed = {CLASS_PATH: os.pathsep.join(class_path)} if is_plain and jars else listed
    return {JAVA_OPTIONS: " ".join(filter(None, options)), **placed}


def _kept_classes(class_path: list[str], own: str, record: bool) -> str:
    global _recorded
    from pyspark import SparkContext

    is_running = SparkContext._gateway is not None  # an earlier session of this process has started the JVM
    archive = None if is_running or "share" in own.lower() else ClassArchive.of(class_path)
    if archive is None:
        return ""
    archive.gather()
    _recorded = archive if record and not archive.is_whole else None
    return archive.options(record=record)


_recorded: ClassArchive | None = None
"""What this process's JVM writes when it ends."""


def keep_classes() -> None:
    """A run has come as far as a run comes: the next one may begin with the classes that it loaded."""
    if _recorded is not None:
        _recorded.keep()


JAVA_OPTIONS, CLASS_PATH = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"


def _defaults(cores: int, name: str) -> dict[str, str]:
    return {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        JAVA_OPTIONS: "-Xss16m -Dlog4j2.level=ERROR",
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
        "spark.log.level": "ERROR",
    }


def _for_delta(packages: list[str]) -> dict[str, str]:
    if not any("delta-spark" in package for package in packages):
        return {}
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def _listed(text: str, between: str) -> list[str]:
    return [part for part in text.split(between) if part]


def _started(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkUnavailable(
            "Spark did not start: it needs Java 17 or newer, and `java -version` (or the one in JAVA_HOME) shows what is there."
        ) from error


def session_for(pipeline: Pipeline, given: SparkSession | None = None) -> SparkSession:
    """The session that a pipeline's history is read on: the user's own, or one with what its sources need; its workers are known to be able."""
    session = unchecked_session(pipeline, given)
    check_workers(session)
    return session


def unchecked_session(pipeline: Pipeline, given: SparkSession | None = None, *, record: bool = False) -> SparkSession:
    """The same before anybody has asked its workers."""
    if given is None:
        return local_session(
            packages_of(pipeline.sources, (pipeline.state, pipeline.archive)), name=pipeline.name, record=record
        )
    refuse_connect(given)
    return given


def hush(spark: SparkSession) -> None:
    """Spark's Python side prints and logs tracebacks of its own when the JVM ends; what that means is told elsewhere, once."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.module not in ("java_gateway", "clientserver"))
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        told = server.handle_error
        server.handle_error = lambda *about: None if isinstance(sys.exc_info()[1], EOFError) else told(*about)


def refuse_connect(spark: SparkSession) -> None:
    """Spark Connect has no JVM gateway and no RDDs, which the engine needs."""
    if "connect" in type(spark).__module__:
        raise SparkUnavailable(
            "this is a Spark Connect session. Eventide needs the JVM gateway of a classic session (foreachBatch with its own jobs); "
            "start it with SparkSession.builder.master(…) instead of .remote(…)."
        )
