"""Two small records for each batch: `begin`, before anything is delivered, and `commit`, last. A batch exists iff its commit does.

`begin` holds all that decides the batch. Until it is written nobody outside has seen anything of the batch, and it may be run again in
any way; from then on it is run again as it was begun. Records are created once and never overwritten, so that of two runs on one state
only one can write a record: the other finds that it has lost.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any

from eventide.errors import EventideError
from eventide.state.ledger import Ledger
from eventide.storage.address import local_path
from eventide.storage.files import RecordFiles

VERSION = 3
READ = (2, 3)
"""Formats that are gone on with. Format 3 came with sessions in layers: an Eventide before it would take each layer for sessions of its own."""
OLD_DEFINITION = "definition.json"
KEPT = 20
"""Commits kept for looking back; only the last is needed to go on."""


_NEXT = "Restore it from a copy, or start over with a new generation: eventide run FILE --start-over."


class JournalError(EventideError):
    """A record is missing, damaged, or of a newer format; nothing was overwritten."""


class RecordTaken(EventideError):
    """A record that this run was to write was written by another one."""


class LocalFiles:
    """On a local disk: written beside, flushed, then renamed."""

    what_to_change = "Keep state on a disk whose file system has hard links."

    def __init__(self, root: str) -> None:
        self.root = Path(local_path(root))

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, body: bytes) -> None:
        """Write, flush to disk, rename, and flush the directory."""
        os.replace(self._beside(path, body), self.root / path)
        self._flush_names(path)

    def create(self, path: str, body: bytes) -> bool:
        """Write, flush to disk, and link: the file system lets only one link of a name win."""
        beside = self._beside(path, body)
        try:
            os.link(beside, self.root / path)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        self._flush_names(path)
        return True

    def _beside(self, path: str, body: bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with open(beside, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:  # no room left, most often: what is there of it takes some
            beside.unlink(missing_ok=True)
            raise
        return beside

    def _flush_names(self, path: str) -> None:
        directory = os.open((self.root / path).parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def names(self, directory: str) -> list[str]:
        """The names in a directory."""
        here = self.root / directory
        return sorted(p.name for p in here.iterdir() if not p.name.startswith(".")) if here.is_dir() else []

    def delete(self, *paths: str) -> None:
        """Remove files."""
        for path in paths:
            (self.root / path).unlink(missing_ok=True)


class Journal:
    """The records of one state directory."""

    def __init__(self, files: RecordFiles) -> None:
        self.files = files

    def begun(self, batch: int) -> dict[str, Any] | None:
        """What decided an earlier try of a batch that may have delivered something; None: nobody has seen anything of it."""
        return self._read(_begin(batch))

    def begin(self, batch: int, facts: dict[str, Any]) -> None:
        """Write down what decides a batch, before anything of it is delivered."""
        self._create(_begin(batch), facts)

    def commit(self, ledger: Ledger, facts: dict[str, Any]) -> None:
        """The batch is done: write where everything stands."""
        self._create(f"journal/commit-{ledger.batch:012d}.json", {"ledger": ledger.to_json(), **facts})

    def _create(self, path: str, facts: dict[str, Any]) -> None:
        if not self.files.create(path, _packed(facts)):
            raise RecordTaken(
                f"another run has written {path} of this state directory: it goes on with the batches, and this run stops without "
                "writing anything more."
            )

    def tidy(self, batch: int) -> None:
        """Forget records that nobody needs any more."""
        named = {name: _number(name) for name in self.files.names("journal") if not name.startswith("definition-")}
        old = [f"journal/{name}" for name, number in named.items() if number is not None and number < batch - KEPT]
        self.files.delete(*old)

    def last(self) -> dict[str, Any] | None:
        """The newest commit."""
        names = self.files.names("journal")
        commits = [n for n in names if n.startswith("commit-") and _number(n) is not None]
        begun = [n for n in names if n.startswith("begin-")]
        if not commits:
            if begun and (_number(begun[0]) or 0) > 0:
                raise JournalError(
                    f"the journal begins with {begun[0]} and holds no commit: earlier records are missing. Nothing was overwritten. "
                    "Restore them, or start over with a new generation: eventide run FILE --start-over."
                )
            return None
        started = max((_number(n) or 0 for n in begun), default=0)
        newest = _number(commits[-1]) or 0
        if started > newest + 1:
            raise JournalError(
                f"the journal has begun batch {started}, but its newest commit is of batch {newest}: records are missing. Nothing was "
                f"overwritten. {_NEXT}"
            )
        return self._read(f"journal/{commits[-1]}")

    def ledger(self) -> Ledger | None:
        """Where everything stands, by the newest commit."""
        return ledger_in(self.last())

    def definition(self) -> dict[str, Any] | None:
        """What the state is made by: the newest record of it."""
        names = self._definitions()
        if not names and any(name.startswith("commit-") for name in self.files.names("journal")):
            raise JournalError(
                "the journal holds commits, but its records journal/definition-*.json, which say what they mean, are missing. Nothing was "
                f"overwritten. {_NEXT}"
            )
        return self._read(f"journal/{names[-1]}") if names else None

    def generation(self) -> int | None:
        """Of the state, by any record that can be read: all say the same. For one whose definition is damaged; None: no record tells."""
        for name in self.files.names("journal"):
            try:
                said = (self._read(f"journal/{name}") or {}).get("generation")
            except JournalError:
                continue
            if said is not None:
                return int(said)
        return None

    @property
    def definitions(self) -> int:
        """The number of the newest record of a definition; 0 where there is none with a number."""
        return max((_number(name) or 0 for name in self._definitions()), default=0)

    def define(self, facts: dict[str, Any], known: int) -> None:
        """Note what the state is made by from now on, unless that is known; `known` is the newest record that the run went by.

        Should another run have noted a definition since, this one has lost the state to it, and its own is not to count.
        """
        if self.definitions > known or facts != self.definition():
            self._create(f"journal/definition-{known + 1:06d}.json", facts)

    def _definitions(self) -> list[str]:
        """Records of definitions, oldest first; the one without a number is of an older format."""
        names = [n for n in self.files.names("journal") if n == OLD_DEFINITION or (n.startswith("definition-") and _number(n))]
        return sorted(names, key=lambda name: _number(name) or 0)

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
        return facts if version in READ else {**facts, "format": version}


def ledger_in(commit: dict[str, Any] | None) -> Ledger | None:
    """Where everything stands, by a commit; None: there is none."""
    if commit is not None and "format" in commit:
        raise JournalError(f"the journal's newest commit has format {commit['format']}, of an earlier Eventide. {_NEXT}")
    return None if commit is None else Ledger.from_json(commit["ledger"])


def _packed(facts: dict[str, Any]) -> bytes:
    body = _text(facts)
    return b'{"version":%d,"crc":%d,"facts":%s}' % (VERSION, zlib.crc32(body), body)


def _text(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _begin(batch: int) -> str:
    return f"journal/begin-{batch:012d}.json"


def _number(name: str) -> int | None:
    digits = name.partition("-")[2].removesuffix(".json")
    return int(digits) if digits.isdigit() else None
