"""Panes as a changelog that consumers know (+I, -U, +U, -D), and the consumer's side, which drops what it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.errors import DefinitionError
from eventide.sinks.shape import PaneShape

Record = Mapping[str, Any]
WITHDRAWS = ("-U", "-D")


def changes(panes: pa.Table, shape: PaneShape) -> list[str]:
    """The change of each pane of a delivery, which has each window's panes in rank order.

    A first insert is +I, a later one +U; a retract is -U if its window's next pane replaces it, else -D. Deltas replace nothing: each is +I.
    """
    window, sequence, op = (shape.meta(name) for name in ("window_id", "sequence", "op"))
    frame = pl.DataFrame(pl.from_arrow(panes.select([window, sequence, op])))
    followed = pl.col(op).shift(-1).over(window) == "insert"
    change = (
        pl.when(pl.col(op) == "insert")
        .then(pl.when((pl.col(sequence) == 0) | pl.lit(_are_deltas(shape))).then(pl.lit("+I")).otherwise(pl.lit("+U")))
        .otherwise(pl.when(followed.fill_null(False)).then(pl.lit("-U")).otherwise(pl.lit("-D")))
    )
    return frame.select(change.alias("change"))["change"].to_list()


def _are_deltas(shape: PaneShape) -> bool:
    return shape.accumulation == "discarding"


class Deduplicator:
    """A consumer's memory of ranks: lets a record through once, and never one that a newer one has outranked.

    >>> seen = Deduplicator()
    >>> first = {"window_id": "w", "generation": 0, "sequence": 0, "op": "+I", "total": 5}
    >>> seen.accept(first), seen.accept(first)
    (True, False)
    >>> seen.accept({**first, "op": "-D"}), seen.accept(first)
    (True, False)
    """

    def __init__(self, shape: PaneShape | None = None) -> None:
        shape = shape or PaneShape(keys=(), values=())
        self._window, self._end = shape.meta("window_id"), shape.meta("window_end")
        self._generation, self._sequence, self._op = (shape.meta(name) for name in ("generation", "sequence", "op"))
        self._deltas = _are_deltas(shape)
        self._ranks: dict[Any, tuple[int, int, bool]] = {}
        self._ends: dict[Any, str] = {}

    def is_marker(self, record: Record) -> bool:
        """Whether a record is a watermark and not a pane."""
        return record.get(self._op) == "W"

    def accept(self, record: Record) -> bool:
        """Whether a record is news; a watermark always is."""
        if self.is_marker(record):
            return True
        window, generation, sequence = record[self._window], record[self._generation], record[self._sequence]
        rank = (generation, sequence, record[self._op] in WITHDRAWS)
        identity = (window, generation, sequence) if self._deltas else window
        if rank <= self._ranks.get(identity, (-1, -1, False)):
            return False
        self._ranks[identity] = rank
        self._ends[identity] = record.get(self._end) or ""
        return True

    def forget(self, before: str) -> int:
        """Drop the memory of windows that ended before an instant; says how many. Late copies of them pass again."""
        old = [identity for identity, end in self._ends.items() if end < before]
        for identity in old:
            del self._ranks[identity], self._ends[identity]
        return len(old)


class CurrentRows:
    """The table that a changelog describes, kept by a consumer: one record per window, without withdrawn ones.

    Of a discarding output a record is only what came since the one before it: with `deltas=True` every one of them is kept, for the
    reader to add up; without it they are refused, because the last one alone would pass for the whole.

    >>> table = CurrentRows()
    >>> table.apply({"window_id": "w", "generation": 0, "sequence": 0, "op": "+I", "n": 5})
    True
    >>> table.apply({"window_id": "w", "generation": 0, "sequence": 1, "op": "+U", "n": 6}), [row["n"] for row in table]
    (True, [6])
    """

    def __init__(self, shape: PaneShape | None = None, *, deltas: bool = False) -> None:
        self._shape = shape or PaneShape(keys=(), values=(), accumulation="discarding" if deltas else "accumulating")
        self._news = Deduplicator(self._shape)
        self._rows: dict[Any, Record] = {}

    def apply(self, record: Record) -> bool:
        """Take one record; True if it changed the table."""
        self._refuse_deltas(record)
        if self._news.is_marker(record) or not self._news.accept(record):
            return False
        identity = tuple(record[name] for name in self._shape.identity)
        if record[self._shape.meta("op")] in WITHDRAWS:
            self._rows.pop(identity, None)
        else:
            self._rows[identity] = record
        return True

    def _refuse_deltas(self, record: Record) -> None:
        if not _are_deltas(self._shape) and record[self._shape.meta("op")] == "+I" and record[self._shape.meta("sequence")] > 0:
            raise DefinitionError(
                f"the record {record[self._shape.meta('window_id')]!r} with sequence {record[self._shape.meta('sequence')]} is what came since "
                "the one before it, of a discarding output: kept alone it would pass for the whole. Keep all of them, and add them up: "
                "CurrentRows(deltas=True). Or let the output accumulate."
            )

    def __iter__(self) -> Any:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)
