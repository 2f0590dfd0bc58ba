"""Files of one place, by what every kind of place can do: create once, write whole, read, list, remove."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from eventide.errors import StoreError


class RecordFiles(Protocol):
    """Small files written whole or not at all; of two that create the same one, one wins."""

    @property
    def what_to_change(self) -> str:
        """What helps where the place turns out not to keep that."""

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""

    def write(self, path: str, body: bytes) -> None:
        """Write a whole file at once, replacing an earlier one."""

    def create(self, path: str, body: bytes) -> bool:
        """Write a whole file at once if there is none of that name; says whether it was this call that wrote it."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory; none if it does not exist."""

    def delete(self, *paths: str) -> None:
        """Remove files; one that is gone already is no fault."""


class DataFiles(Protocol):
    """Large files: written whole or not at all under names of their own, and read in parts by Arrow."""

    at_once: int
    """How many files are removed by one request."""

    def put(self, path: str, body: memoryview) -> None:
        """Write a whole file at once."""

    def open(self, path: str) -> Any:
        """A file as Arrow reads it; FileNotFoundError if there is none."""

    def sizes(self, directory: str) -> dict[str, int]:
        """The files below a directory at any depth, by their paths below the root, with their sizes in bytes."""

    def directories(self, path: str) -> list[str]:
        """The names of the directories directly below a path."""

    def delete(self, *paths: str) -> None:
        """Remove files; one that is gone already is no fault."""

    def delete_directory(self, path: str) -> None:
        """Remove a directory and all below it; one that is gone already is no fault."""

    def prune(self, path: str) -> None:
        """Remove a directory whose files have been removed, where a directory is more than the names of its files."""


_hadoop: list[Callable[[str], RecordFiles]] = []
"""How records on a Hadoop file system are opened, as who has Spark has said: no way leads there but through its JVM."""


def reach_hadoop(opened: Callable[[str], RecordFiles]) -> None:
    """Say how the records below an address on a Hadoop file system are opened: the engine does, which has Spark."""
    _hadoop[:] = [opened]


def hadoop_files(root: str) -> RecordFiles:
    """The records below an address on a Hadoop file system."""
    if not _hadoop:
        raise StoreError(f"what is kept in {root} can be read through Spark only, which has no part in this process.")
    return _hadoop[0](root)


def prove(files: RecordFiles, root: str) -> None:
    """Stop where a place does not keep what records rest on: a file is created once, and one that is replaced is replaced."""
    path = f"probe/{uuid.uuid4().hex}"
    created, again = files.create(path, b"first"), files.create(path, b"second")
    files.write(path, b"third")
    found = files.read(path)
    files.delete(path)
    if created and not again and found == b"third":
        return
    lost = (
        "a file that is there already was created a second time: two runs could both take the state and write the same batches"
        if again
        else f"a file that was replaced still reads {found!r}: what a run writes would be lost without a word"
    )
    raise StoreError(f"state cannot be kept in {root}: {lost}. Nothing was begun. {files.what_to_change}")


def delete_each(delete: Callable[[str], object], paths: Iterable[str]) -> None:
    """Remove files one by one, those that are gone already passed over."""
    for path in paths:
        try:
            delete(path)
        except FileNotFoundError:
            continue


__all__ = ["DataFiles", "RecordFiles", "delete_each", "hadoop_files", "prove", "reach_hadoop"]
