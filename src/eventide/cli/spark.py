"""A Spark session for a command: what its JVM and the fetching of connectors have to say goes to a file, not to the terminal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eventide.errors import EventideError

if TYPE_CHECKING:
    from eventide.pipeline import Pipeline


def settings(given: Iterable[str]) -> dict[str, str]:
    """Spark's settings as the command line has them.

    >>> settings(["spark.ui.enabled=true", "spark.driver.extraJavaOptions=-Da=b"])
    {'spark.ui.enabled': 'true', 'spark.driver.extraJavaOptions': '-Da=b'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(
                f"{text!r} is no setting of Spark's; write it as spark.ui.enabled=true.", param_hint="--conf"
            )
        found[name] = value
    return found


def session_for(pipeline: Pipeline | None, **session: Any) -> Any:
    """The session that a pipeline (or the history of a directory) needs; says where Spark's own words are if it does not start.

    `session` may say master, conf, jars and record, as `local_session` has them.
    """
    from eventide.engine.java import SparkUnavailable
    from eventide.engine.spark_session import hush, local_session

    log = spark_log(pipeline)
    try:
        with quiet_start(log):
            packages, name = (pipeline.packages(), pipeline.name) if pipeline else ([], "eventide")
            spark = local_session(packages, name=name, **session)
            hush(spark)
            return spark
    except SparkUnavailable as error:
        raise SparkUnavailable(f"{error} What Spark said is in {log}.") from error


def spark_log(pipeline: Pipeline | None) -> str:
    """Beside the state where there is a local one, else among temporary files."""
    from eventide.storage.address import is_local

    if pipeline is not None and pipeline.state is not None and is_local(pipeline.state):
        return pipeline.state.removeprefix("file://").removeprefix("file:").rstrip("/") + ".spark.log"
    return str(Path(tempfile.gettempdir()) / f"eventide-{os.getuid() if hasattr(os, 'getuid') else 'user'}.spark.log")


@contextmanager
def quiet_start(log: str) -> Iterator[None]:
    """Processes that are started meanwhile write their standard error to a file; what matters reaches Python as an error."""
    try:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise EventideError(f"{log}, where Spark's own words are kept, cannot be written: {error.strerror}.") from error
    ours = os.dup(2)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
