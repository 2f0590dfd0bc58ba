"""The chain of the audit log: each line carries a hash of itself and of the line before, so that no change goes unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

COLUMNS = ("seq", "at", "who", "origin", "action", "subject", "outcome", "reason", "detail")
"""What a line says; its hash covers all of it."""
BEGINNING = "0" * 64
_MOST_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a log: its number and its hash. Written down elsewhere, it holds the whole log fast.

    >>> Head.parse("7:ab")
    Head(seq=7, hash='ab')
    """

    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read what `str` gives.

        Raises:
            ValueError: it is something else.
        """
        seq, _, digest = text.partition(":")
        if not (seq.isascii() and seq.isdigit()) or not digest:
            raise ValueError(f"{text!r} is no end of an audit log; it looks like 120:9f3c…, as `--verify` prints it")
        return cls(int(seq), digest)

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


EMPTY = Head(0, BEGINNING)


def line_hash(previous: str, line: Mapping[str, Any]) -> str:
    """The hash of a line that follows another one."""
    said = json.dumps([previous, *(line[column] for column in COLUMNS)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@dataclass
class Verification:
    """What a walk along the chain found; without faults the log is what was written."""

    lines: int = 0
    faults: list[str] = field(default_factory=list)
    last: Head = EMPTY

    @property
    def is_sound(self) -> bool:
        """Is every line as it was written, and none missing?"""
        return not self.faults


def verify(lines: Iterable[Mapping[str, Any]], head: Head, expected: Head | None = None) -> Verification:
    """Walk along all lines, oldest first; `head` is where the registry says that its log ends, or ended a moment ago.

    `expected` is an end of the log that somebody noted down earlier: it must still be a line of it.
    """
    found = Verification()
    wanted = {end.seq: end for end in (head, expected) if end is not None}
    passed: set[int] = {0} if head == EMPTY else set()
    for line in lines:
        found.lines += 1
        seq = int(line["seq"])
        if seq <= found.last.seq:
            _add(found, f"line {seq} comes after line {found.last.seq}")
        if line_hash(found.last.hash, line) != line["hash"]:
            gap = seq != found.last.seq + 1
            what = f"lines {found.last.seq + 1} to {seq - 1} are gone, or" if gap else "it was changed, or"
            _add(found, f"line {seq} does not follow from line {found.last.seq}: {what} the line before was replaced")
        end = wanted.get(seq)
        if end is not None:
            passed.add(seq)
            if end.hash != line["hash"]:
                _add(found, f"line {seq} is not the one that was noted down as {end}")
        found.last = Head(seq, str(line["hash"]))
    for end in wanted.values():
        if end.seq not in passed:
            _add(found, f"the log must reach line {end.seq}, and ends at line {found.last.seq}: lines are gone")
    return found


def _add(found: Verification, fault: str) -> None:
    if len(found.faults) < _MOST_FAULTS:
        found.faults.append(fault)
