"""Spark's classes as a JVM had them loaded, kept in a file: the next JVM maps it instead of loading and checking 15,000 classes one by one.

Java does it itself (class data sharing): a JVM can write what it has loaded when it ends, and another one on the same class path can take it
over. Half of the time that a run needs to its first result goes into that loading. An archive counts only once the run that it was written by
has committed a batch: one that ended early had not loaded what the others need.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from eventide.engine.connectors import cache_directory
from eventide.engine.java import java

SILENT = "-Xlog:cds*=off -Xlog:class+path*=off"
"""An archive that does not fit is passed over; nobody need hear of it."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java, one Spark and one class path."""

    file: Path

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
        if os.environ.get("SPARK_CONF_DIR") or (spark / "conf").exists() or not release.is_file():
            return None
        said = release.read_text(errors="replace")
        version = re.search(r'^JAVA_VERSION="(\d+)', said, re.MULTILINE)
        if version is None or int(version[1]) < 17 or "openj9" in said.lower():
            return None
        facts = [said, str(home), str(spark), pyspark.__version__, *class_path]
        return cls(cache_directory("classes") / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa")

    @property
    def _mark(self) -> Path:
        return self.file.with_suffix(".whole")

    @property
    def is_whole(self) -> bool:
        """Whether there is one to take over."""
        return self._mark.exists() and self.file.exists()

    def options(self, *, record: bool) -> str:
        """What Java is told: to take the archive over; or, where there is none and the run is one to go by, to write it at its end."""
        if self.is_whole:
            return f"{_word(f'-XX:SharedArchiveFile={self.file}')} {SILENT}"
        if not record:
            return ""
        self.file.unlink(missing_ok=True)  # of a run that ended early
        return f"{_word(f'-XX:ArchiveClassesAtExit={self.file}')} {SILENT}"

    def keep(self) -> None:
        """What the JVM of this process writes at its end is worth taking over."""
        self._mark.touch()


def _word(option: str) -> str:
    """One option, as Spark reads it from a line of them."""
    return f'"{option}"' if " " in option else option
