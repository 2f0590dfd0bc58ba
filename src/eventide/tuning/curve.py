"""The latency/completeness curve: how many rows each bound of the watermark would have had in time, exactly, on a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

ALWAYS = -1
"""Stands for every bound below zero: such a row is on time whatever the bound."""


@dataclass(frozen=True)
class Curve:
    """For each pair of row and window, the bound that it needs; a pair is on time iff the bound is strictly greater.

    >>> curve = Curve.of(1_000_000, {ALWAYS: 7, 0: 2, 4_000_000: 1})
    >>> curve.on_time(0), curve.on_time(1_000_000), curve.on_time(5_000_000)
    (7, 9, 10)
    >>> curve.least_bound(0.9)
    1000000
    """

    resolution: int
    needs: tuple[int, ...]
    """Needed bounds in order, rounded down to the resolution: exact for every bound that is a multiple of it."""
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, resolution: int, counts: Mapping[int, int]) -> Curve:
        """The curve of counted needs."""
        kept = sorted((need, number) for need, number in counts.items() if number)
        return cls(resolution, tuple(n for n, _ in kept), tuple(c for _, c in kept))

    @classmethod
    def total(cls, curves: Iterable[Curve]) -> Curve:
        """Several curves as one."""
        counts: dict[int, int] = {}
        resolution = 1
        for curve in curves:
            resolution = curve.resolution
            for need, number in zip(curve.needs, curve.numbers, strict=True):
                counts[need] = counts.get(need, 0) + number
        return cls.of(resolution, counts)

    @property
    def rows(self) -> int:
        """All pairs."""
        return sum(self.numbers)

    def on_time(self, bound: int) -> int:
        """How many pairs a bound has in time."""
        at = int(np.searchsorted(np.asarray(self.needs, dtype=np.int64), bound, side="left"))
        return sum(self.numbers[:at])

    def refused(self, bound: int, allowed: int = 0) -> int:
        """How many pairs come too late for a bound and an allowed lateness together."""
        return self.rows - self.on_time(bound + allowed)

    def admitted(self, bound: int, allowed: int) -> int:
        """How many pairs are late and still admitted."""
        return self.on_time(bound + allowed) - self.on_time(bound)

    def completeness(self, bound: int, allowed: int = 0) -> float:
        """The share of pairs that are in a result in the end."""
        return self.on_time(bound + allowed) / self.rows if self.rows else 1.0

    def least_bound(self, share: float) -> int:
        """The least bound on the grid that has this share in time."""
        below = 0
        for need, number in zip(self.needs, self.numbers, strict=True):
            if below >= share * self.rows:
                return 0 if need <= 0 else self._above_previous(need)
            below += number
        return 0 if not self.needs or self.needs[-1] < 0 else self.needs[-1] + self.resolution

    def _above_previous(self, need: int) -> int:
        at = self.needs.index(need)
        previous = self.needs[at - 1]
        return 0 if previous < 0 else previous + self.resolution

    def points(self, most: int = 200) -> list[tuple[int, int]]:
        """(bound, pairs on time) where the curve steps; thinned out evenly by rank if it has more steps than asked for."""
        bounds = [0, *(need + self.resolution for need in self.needs if need >= 0)]
        if len(bounds) > most:
            wanted = np.unique(np.linspace(0, len(bounds) - 1, most).round().astype(int))
            bounds = [bounds[i] for i in wanted]
        return [(bound, self.on_time(bound)) for bound in bounds]
