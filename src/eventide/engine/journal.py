"""Two small records for each batch: `begin`, before anything is read, and `commit`, last. A batch exists iff its commit does."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any, Protocol

from eventide.engine.ledger import Ledger
from eventide.errors import EventideError

VERSION = 1
KEPT = 20
"""Commits kept for looking back; only the last is needed to go on."""


_NEXT = "Restore it from a copy, or start over with a new generation: eventide run FILE --start-over."


class JournalError(EventideError):
    """A record is missing, damaged, or of a newer format; nothing was overwritten."""


class RecordFiles(Protocol):
    """Small files written whole or not at all."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""

    def write(self, path: str, body: bytes) -> None:
        """Write a whole file at once, replacing an earlier one."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory; none if it does not exist."""

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""


class LocalFiles:
    """On a local disk: written beside, flushed, then renamed."""

    def __init__(self, root: str) -> None:
        self.root = Path(root.removeprefix("file://").removeprefix("file:"))

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, body: bytes) -> None:
        """Write, flush to disk, rename, and flush the directory."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with open(beside, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def names(self, directory: str) -> list[str]:
        """The names in a directory."""
        here = self.root / directory
        return sorted(p.name for p in here.iterdir()) if here.is_dir() else []

    def delete(self, path: str) -> None:
        """Remove a file."""
        (self.root / path).unlink(missing_ok=True)


class Journal:
    """The records of one state directory."""

    def __init__(self, files: RecordFiles) -> None:
        self.files = files

    def begin(self, batch: int, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the facts of a batch before it is read; a batch run again gets the facts of its first try."""
        path = f"journal/begin-{batch:012d}.json"
        earlier = self._read(path)
        if earlier is not None:
            return earlier
        self.files.write(path, _packed(facts))
        return facts

    def commit(self, ledger: Ledger, facts: dict[str, Any]) -> None:
        """The batch is done: write where everything stands."""
        self.files.write(f"journal/commit-{ledger.batch:012d}.json", _packed({"ledger": ledger.to_json(), **facts}))

    def tidy(self, batch: int) -> None:
        """Forget records that nobody needs any more."""
        for name in self.files.names("journal"):
            number = _number(name)
            if number is not None and number < batch - KEPT:
                self.files.delete(f"journal/{name}")

    def last(self) -> dict[str, Any] | None:
        """The newest commit."""
        commits = [n for n in self.files.names("journal") if n.startswith("commit-") and _number(n) is not None]
        if not commits:
            begun = [n for n in self.files.names("journal") if n.startswith("begin-")]
            if begun and (_number(begun[0]) or 0) > 0:
                raise JournalError(
                    f"the journal begins with {begun[0]} and holds no commit: earlier records are missing. Nothing was overwritten. "
                    "Restore them, or start over with a new generation: eventide run FILE --start-over."
                )
            return None
        started = max((_number(n) or 0 for n in self.files.names("journal") if n.startswith("begin-")), default=0)
        newest = _number(commits[-1]) or 0
        if started > newest + 1:
            raise JournalError(
                f"the journal has begun batch {started}, but its newest commit is of batch {newest}: records are missing. Nothing was "
                f"overwritten. {_NEXT}"
            )
        return self._read(f"journal/{commits[-1]}")

    def definition(self) -> dict[str, Any] | None:
        """What the state was made by."""
        facts = self._read("journal/definition.json")
        if facts is None and any(name.startswith("commit-") for name in self.files.names("journal")):
            raise JournalError(
                "the journal holds commits, but its record journal/definition.json, which says what they mean, is missing. Nothing was "
                f"overwritten. {_NEXT}"
            )
        return facts

    def define(self, facts: dict[str, Any]) -> None:
        """Note what the state is made by."""
        self.files.write("journal/definition.json", _packed(facts))

    def _read(self, path: str) -> dict[str, Any] | None:
        body = self.files.read(path)
        if body is None:
            return None
        try:
            record = json.loads(body)
            version = int(record["version"])
            sound = version > VERSION or record["crc"] == zlib.crc32(_text(record["facts"]))
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"the journal's record {path} is damaged ({error}). Nothing was overwritten. {_NEXT}") from error
        if not sound:
            raise JournalError(
                f"the journal's record {path} is damaged (its checksum is wrong). Nothing was overwritten. {_NEXT}"
            )
        if version > VERSION:
            raise JournalError(
                f"the journal's record {path} has format {version}; this Eventide reads up to {VERSION}. Upgrade Eventide to go on."
            )
        facts: dict[str, Any] = record["facts"]
        return facts


def _packed(facts: dict[str, Any]) -> bytes:
    body = _text(facts)
    return b'{"version":%d,"crc":%d,"facts":%s}' % (VERSION, zlib.crc32(body), body)


def _text(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _number(name: str) -> int | None:
    digits = name.partition("-")[2].removesuffix(".json")
    return int(digits) if digits.isdigit() else None
