"""Emissions: what an output says about a window, how often it has said so, and which of two sayings is newer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide.model.event import Event
from eventide.model.window import Bounds

INSERT = "insert"
RETRACT = "retract"
EARLY = "early"
ON_TIME = "on_time"
LATE = "late"


@dataclass(frozen=True)
class Pane:
    """One emission. `sequence` counts a window's inserts from 0; a retract carries the sequence that it withdraws."""

    output: str
    window: Bounds
    key: Hashable
    sequence: int
    op: str
    timing: str
    values: Mapping[str, Any]
    generation: int = 0

    @property
    def window_id(self) -> tuple[Bounds, Hashable]:
        """The window's bounds and key: what a sink keeps one row for."""
        return (self.window, self.key)

    @property
    def rank(self) -> tuple[int, int, bool]:
        """Orders the panes of one window; a sink keeps the highest. A retract comes after the insert it withdraws.

        >>> old = Pane("o", (0, 10), "k", 0, RETRACT, LATE, {})
        >>> Pane("o", (0, 10), "k", 0, INSERT, LATE, {}).rank < old.rank < Pane("o", (0, 10), "k", 1, INSERT, LATE, {}).rank
        True
        """
        return (self.generation, self.sequence, self.op == RETRACT)


@dataclass(frozen=True)
class LateRow:
    """A row that at least one of its windows refused, with the facts to find it again."""

    output: str
    event: Event
    watermark: int
    missed: tuple[Bounds, ...]

    @property
    def lateness(self) -> int:
        """How far W had passed the end of the last window that missed it."""
        return self.watermark - self.missed[-1][1]
