"""Silences within a lane, as counts in buckets a sixteenth of an octave wide, and the longest as it was."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from eventide.model.watermark import bucket_ceiling, disorder_bucket

LEAST = 1_000
"""Silences below a millisecond are one bucket: no idle_after is as short."""


@dataclass
class Gaps:
    """How long a lane was silent between two arrivals, in microseconds."""

    idle_after: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    longest: int = 0
    fallen: int = 0
    """How many silences let the lane fall idle: those strictly longer than `idle_after`."""

    def see(self, gaps: np.ndarray) -> None:
        """Count some more."""
        if not len(gaps):
            return
        self.longest = max(self.longest, int(gaps.max()))
        if self.idle_after is not None:
            self.fallen += int((gaps > self.idle_after).sum())
        small = gaps < LEAST
        self.counts[0] += int(small.sum())
        values, numbers = np.unique(gaps[~small] // LEAST, return_counts=True)
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            self.counts[disorder_bucket(value)] += number

    def quantile(self, share: float) -> int:
        """A silence that this share of silences does not exceed, rounded up by at most a sixteenth."""
        rank, below = share * sum(self.counts.values()), 0
        for bucket in sorted(self.counts):
            below += self.counts[bucket]
            if below >= rank:
                return min(self.longest, (bucket_ceiling(bucket) + 1) * LEAST)
        return self.longest
