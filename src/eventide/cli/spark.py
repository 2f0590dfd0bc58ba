"""A Spark session for a command: what its JVM and the fetching of connectors have to say goes to a file, not to the terminal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import EventideError

if TYPE_CHECKING:
    from eventide.pipeline import Pipeline


def session_for(pipeline: Pipeline | None, master: str | None = None) -> Any:
    """The session that a pipeline (or the history of a directory) needs; says where Spark's own words are if it does not start."""
    from eventide.engine.java import SparkUnavailable
    from eventide.engine.session import hush, local_session

    log = spark_log(pipeline)
    try:
        with quiet_start(log):
            spark = local_session(
                pipeline.packages() if pipeline else (), name=pipeline.name if pipeline else "eventide", master=master
            )
            hush(spark)
            return spark
    except SparkUnavailable as error:
        raise SparkUnavailable(f"{error} What Spark said is in {log}.") from error


def spark_log(pipeline: Pipeline | None) -> str:
    """Beside the state where there is a local one, else among temporary files."""
    from eventide.engine.records import is_local

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
