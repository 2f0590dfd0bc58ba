"""Bias: which values of a column lose disproportionately many rows to lateness, because lateness is never random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, lgamma, sqrt
from statistics import NormalDist

LEVEL = 0.05
"""How often, at most, anything at all is flagged where there is no bias: over all values together."""


@dataclass(frozen=True)
class Bias:
    """One value's late rate against that of all the others."""

    value: str
    rows: int
    late: int
    rate: float
    low: float
    high: float
    """The interval of the rate, wide enough for all values at once."""
    base: float
    """The rate of the other values."""
    p: float
    """How likely so large a difference would be without bias (two-sided, uncorrected)."""
    flagged: bool

    @property
    def ratio(self) -> float:
        """How many times the others' rate."""
        return self.rate / self.base if self.base else float("inf") if self.late else 1.0

    @property
    def lost(self) -> float:
        """Rows that are late beyond what the others' rate would make."""
        return self.late - self.rows * self.base


def bias(counts: Mapping[str, tuple[int, int]], level: float = LEVEL) -> list[Bias]:
    """Values ranked by how surely and how much more they lose than the others; counts are (late, rows).

    Each value is held against all others by Fisher's exact test; Holm's correction keeps the chance of any false flag below the
    level. Intervals are Wilson's, with the level shared among the values.

    >>> found = bias({"north": (90, 1_000), "south": (20, 1_000), "west": (22, 1_100)})
    >>> found[0].value, found[0].flagged, round(found[0].ratio, 1)
    ('north', True, 4.5)
    """
    known = {value: pair for value, pair in counts.items() if pair[1] > 0}
    late, rows = sum(k for k, _ in known.values()), sum(n for _, n in known.values())
    tested = []
    for value, (k, n) in known.items():
        others, rest = rows - n, late - k
        p = _fisher(k, n, rest, others) if others else 1.0
        tested.append((value, k, n, rest / others if others else k / n, p))
    passed = _holm([p for *_, p in tested], level)
    z = NormalDist().inv_cdf(1 - level / 2 / max(1, len(tested)))
    found = []
    for (value, k, n, base, p), flagged in zip(tested, passed, strict=True):
        low, high = _wilson(k, n, z)
        found.append(Bias(value, n, k, k / n, low, high, base, p, flagged and k / n > base))
    return sorted(found, key=lambda b: (not b.flagged, -b.lost if b.flagged else b.p, b.value))


def _holm(chances: list[float], level: float) -> list[bool]:
    passed = [False] * len(chances)
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        if chances[index] > level / (len(chances) - rank):
            break
        passed[index] = True
    return passed


def _wilson(late: int, rows: int, z: float) -> tuple[float, float]:
    rate, square = late / rows, z * z / rows
    middle, half = rate + square / 2, z * sqrt(rate * (1 - rate) / rows + square / rows / 4)
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def _fisher(k: int, n: int, rest: int, others: int) -> float:
    """Two-sided, by doubling the tail of the hypergeometric distribution on the side of k.

    >>> round(_fisher(8, 10, 1, 10), 6)  # choose among 20 rows, 9 of them late
    0.005477
    """
    late, rows = k + rest, n + others
    chance = exp(_choose(late, k) + _choose(rows - late, n - k) - _choose(rows, n))
    up = k * rows > late * n
    tail, term, at = chance, chance, k
    while term > tail * 1e-12:
        if up:
            term *= (late - at) * (n - at) / ((at + 1) * (rows - late - n + at + 1))
            at += 1
        else:
            term *= at * (rows - late - n + at) / ((late - at + 1) * (n - at + 1))
            at -= 1
        tail += term
    return min(1.0, 2 * tail)


def _choose(total: int, some: int) -> float:
    return lgamma(total + 1) - lgamma(some + 1) - lgamma(total - some + 1)
