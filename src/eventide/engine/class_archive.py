"""Spark's classes as a JVM had them loaded, kept in a file: the next JVM maps it instead of loading and checking 15,000 classes one by one.

Java does it itself (class data sharing): a JVM can write what it has loaded when it ends, and another one on the same class path can take it
over. Half of the time that a run needs to its first result goes into that loading. An archive counts only once the run that it was written by
has committed a batch: one that ended early had not loaded what the others need. A JVM writes under a name of its own, for some seconds after its
run has ended; a later start gives the file its name once it is whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eventide.engine.connectors import cache_directory
from eventide.engine.java import java

SILENT = "-Xlog:cds*=off -Xlog:class+path*=off"
"""An archive that does not fit is passed over; nobody need hear of it."""

ON_THE_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables by which Spark puts directories on its class path: Java keeps no classes then, and ends with an error if it is told to."""

HOUR = 3600
KEPT_FOR = 30 * 24 * HOUR
"""An archive that no start has taken over for so long is removed: there is one of 150 MB for each Java, Spark and set of connectors."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java, one Spark and one class path."""

    file: Path
    written: Path
    """The file that the JVM of this process writes, if it is to."""

    @classmethod
    def of(cls, class_path: list[str]) -> ClassArchive | None:
        """None where Java cannot do it: before 17, other virtual machines, or with a directory of settings on the class path.

        Nor where there is no place for it: what only saves time stops no run.
        """
        try:
            return cls._of(class_path)
        except (OSError, RuntimeError):
            return None

    @classmethod
    def _of(cls, class_path: list[str]) -> ClassArchive | None:
        import pyspark

        home = Path(os.path.realpath(java())).parents[1]
        spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
        release = home / "release"
        if any(map(os.environ.get, ON_THE_CLASS_PATH)) or (spark / "conf").exists() or not release.is_file():
            return None
        said = release.read_text(errors="replace")
        version = re.search(r'^JAVA_VERSION="(\d+)', said, re.MULTILINE)
        if version is None or int(version[1]) < 17 or "openj9" in said.lower():
            return None
        jars = [Path(entry) for entry in class_path]
        if not all(jar.is_file() for jar in jars):
            return None
        files = [home / "lib" / "modules", *sorted((spark / "jars").glob("*.jar")), *jars]
        name = hashlib.sha256(repr([said, *map(_stamp, files)]).encode()).hexdigest()[:16]
        folder = cache_directory("classes")
        return cls(folder / f"{name}.jsa", folder / f"{name}-{secrets.token_hex(4)}.new")

    @property
    def is_whole(self) -> bool:
        """Whether there is one to take over."""
        return self.file.exists()

    def options(self, *, record: bool) -> str:
        """What Java is told: to take the archive over; or, where there is none and the run is one to go by, to write it at its end."""
        if self.is_whole:
            with suppress(OSError):
                os.utime(self.file)  # it is in use
            return f"{_word(f'-XX:SharedArchiveFile={self.file}')} {SILENT}"
        if not record or not os.access(self.file.parent, os.W_OK):
            return ""
        return f"{_word(f'-XX:ArchiveClassesAtExit={self.written}')} {SILENT}"

    def keep(self) -> None:
        """What the JVM of this process writes at its end is worth taking over."""
        with suppress(OSError):
            _mark(self.written).touch()

    def gather(self) -> None:
        """Take in what runs before this one have written, and remove what nobody will take over."""
        with suppress(OSError):  # the whole directory may be going, or another start be at it as well
            for path in list(self.file.parent.iterdir()):
                with suppress(OSError):
                    if path.suffix == ".new":
                        _take_in(path)
                    if path != self.file:
                        _remove_old(path)


def _remove_old(path: Path) -> None:
    if time.time() - path.stat().st_mtime > (HOUR if path.suffix == ".new" else KEPT_FOR):
        path.unlink()


def _take_in(written: Path) -> None:
    with written.open("rb") as file:
        is_whole = any(file.read(4))  # Java writes the beginning last
    if is_whole and _mark(written).exists():
        os.replace(written, written.with_name(f"{written.stem.rpartition('-')[0]}.jsa"))
        _mark(written).unlink()
    elif is_whole:  # of a run that ended early
        written.unlink()


def _mark(written: Path) -> Path:
    """Says that a run has come to a commit."""
    return written.with_suffix(".whole")


def _stamp(file: Path) -> tuple[str, int, int]:
    """What Java compares, too: an archive of files that were replaced since then does not fit."""
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns


def _word(option: str) -> str:
    """One option, as Spark reads it from a line of them."""
    return f'"{option}"' if " " in option else option
