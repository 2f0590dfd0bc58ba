"""What decides a batch, as its journal record has it: clock, offsets, files, how far each lane was read, and under which definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.engine.feeds.landed import LandedFile
from eventide.errors import SourceError
from eventide.model.event import LaneId
from eventide.model.time import show_instant
from eventide.state.journal import JournalError


class FileChanged(SourceError):
    """A file that a batch was begun with is no longer the same."""


@dataclass(frozen=True)
class Beginning:
    """Everything that a batch depends on beside the rows themselves. A batch that is run again uses it, and nothing newer."""

    clock: int
    generation: int
    definition: str
    """A digest of the definition that the batch was begun by."""
    offsets: list[Any] = field(default_factory=list)
    """How far Spark's sources were read, as Spark noted it."""
    landed: dict[int, list[LandedFile]] = field(default_factory=dict)
    """For each source of files, those of this batch."""
    lanes: frozenset[LaneId] = frozenset()
    """Lanes that the sources know of, heard or not."""
    at_end: frozenset[LaneId] = frozenset()
    """Lanes read up to the clock."""
    unsure: frozenset[int] = frozenset()
    """Sources that cannot tell how far they were read."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What each source remembers after this batch."""
    drain: bool = False
    read_to: dict[LaneId, int] = field(default_factory=dict)
    """Lanes that are not at their end, and the time up to which all that could be seen of them was read."""
    contents: dict[LaneId, str] = field(default_factory=dict)
    """What was read of each lane of files; see `Content`."""
    counts: dict[LaneId, tuple[int, int]] | None = None
    """Of each lane the rows that were read, and how many of them were dead letters; None: it was not noted."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "clock": self.clock,
            "generation": self.generation,
            "definition": self.definition,
            "offsets": self.offsets,
            "landed": {
                str(i): [[f.path, f.modified, f.lane, f.size, f.fault] for f in files] for i, files in self.landed.items()
            },
            "lanes": sorted(self.lanes),
            "at_end": sorted(self.at_end),
            "unsure": sorted(self.unsure),
            "memory": self.memory,
            "drain": self.drain,
            "read_to": sorted([*lane, to] for lane, to in self.read_to.items()),
            "contents": sorted([*lane, text] for lane, text in self.contents.items()),
            "counts": None if self.counts is None else sorted([*lane, *counts] for lane, counts in self.counts.items()),
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Beginning:
        """Back from the journal."""
        return cls(
            raw["clock"],
            raw["generation"],
            raw["definition"],
            raw["offsets"],
            {int(i): [LandedFile(*facts) for facts in files] for i, files in raw["landed"].items()},
            frozenset((source, lane) for source, lane in raw["lanes"]),
            frozenset((source, lane) for source, lane in raw["at_end"]),
            frozenset(raw["unsure"]),
            raw["memory"],
            raw["drain"],
            {(source, lane): to for source, lane, to in raw["read_to"]},
            {(source, lane): text for source, lane, text in raw.get("contents", ())},
            None if raw.get("counts") is None else {(source, lane): (rows, dead) for source, lane, rows, dead in raw["counts"]},
        )

    def check_again(self, number: int, definition: str, offsets: list[Any], landed: dict[int, list[LandedFile]]) -> None:
        """Stop where a batch that may have been delivered would now be made of something else."""
        self.check_definition(number, definition)
        if self.offsets != offsets:
            raise JournalError(
                f"batch {number} was being delivered when its run ended, read up to {self.offsets}, but Spark's checkpoint now says "
                f"{offsets}. Nothing was overwritten. Restore the checkpoint beside the journal, or start over with a new generation: "
                "eventide run FILE --start-over."
            )
        for index, files in self.landed.items():
            _refuse_changes(number, files, {file.path: file for file in landed.get(index, [])})

    def check_definition(self, number: int, definition: str) -> None:
        """Stop where the definition, told by its digest, has changed since."""
        if self.definition != definition:
            raise JournalError(
                f"batch {number} was being delivered when its run ended, and the definition has changed since: run again by the new one, it "
                "would put other results under numbers that sinks have already. Run the definition as it was once more, until it has caught "
                "up; then change it. Or start over with a new generation: eventide run FILE --start-over."
            )

    def check_faults(self, number: int, landed: dict[int, list[LandedFile]]) -> None:
        """Stop where a file that could be read when the batch was begun no longer can."""
        for index, files in self.landed.items():
            for was, file in zip(files, landed[index], strict=True):
                if file.fault != was.fault:
                    raise FileChanged(
                        f"batch {number} was being delivered when its run ended, and {file.path}, one of its files, could be read then; now "
                        f"{file.fault}. Run again, the batch would not be the one that sinks have parts of. Put the file back as it was, or "
                        "start over with a new generation: eventide run FILE --start-over."
                    )

    def check_contents(self, number: int, retimed: Mapping[int, Mapping[str, int]], contents: Mapping[LaneId, str]) -> None:
        """Stop where a file has another time than when the batch was begun, and the rows are not those that were read then.

        `retimed` has, for each source, such files with their times now: one that was only touched, or landed again as it was, changes nothing.
        """
        for index, times in retimed.items():
            was, now = ({lane: told for lane, told in of.items() if lane[0] == index} for of in (self.contents, contents))
            if times and was != now:
                then = {file.path: file.modified for file in self.landed[index]}
                files = ", ".join(
                    f"{path} (of {show_instant(then[path])} then, of {show_instant(times[path])} now)" for path in times
                )
                raise FileChanged(
                    f"batch {number} was being delivered when its run ended. Since then {files}, of the same size, has been replaced, and other rows "
                    "are read now. Run again, the batch would not be the one that sinks have parts of: what they show would stand for rows that "
                    "are gone. Put the file back as it was, or start over with a new generation: eventide run FILE --start-over."
                )

    def check_counts(self, number: int, counts: Mapping[LaneId, tuple[int, int]]) -> None:
        """Stop where other rows come, or other dead letters: by a function that was changed, a schema that came or went, records that are gone."""
        was = counts if self.counts is None else self.counts
        for lane in sorted({*was, *counts}):
            (rows, dead), (rows_now, dead_now) = was.get(lane, (0, 0)), counts.get(lane, (0, 0))
            if (rows, dead) != (rows_now, dead_now):
                raise JournalError(
                    f"batch {number} was being delivered when its run ended, and had {rows:,} rows of lane {lane[1]!r}, {dead:,} of them dead letters; "
                    f"now it has {rows_now:,}, {dead_now:,} of them dead letters. A transform or a map was changed since, a registry answers otherwise, "
                    "or records are gone (compaction). Run again, the batch would not be the one that sinks have parts of. Nothing was delivered. Put "
                    "back what has changed and run again, or start over with a new generation: eventide run FILE --start-over."
                )


def _refuse_changes(number: int, begun: list[LandedFile], now: dict[str, LandedFile]) -> None:
    for file in begun:
        if file.fault is not None:
            continue  # it is a dead letter, whatever became of it since
        if file.path not in now or now[file.path].size != file.size:
            found = f"it has {now[file.path].size}" if file.path in now and now[file.path].fault is None else "it is gone"
            raise FileChanged(
                f"batch {number} was being delivered when its run ended, and {file.path}, one of its files, had {file.size} bytes then; now "
                f"{found}. Run again, the batch would not be the one that sinks have parts of. Put the file back as it was, or start over "
                "with a new generation: eventide run FILE --start-over."
            )
