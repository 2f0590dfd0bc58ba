"""What was read of a lane of files, as a number: the same rows in the same places give the same, however they were cut into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, RAW, TIME


class Content:
    """Adds up rows as they go by, by all that an answer can hang on.

    >>> from eventide.testing.spark import event_chunk
    >>> from eventide.testing.streams import Stream, generate
    >>> rows = event_chunk(generate(Stream(rows=4), 1), {"value": pl.Int64()})
    >>> whole, cut = Content(), Content()
    >>> [len(chunk) for chunk in whole.of([rows])], [len(chunk) for chunk in cut.of([rows[:1], rows[1:]])]
    ([6], [1, 5])
    >>> whole.text == cut.text != Content().text
    True
    """

    def __init__(self, needed: frozenset[str] | None = None) -> None:
        self._needed = needed
        """The user's columns that are computed with; None: all of them."""
        self._sum = 0

    @property
    def text(self) -> str:
        """As the journal notes it."""
        return f"{self._sum:016x}"

    def of(self, chunks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The chunks as they are."""
        for chunk in chunks:
            self.add(chunk)
            yield chunk

    def add(self, chunk: pl.DataFrame) -> None:
        """The next rows, each with its place."""
        users = [name for name in chunk.columns if not name.startswith("__")]
        told = [name for name in users if self._needed is None or name in self._needed]
        says = [] if chunk[CANDIDATE].null_count() == len(chunk) else [CANDIDATE, MARKER]
        self._count(chunk.select(*told, ARRIVAL, OFFSET, TIME, *says))
        if chunk[DEAD].null_count() < len(chunk):
            bytes_too = [RAW] if RAW in chunk.columns else []
            self._count(chunk.filter(pl.col(DEAD).is_not_null()).select(OFFSET, DEAD, *bytes_too))

    def _count(self, rows: pl.DataFrame) -> None:
        self._sum = (self._sum + int(rows.hash_rows().to_numpy().sum(dtype=np.uint64))) % 2**64


__all__ = ["Content"]
