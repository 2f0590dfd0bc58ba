"""Which rows of two sides match: equal keys, times in a range; found by one sort and two searches, told in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide.kernel.keys import matchable, one_of_equals

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]


def key_numbers(left: pl.DataFrame, right: pl.DataFrame, on: Sequence[tuple[str, str]]) -> tuple[Times, Times]:
    """The keys of both sides as numbers that are equal where the keys are; -1 where a part of the key is null, which matches nothing.

    >>> nan = float("nan")
    >>> one, other = key_numbers(pl.DataFrame({"k": [nan, 0.0, None]}), pl.DataFrame({"id": [-0.0, nan, None]}), [("k", "id")])
    >>> bool(one[0] == other[1]), bool(one[1] == other[0]), int(one[2]), int(other[2])
    (True, True, -1, -1)
    """
    names = [f"__key_{place}" for place in range(len(on))]
    keys = [
        matchable(
            one_of_equals(side.select(pl.col(pair[number]).alias(name) for pair, name in zip(on, names, strict=True)), names)
        )
        for number, side in enumerate((left, right))
    ]
    known = pl.concat(keys).unique().with_row_index("__number")
    numbers = [
        key.join(known, on=names, how="left", maintain_order="left")["__number"].cast(pl.Int64).fill_null(-1) for key in keys
    ]
    return numbers[0].to_numpy(), numbers[1].to_numpy()


@dataclass(frozen=True)
class Matches:
    """For some rows of the left, a stretch each of the right's rows in their order; no pair is made until it is asked for."""

    left: Times
    """The rows of the left, by number."""
    begin: Times
    """Where the stretch of each begins in `order`."""
    count: Times
    order: Times
    """The rows of the right, by number, sorted by key and time."""

    @classmethod
    def of(cls, keys: tuple[Times, Times], least: Times, most: Times, times: Times) -> Matches:
        """Left rows with right rows of their key whose time lies between the least and the most, both included.

        >>> keys = np.array([0, 0]), np.array([0, 0, 1])
        >>> found = Matches.of(keys, np.array([1, 5]), np.array([5, 9]), np.array([7, 5, 5]))
        >>> [(left.tolist(), right.tolist()) for left, right in found.pieces(10)]
        [([0, 1, 1], [1, 1, 0])]
        """
        marks = np.unique(times)
        width = len(marks) + 1  # keys and marks are fewer than rows, so that a code holds both
        codes = keys[1] * width + np.searchsorted(marks, times)
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        begin = np.searchsorted(codes, keys[0] * width + np.searchsorted(marks, least, "left"))
        end = np.searchsorted(codes, keys[0] * width + np.searchsorted(marks, most, "right"))
        count = np.where(keys[0] < 0, 0, end - begin)
        left = np.flatnonzero(count)
        return cls(left, begin[left], count[left], order)

    def per_left(self, rows: int) -> Times:
        """How many matches each row of the left has, of as many as there are."""
        found = np.zeros(rows, dtype=np.int64)
        found[self.left] = self.count
        return found

    def per_right(self) -> Times:
        """How many matches each row of the right has."""
        edges = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.add.at(edges, self.begin, 1)
        np.add.at(edges, self.begin + self.count, -1)
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.cumsum(edges)[:-1]
        return found

    def pieces(self, most: int) -> Iterator[tuple[Times, Times]]:
        """The pairs as numbers of rows, left and right, about so many at a time: however many there are, they are never held together."""
        upto = np.cumsum(self.count)
        first = 0
        while first < len(upto):
            before = int(upto[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(upto, before + most, "right")))
            count = self.count[first:last]
            within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
            yield np.repeat(self.left[first:last], count), self.order[np.repeat(self.begin[first:last], count) + within]
            first = last
