"""What Spark has noted in its checkpoint: how far each source goes in a batch, and which files it has taken."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from eventide.model.time import saturate
from eventide.state.journal import JournalError
from eventide.storage.files import RecordFiles


@dataclass(frozen=True)
class TakenFile:
    """A file as Spark found it."""

    path: str
    modified: int
    """Microseconds since 1970."""


@dataclass
class FileLog:
    """Spark's log of the files that one source has taken. A batch goes up to an entry of it; no file is taken twice."""

    files: RecordFiles
    directory: str
    entries: dict[int, list[TakenFile]] = field(default_factory=dict)
    read_to: int = -1

    def between(self, before: int, entry: int) -> list[TakenFile]:
        """The files of the entries after one and up to another; entries are never changed, so that each is read once."""
        if entry > self.read_to:
            self._read(entry)
        return [file for number in range(before + 1, entry + 1) for file in self.entries.get(number, ())]

    def _read(self, entry: int) -> None:
        """Every tenth entry holds all that were before it as well, and those may be gone."""
        names = set(self.files.names(self.directory))
        whole = next((n for n in range(entry, self.read_to, -1) if f"{n}.compact" in names), None)
        for number in range(self.read_to + 1 if whole is None else whole, entry + 1):
            self._take(f"{number}.compact" if number == whole else str(number))
        self.read_to = entry

    def _take(self, name: str) -> None:
        body = self.files.read(f"{self.directory}/{name}")
        lines = (body or b"").decode().splitlines()
        if lines[:1] != ["v1"]:
            raise JournalError(
                f"Spark's list of files that were read, {self.directory}/{name}, is {'missing' if body is None else 'not of format v1'}: "
                "nobody can tell which files are new. Restore the checkpoint beside the journal, or start over with a new generation: "
                "eventide run FILE --start-over."
            )
        for line in lines[1:]:
            said = json.loads(line)
            if said["batchId"] > self.read_to:
                file = TakenFile(unquote(said["path"]), saturate(said["timestamp"] * 1_000))
                self.entries.setdefault(said["batchId"], []).append(file)


@dataclass(frozen=True)
class Noted:
    """What is noted of one source for one batch."""

    offset: dict[str, Any]
    """How far the batch goes; empty where Spark has read nothing of the source yet."""
    before: dict[str, Any]
    """How far the batch before it went."""
    log: FileLog | None = None

    @property
    def entry(self) -> int:
        """The entry of Spark's log of files up to which the batch goes."""
        return int(self.offset.get("logOffset", -1))

    @property
    def taken(self) -> list[TakenFile]:
        """The files that the batch consists of."""
        return self.taken_since(int(self.before.get("logOffset", -1)))

    def taken_since(self, entry: int) -> list[TakenFile]:
        """The files of this batch and of those before it, after an entry of the log."""
        return [] if self.log is None else self.log.between(entry, self.entry)


@dataclass
class SparkNotes:
    """The checkpoint of a query, read."""

    files: RecordFiles
    _logs: dict[int, FileLog] = field(default_factory=dict)

    def offsets(self, batch: int) -> list[dict[str, Any] | None]:
        """How far the sources go in a batch, in their order in the query; None for one of which nothing was read, or which counts only."""
        body = self.files.read(f"checkpoint/offsets/{batch}") if batch >= 0 else None
        lines = (body or b"").decode().splitlines()
        if body is not None and lines[:1] != ["v1"]:
            raise JournalError(
                f"Spark's note of how far batch {batch} goes, checkpoint/offsets/{batch}, has format {lines[0] if lines else 'none'!r}; Eventide reads "
                "v1. Leave the setting spark.sql.streaming.offsetLog.formatVersion at 1, and start over with a new generation: "
                "eventide run FILE --start-over."
            )
        return [_object(line) for line in lines[2:]]

    def of(self, place: int | None, batch: int, offsets: list[dict[str, Any] | None] | None = None) -> Noted:
        """What is noted of the source at a place in the query (None: it has none of its own) for a batch; `offsets`, where they have been read."""
        if place is None:
            return Noted({}, {})
        noted, earlier = self.offsets(batch) if offsets is None else offsets, self.offsets(batch - 1)
        if noted and batch > 0 and not earlier:
            raise JournalError(
                f"Spark's checkpoint says how far batch {batch} goes, but not where it begins: checkpoint/offsets/{batch - 1} is missing, and every "
                "file before it would be read again. Nothing was overwritten. Restore the checkpoint beside the journal, or start over with a new "
                "generation: eventide run FILE --start-over."
            )
        log = self._logs.setdefault(place, FileLog(self.files, f"checkpoint/sources/{place}"))
        return Noted(_at(noted, place), _at(earlier, place), log)


def _at(offsets: list[dict[str, Any] | None], place: int) -> dict[str, Any]:
    return (offsets[place] if place < len(offsets) else None) or {}


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
