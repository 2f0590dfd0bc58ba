"""What goes wrong, told in one paragraph: with what to do next, and without a traceback."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from eventide.errors import EventideError, LossWarning, OrderWarning, StoreUnavailable
from eventide.redaction import masked

EXTRAS = {
    "avro": "registry", "chdb": "chdb", "clickhouse_connect": "clickhouse", "confluent_kafka": "kafka", "deltalake": "delta",
    "duckdb": "duckdb", "fastavro": "registry", "google": "registry", "httpx": "registry", "httptools": "registry",
    "jsonata": "rules", "jsonschema": "registry", "matplotlib": "plot", "psycopg": "postgres", "pyiceberg": "iceberg",
    "re2": "registry", "referencing": "registry", "sqlglot": "rules", "starlette": "dashboard", "uvicorn": "registry",
}  # fmt: skip
"""Which extra of ours brings a package."""
LAST_LINE = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+((?:\S.*\n?)(?:(?![ \t]*at |\n|During|The above).+\n?)*)"
)
"""What a Python traceback ends with, in the text of an error that came by way of Spark."""

PLACE = re.compile(r" \([^()]*, line \d+\)$")
"""The user's line, which a warning ends with."""


class Refused(click.ClickException):
    """It did not begin: the file, the definition, the state or a place that it needs is not as it must be."""

    exit_code = 2


class Stopped(click.ClickException):
    """It began, and something ended it."""

    exit_code = 1


class Unanswered(click.ClickException):
    """A place does not answer now: the same command may succeed later."""

    exit_code = 3


@contextmanager
def retrying() -> Iterator[None]:
    """For a command that only reads: where a place does not answer now, its exit code says that it is worth another try."""
    try:
        yield
    except StoreUnavailable as error:
        raise Unanswered(in_words(error)) from error


@contextmanager
def telling() -> Iterator[None]:
    """For a command: what the user can mend ends it with one paragraph and exit code 2."""
    try:
        yield
    except EventideError as error:
        raise Refused(in_words(error)) from error
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise Refused(f"this needs {error.name}, which is not installed here: pip install 'eventide[{extra}]'") from error


def text_of(path: Path) -> str:
    """What a file says that the user named; one that is no text or says nothing is refused before anybody is asked about it."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is no text in UTF-8: {error}.") from None
    if not text.strip():
        raise Refused(f"{path} is empty.")
    return text


def refuse_unwritable(option: str, path: str) -> None:
    """For a command that writes a file at its end: a place that it cannot be written to is told at its beginning."""
    directory = Path(path).parent
    if Path(path).is_dir():
        raise Refused(f"{option} {path}: it is a directory. Name a file in it.")
    if not directory.is_dir():
        raise Refused(f"{option} {path}: there is no directory {directory}. Make it, or name a file elsewhere.")


@contextmanager
def warning_once() -> Iterator[None]:
    """For a command: each warning is one line, and is said once, however often what it is about is defined."""
    said: set[str] = set()

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: object = None, line: object = None
    ) -> None:
        text = str(message)
        about = PLACE.sub("", text)
        if about not in said:
            said.add(about)
            click.echo(f"warning: {text}", err=True)

    with warnings.catch_warnings():
        for category in (LossWarning, OrderWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


def in_words(error: BaseException) -> str:
    r"""An error as one paragraph: what a worker raised rather than what Spark wrapped around it.

    >>> in_words(ValueError("a worker failed:\nTraceback (most recent call last):\n  File x\neventide.errors.SourceError: no such file\n\n\tat java"))
    'no such file'
    >>> in_words(KeyError("paise"))
    "KeyError: 'paise'"
    """
    text = masked(str(error))
    if isinstance(error, EventideError):
        return text
    raised = LAST_LINE.findall(text)
    if raised:
        name, _, said = raised[-1].strip().partition(": ")
        return said if name.startswith("eventide.") else f"{name.rpartition('.')[2]}: {said}"
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}"
