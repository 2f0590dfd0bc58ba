"""Quantiles of several sketches together, where each may stand for every row or for every nth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import datasketches as ds
import numpy as np

KLL_K = 400
"""A rank error of 0.7% at 99% confidence, in about 5 KB."""


@dataclass(frozen=True)
class Weighted:
    """The items that sketches have kept, in order, each with the number of rows that it stands for."""

    items: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, sketches: Iterable[tuple[bytes, int]]) -> Weighted:
        """From serialized sketches and their strides."""
        items, weights = [np.empty(0)], [np.empty(0)]
        for body, stride in sketches:
            sketch = ds.kll_doubles_sketch.deserialize(body)
            # The weights that the sketch's iterator gives are wrong where its lowest level is empty: ranks are right.
            kept = np.unique([item for item, _ in sketch])
            items.append(kept)
            weights.append(np.diff(sketch.get_cdf(kept, inclusive=True)[:-1], prepend=0) * sketch.n * stride)
        found, numbers = np.concatenate(items), np.concatenate(weights)
        order = np.argsort(found, kind="stable")
        return cls(found[order], np.cumsum(numbers[order]))

    def at(self, share: float) -> float | None:
        """The value that this share of rows does not exceed."""
        if not len(self.items):
            return None
        at = int(np.searchsorted(self.below, share * self.below[-1], side="left"))
        return float(self.items[min(at, len(self.items) - 1)])
