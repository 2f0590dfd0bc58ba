"""Rows of one value as exact counts and a few sketches: evenly spaced ranks of a sorted chunk, denser where the tail begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import datasketches as ds
import numpy as np

from eventide.lateness.quantiles import KLL_K

RANKS = 256
"""A chunk leaves so many ranks in a sketch, and fewer than twice as many: each stands for at most 0.4% of the chunk, itself in the middle."""
ODD = 2 * np.arange(2 * RANKS) + 1
ENOUGH = 1 << 16
"""So many rows of a lane, drawn evenly and at random from a chunk, are within 0.5% of rank of all of them (99% of the time)."""
TAIL, DENSER = 32, 16
"""The largest 1/32 of a chunk leaves ranks 16 times as dense, because P99 and P99.9 lie there."""


@dataclass
class Measured:
    """What was seen of one value in one hour: exact counts, and a sketch for each density of ranks."""

    rows: int = 0
    late_at_source: int = 0
    late_at_window: int = 0
    longest: int | None = None
    sketches: dict[int, Any] = field(default_factory=dict)
    """By stride: how many rows a rank stands for."""

    def count(self, rows: int, late_at_source: int, late_at_window: int, longest: int) -> None:
        """Some more rows."""
        self.rows += rows
        self.late_at_source += late_at_source
        self.late_at_window += late_at_window
        self.longest = longest if self.longest is None else max(self.longest, longest)

    def sketch(self, stride: int, ranks: np.ndarray) -> None:
        """Their lateness, by numbers that each stand for as many rows as the stride says."""
        self._sketch(stride).update(ranks)

    def merge(self, other: Measured) -> None:
        """The sketches of a part of the rows."""
        for stride, sketch in other.sketches.items():
            self._sketch(stride).merge(sketch)

    def _sketch(self, stride: int) -> Any:
        if stride not in self.sketches:
            self.sketches[stride] = ds.kll_doubles_sketch(KLL_K)
        return self.sketches[stride]

    def lines(self) -> Iterator[tuple[Any, ...]]:
        """One for each sketch; the counts stand in the first."""
        counts = (self.rows, self.late_at_source, self.late_at_window)
        for nth, (stride, sketch) in enumerate(sorted(self.sketches.items())):
            yield (stride, *(counts if nth == 0 else (0, 0, 0)), self.longest, bytes(sketch.serialize()))


def spaced(rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """The places that stand for so many rows in ascending order: how many rows each stands for, and the places.

    >>> [(stride, len(places)) for stride, places in spaced(100_000)]
    [(256, 378), (16, 195)]
    >>> [(stride, places.tolist()) for stride, places in spaced(3)]
    [(1, [0, 1, 2])]
    """
    stride = 1 << max(0, (rows // RANKS).bit_length() - 1)
    tail = rows // TAIL if stride > 1 else 0
    yield stride, _middles(rows - tail, stride)
    if tail:
        yield max(1, stride // DENSER), _middles(tail, max(1, stride // DENSER)) + (rows - tail)


def _middles(rows: int, stride: int) -> np.ndarray:
    """The middle of each of so many equal parts."""
    parts = (rows + stride // 2) // stride
    return ODD[:parts] * rows // (2 * parts)


@lru_cache(maxsize=8)
def drawn(rows: int) -> tuple[int, np.ndarray]:
    """Of many rows one of each few, drawn at random, so that rows that alternate cannot mislead: of how many, and the places.

    >>> [(each, len(places)) for each, places in map(drawn, (1_000, 131_072, 500_000))]
    [(1, 1000), (2, 65536), (4, 125000)]
    """
    each = 1 << max(0, (rows // ENOUGH).bit_length() - 1)
    places = np.arange(rows // each) * each
    if each > 1:
        # The same draw for the same number of rows: a batch that is run again measures the same.
        places += np.random.default_rng(rows).integers(0, each, len(places))
    return each, places
