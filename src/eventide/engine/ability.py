"""Whether a pipeline could run here: Java, Spark, connectors, places, ports and the clock, each looked at by itself."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eventide.definition.pipeline import Pipeline
from eventide.engine.connectors import cache_directory, jar_name
from eventide.engine.java import java
from eventide.engine.spark_compat import line_of
from eventide.errors import EventideError
from eventide.sources.files import FileSource
from eventide.sources.kafka import KafkaSource
from eventide.state.records import HADOOP, record_files
from eventide.state.state import State
from eventide.storage.address import is_local, local_path, scheme_of

OK, NOTE, BAD = "ok", "note", "bad"
LEAST_JAVA = 17
FREE = 1 << 30
"""Bytes that a directory for working files should have."""
PATIENCE = 3.0
"""Seconds that a server is waited for."""
SKEW = 2.0
"""Seconds by which the clock of a disk may differ from ours."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    level: str
    said: str


def findings(pipeline: Pipeline | None) -> Iterator[Finding]:
    """All of them, one after the other; what a pipeline needs only where there is one."""
    looks: list[tuple[str, Callable[[], tuple[str, str]]]] = [
        ("Python", _python), ("Spark", _spark), ("Java", _java), ("ports", _ports), ("working files", _working_files), ("clock", _clock),
    ]  # fmt: skip
    if pipeline is not None:
        looks.append(("connectors", lambda: _connectors(pipeline)))
        for what, path in (("state", pipeline.state), ("archive", pipeline.archive)):
            if path is not None:
                looks.append((what, lambda path=path: _place(path)))  # type: ignore[misc]
        looks += [(f"source {s.name}", lambda s=s: _files(s)) for s in pipeline.sources if isinstance(s, FileSource)]  # type: ignore[misc]
        looks += [(f"source {s.name}", lambda s=s: _kafka(s)) for s in pipeline.sources if isinstance(s, KafkaSource)]  # type: ignore[misc]
        if pipeline.state is not None:
            looks.append(("clock of the state", lambda: _state_clock(pipeline)))
    for what, look in looks:
        try:
            yield Finding(what, *look())
        except (EventideError, OSError, subprocess.SubprocessError) as error:
            yield Finding(what, BAD, str(error))


def _python() -> tuple[str, str]:
    return OK, f"{sys.version.split()[0]} in {sys.executable}"


def _spark() -> tuple[str, str]:
    import pyspark

    line_of(pyspark.__version__)
    return OK, pyspark.__version__


def _java() -> tuple[str, str]:
    command = java()
    told = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if told.returncode or found is None:
        return BAD, f"{command} does not say its version: {(told.stderr or told.stdout).strip()[:200]}"
    number = int(found[2] or 0) if found[1] == "1" else int(found[1])
    if number < LEAST_JAVA:
        return (
            BAD,
            f"{command} is Java {number}, and Spark needs {LEAST_JAVA} or newer. Set JAVA_HOME to one, or: pip install 'eventide[java]'.",
        )
    return OK, f"{number} in {command}"


def _ports() -> tuple[str, str]:
    """Spark's driver and its workers talk over loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        with socket.create_connection(listening.getsockname(), PATIENCE):
            return OK, "loopback can be listened to and reached"


def _working_files() -> tuple[str, str]:
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    if free < FREE:
        return (
            BAD,
            f"{directory} has {free / FREE:.1f} GiB left, and Spark keeps its working files there. Make room, or set TMPDIR.",
        )
    return OK, f"{free / FREE:,.0f} GiB left in {directory}"


def _clock() -> tuple[str, str]:
    """Against that of the disk: files of a file server are stamped by its clock, and arrivals are compared with ours."""
    with tempfile.NamedTemporaryFile() as file:
        apart = os.stat(file.name).st_mtime - time.time()
    if abs(apart) > SKEW:
        return (
            BAD,
            f"the clock of {tempfile.gettempdir()} is {apart:+.1f} seconds from this machine's. Let both follow one time server.",
        )
    return OK, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _connectors(pipeline: Pipeline) -> tuple[str, str]:
    from eventide.engine.spark_compat import packages_of

    wanted = packages_of(pipeline.sources, (pipeline.state, pipeline.archive))
    missing = [one for one in wanted if not (cache_directory("jars") / jar_name(one)).is_file()]
    if not wanted:
        return OK, "none is needed"
    if missing:
        return (
            NOTE,
            f"{', '.join(missing)} will be fetched by the first run; without a network: eventide run FILE --jars PATH,PATH",
        )
    return OK, ", ".join(jar_name(one) for one in wanted)


def _place(path: str) -> tuple[str, str]:
    """A local directory by its rights, and by those of the nearest one that is there; an object store by asking it."""
    if scheme_of(path) in HADOOP:
        return NOTE, f"{path} can be asked through Spark only"
    if not is_local(path):
        record_files(path).names("")
        return OK, f"{path} answers; a run proves that it can write there before its first batch"
    here = Path(local_path(path)).absolute()
    nearest = next(one for one in (here, *here.parents) if one.exists())
    if not nearest.is_dir():
        return BAD, f"{nearest} is a file. Name a directory."
    if not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        return BAD, f"{nearest} cannot be written by this user. Give the right to it, or name another place."
    return OK, f"{here}{'' if here.exists() else ' (will be made)'}"


def _files(source: FileSource) -> tuple[str, str]:
    if not is_local(source.path):
        return NOTE, f"{source.path} is looked at when a run starts"
    here = Path(local_path(source.path))
    if not here.is_dir():
        return BAD, f"{here} is no directory. Make it, or mend the path."
    if not os.access(here, os.R_OK | os.X_OK):
        return BAD, f"{here} cannot be read by this user."
    return OK, str(here)


def _kafka(source: KafkaSource) -> tuple[str, str]:
    """One of the servers must be reached; which topics there are is asked when a run starts."""
    failed = []
    for server in source.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PATIENCE):
                return OK, f"{server.strip()} answers"
        except (OSError, ValueError) as error:
            failed.append(f"{server.strip()}: {error}")
    return BAD, f"no server answers ({'; '.join(failed)}). Is it running, and reached by this name and port from here?"


def _state_clock(pipeline: Pipeline) -> tuple[str, str]:
    """The batch's clock never goes back: behind it, a run would stand still until its own clock has caught up."""
    if scheme_of(pipeline.state or "") in HADOOP:
        return NOTE, "can be asked through Spark only"
    last = State.of(pipeline).last
    if not last:
        return OK, "nothing is committed yet"
    ahead = last["clock"] / 1_000_000 - time.time()
    if ahead > SKEW:
        return (
            BAD,
            f"the last commit was {ahead:,.0f} seconds ahead of this machine's clock: batches keep that time until the clock has caught up. Set the clock.",
        )
    return OK, f"the last commit was {-ahead:,.0f} seconds ago"


__all__ = ["BAD", "NOTE", "OK", "Finding", "findings"]
