"""The jars of connectors as files: fetched once for each user, checked, and handed to Spark by path.

Spark can resolve coordinates itself, but asks the local Maven repository first, and what is half there (as in any Java developer's) it takes
for whole, and remembers. Here nobody is asked but the central repository, nothing beside the jars that are named is fetched, and a jar counts
only when all of it is there.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from eventide.engine.java import SparkUnavailable, java

REPOSITORY = "DEFAULT_ARTIFACT_REPOSITORY"
"""The variable by which Spark, too, is told of another repository than the central one."""
BY_PATH = "or bring the jars here and name them: eventide run FILE --jars PATH,PATH."


def jars_of(coordinates: Iterable[str], given: Iterable[str] = ()) -> list[str]:
    """The paths of the jars with these coordinates; those that were given by path are not fetched."""
    names = [Path(path).name for path in given]
    wanted = [c for c in dict.fromkeys(coordinates) if not any(n.startswith(f"{c.split(':')[1]}-") for n in names)]
    return [*map(str, given), *map(str, _kept(wanted) if wanted else [])]


def _kept(wanted: list[str]) -> list[Path]:
    """Nothing is written, nor a lock taken, where all of them are there: a cache may be one that can only be read."""
    try:
        cache = cache_directory("jars")
        if _missing(cache, wanted):
            with (cache / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # runs that start side by side fetch once
                if missing := _missing(cache, wanted):
                    _fetch_into(cache, missing)
    except (OSError, RuntimeError) as error:  # of these, the latter for a user without a home
        raise SparkUnavailable(
            f"{' and '.join(wanted)} cannot be kept for Spark: {str(error).rstrip('.')}. Set XDG_CACHE_HOME to a directory that can be written; {BY_PATH}"
        ) from error
    return [cache / jar_name(c) for c in wanted]


def _missing(cache: Path, wanted: list[str]) -> list[str]:
    return [c for c in wanted if not zipfile.is_zipfile(cache / jar_name(c))]


def jar_name(coordinate: str) -> str:
    """The name of a jar's file.

    >>> jar_name("org.apache.kafka:kafka-clients:3.9.1")
    'kafka-clients-3.9.1.jar'
    """
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def cache_directory(name: str) -> Path:
    """Where what was fetched is kept: below XDG_CACHE_HOME, or ~/.cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide" / name
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _fetch_into(cache: Path, missing: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as folder:
        fetch(missing, Path(folder), transitive=False)
        for coordinate in missing:
            os.replace(Path(folder) / jar_name(coordinate), cache / jar_name(coordinate))


def fetch(coordinates: list[str], folder: Path, *, transitive: bool) -> None:
    """Bring jars into a folder, with what they depend on where asked, by the resolver that Spark ships (Ivy)."""
    with tempfile.TemporaryDirectory(prefix="eventide-ivy-") as work:
        settings, module = Path(work) / "settings.xml", Path(work) / "ivy.xml"
        settings.write_text(_settings(work))
        module.write_text(_module(coordinates, transitive))
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        command = [
            java(),
            "-jar",
            str(_ivy()),
            "-settings",
            str(settings),
            "-ivy",
            str(module),
            "-retrieve",
            pattern,
            "-types",
            "jar",
            "bundle",
        ]
        said, is_done = _ran(command)
    there = {path.name for path in folder.glob("*.jar") if zipfile.is_zipfile(path)}
    lacking = [c for c in coordinates if jar_name(c) not in there]
    if lacking or not is_done:
        raise SparkUnavailable(
            f"{' and '.join(lacking or coordinates)} could not be fetched: {said}. Set {REPOSITORY} to a Maven repository "
            f"that this machine reaches; {BY_PATH}"
        )


def _ran(command: list[str]) -> tuple[str, bool]:
    """What of a program's words says best how it ended, and whether it ended well."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except OSError as error:
        return f"{command[0]} cannot be run ({error.strerror})", False
    except subprocess.TimeoutExpired:
        return "no answer in 15 minutes", False
    return _why(ran.stdout + ran.stderr), ran.returncode == 0


def _settings(work: str) -> str:
    root = os.environ.get(REPOSITORY)
    where = f" root={quoteattr(root)}" if root else ""
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(work + '/cache')}/>"
        f'<resolvers><ibiblio name="central" m2compatible="true"{where}/></resolvers></ivysettings>'
    )


def _module(coordinates: list[str], transitive: bool) -> str:
    conf = "default->default" if transitive else "default->master"
    lines = []
    for coordinate in coordinates:
        group, artifact, version = map(quoteattr, coordinate.split(":"))
        kind = str(transitive).lower()
        lines.append(f'<dependency org={group} name={artifact} rev={version} conf="{conf}" transitive="{kind}"/>')
    return f'<ivy-module version="2.0"><info organisation="eventide" module="jars"/><dependencies>{"".join(lines)}</dependencies></ivy-module>'


def _ivy() -> Path:
    import pyspark

    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def _why(log: str) -> str:
    """The line of the resolver's log that says it best."""
    telling = (
        "UnknownHostException",
        "Connection refused",
        "ConnectException",
        "timed out",
        "status code",
        "not found",
        "FAILED",
    )
    lines = [line.strip(" \t:") for line in log.splitlines()]
    for words in telling:
        for line in lines:
            if words in line:
                return line
    return "the resolver gave no reason"
