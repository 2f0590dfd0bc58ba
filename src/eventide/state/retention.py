"""For how long a state keeps what it wrote for people: which batches are older than that, noted with every commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from eventide.errors import DefinitionError
from eventide.state.state import State
from eventide.state.store import Store
from eventide.storage.files import RecordFiles

STEPS = 50
"""Into so many steps the span is cut: a file goes at most a fiftieth of the span late."""
BY_HAND = "removed"
TABLES = ("panes", "late")
"""Tables with a directory for each output."""


@dataclass(frozen=True)
class Retention:
    """Batches by the clocks at which they were committed, and up to which of them files were removed.

    >>> first = Retention().after(0, 1_000, keep=100)
    >>> first.after(1, 1_001, keep=100) == first, first.after(7, 1_100, keep=100)
    (True, Retention(marks=((7, 1100),), removed=0))
    """

    marks: tuple[tuple[int, int], ...] = ()
    """A batch and its clock, now and then: all batches up to it are as old as that or older."""
    removed: int = -1

    def after(self, batch: int, clock: int, keep: int | None) -> Retention:
        """After a commit; None keeps everything."""
        if keep is None:
            return self
        marks = self.marks
        if not marks or clock - marks[-1][1] >= max(1, keep // STEPS):
            marks = (*marks, (batch, clock))
        removed = max([self.removed, *(number for number, at in marks if at <= clock - keep)])
        return Retention(tuple(mark for mark in marks if mark[0] > removed), removed)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"marks": [list(mark) for mark in self.marks], "removed": self.removed}

    @classmethod
    def from_json(cls, raw: dict[str, Any] | None) -> Retention:
        """Back from a commit; None: it notes nothing of the kind."""
        return cls() if raw is None else cls(tuple((number, at) for number, at in raw["marks"]), raw["removed"])


def retire(store: Store, upto: int, whole: Iterable[str], kept: Iterable[str]) -> None:
    """Remove the files of batches up to one from tables: of `whole` ones, and of each output's but the panes that somebody reads still."""
    for directory in due(store, upto, whole, kept):
        store.delete_directory(directory)


def due(store: Store, upto: int, whole: Iterable[str], kept: Iterable[str]) -> Iterator[str]:
    """The directories that `retire` removes."""
    spared = {f"panes/{name}" for name in kept}
    told = [f"{table}/{name}" for table in TABLES for name in store.directories(table)]
    for directory in (*whole, *(one for one in told if one not in spared)):
        for name in store.directories(directory):
            batch = name.removeprefix("batch=")
            if batch.isdigit() and int(batch) <= upto:
                yield f"{directory}/{name}"


def note_removal(files: RecordFiles, upto: int) -> None:
    """Write down, before the first file goes, that files of batches up to one are removed by hand: no commit says so."""
    files.create(f"{BY_HAND}/{upto:08d}.json", b"{}")


def retention_of(last: dict[str, Any] | None, files: RecordFiles) -> Retention:
    """As the newest commit notes it, and what was removed by hand since."""
    noted = Retention.from_json((last or {}).get("kept"))
    numbers = (name.removesuffix(".json") for name in files.names(BY_HAND))
    return replace(noted, removed=max([noted.removed, *(int(number) for number in numbers if number.isdigit())]))


def removed_upto(state: State) -> int:
    """The last batch whose files were removed; -1: none were."""
    return retention_of(state.last, state.files).removed


def refuse_removed(state: State, what: str) -> None:
    """Say that something compares all that was said, where a part of that is gone."""
    upto = removed_upto(state)
    if upto >= 0:
        raise DefinitionError(
            f"of what pipeline {state.name!r} said, the files of batches up to {upto} were removed (keep=…, or eventide state --clean): {what} "
            "would take their results for missing ones. Leave keep= away where it is wanted, or compare the sink itself."
        )


__all__ = ["Retention", "due", "note_removal", "refuse_removed", "removed_upto", "retention_of", "retire"]
