"""Keeping a table on files quick: when its small files are put together, and how long what was replaced is kept."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute

from eventide.errors import DefinitionError
from eventide.log import note
from eventide.model.time import Duration, duration
from eventide.sinks.base import Delivery
from eventide.sinks.chunks import taken
from eventide.sinks.ranked import first_of_each
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target

FAN = 8
"""So many files of about one size are put together."""
LARGEST = 32 << 20
"""Bytes from which a file is left as it is."""


@dataclass(frozen=True)
class Upkeep:
    """How often a table is looked after, and for how long its past stays.

    >>> Upkeep.of(20, "1 hour")
    Upkeep(compact_every=20, keep_for=3600000000)
    """

    compact_every: int
    keep_for: int | None
    """Microseconds; None: for ever."""

    @classmethod
    def of(cls, compact_every: int, keep_for: Duration | None) -> Upkeep:
        """As the user says it."""
        if compact_every < 1:
            raise DefinitionError(f"compact_every={compact_every}: a table is compacted after 1 delivery or more")
        return cls(compact_every, None if keep_for is None else duration(keep_for, what="keep_for"))


def crowded(sizes: Sequence[int]) -> list[int]:
    """Which files to put together, by their sizes: when there are many of about one size, those and all smaller ones.

    So a row is written again once for each tier of sizes and not once for each delivery, however large the table becomes.

    >>> crowded([100] * 7), crowded([100] * 8 + [9000]), crowded([100] * 3 + [9000] * 8)
    ([], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    """
    tiers = [int(math.log(max(size, 1), FAN)) for size in sizes]
    full = [
        tier for tier, count in Counter(t for t, s in zip(tiers, sizes, strict=True) if s < LARGEST).items() if count >= FAN
    ]
    highest = max(full, default=-1)
    return [n for n, tier in enumerate(tiers) if tier <= highest and sizes[n] < LARGEST]


def without(rows: pa.Table, places: Any) -> pa.Table:
    """Rows but those at some places."""
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[places.to_numpy()] = False
    return rows.filter(pa.array(kept))


class TableFiles(Protocol):
    """The files of a table at one version; what is committed goes upon that version, or not at all."""

    def near(self, bounds: Mapping[str, tuple[int, int]]) -> list[Any]:
        """The files that can hold rows inside the bounds."""

    def read(self, file: Any, schema: pa.Schema, names: list[str] | None = None) -> pa.Table:
        """The rows of a file, or some of its columns."""

    def compact(self) -> None:
        """Put crowded small files together; no row changes."""

    def exchange(self, old: list[Any], new: list[pa.Table]) -> None:
        """Some files for others, in one commit."""


class LakeWriter(TableWriter):
    """A commit for each delivery; after some of them the table is compacted, and what was replaced long ago removed."""

    def __init__(self, target: Target, retry: Retry, shape: PaneShape | None, upkeep: Upkeep) -> None:
        super().__init__(target, retry, shape)
        self.upkeep = upkeep
        self.since = upkeep.compact_every - 1  # nobody knows how many deliveries an earlier run left: look after the first

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        rows = rows if self.shape else first_of_each(rows, self.target.identity)
        self.attempt(lambda: self.merge(rows))
        self.since += 1
        if self.since >= self.upkeep.compact_every and self.attempt(self._looked_after):
            self.since = 0

    def _looked_after(self) -> bool:
        """Whether it could be done: while other writers are first, the next delivery tries again, and nobody waits."""
        try:
            self.look_after()
        except Exception as cause:
            if not self.lost_race(cause):
                raise
            note(__name__, "not compacted yet, another writer was first", table=self.target.name)
            return False
        note(__name__, "table looked after", table=self.target.name, deliveries=self.since)
        return True

    def bounds(self, rows: pa.Table) -> dict[str, tuple[int, int]]:
        """The ranges outside of which no stored row can be one of these: ends of windows, numbers of an identity."""
        names = [self.shape.meta("window_end")] if self.shape else list(self.target.identity)
        ranges = {}
        for name in names:
            kind = self.target.columns.field(name).type
            if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
                found: Any = pa.compute.min_max(rows[name].cast(pa.int64()))
                ranges[name] = (found["min"].as_py(), found["max"].as_py())
        return ranges

    def winners(self, rows: pa.Table, stored: Sequence[pa.Table]) -> tuple[pa.Table, list[Any]]:
        """The coming rows that stand; and of each table of stored identities and ranks, the places of the rows that they outrank.

        Without a rank whoever was first stands.
        """
        identity, rank = list(self.target.identity), list(self.target.rank)
        coming, *known = (
            pl.DataFrame(pl.from_arrow(part.select([*identity, *rank])))
            .with_row_index("eventide_row")
            .with_columns(part=pl.lit(n))
            for n, part in enumerate([rows, *stored])
        )
        everything = pl.concat([*known, coming])  # the first of equal ranks stays: what is stored
        standing = everything.sort(rank, descending=True, maintain_order=True) if rank else everything
        standing = standing.unique(identity, keep="first", maintain_order=True)
        won = standing.filter(pl.col("part") == 0)
        beaten = pl.concat(known).join(won, on=identity, how="semi", nulls_equal=True) if known else coming.clear()
        lost = [beaten.filter(pl.col("part") == n)["eventide_row"].to_arrow() for n in range(1, len(stored) + 1)]
        return taken(rows, won["eventide_row"].sort().to_arrow()), lost

    def merge(self, rows: pa.Table) -> None:
        """One commit: files lose the rows that are outranked, and a new one holds those that stand instead."""
        files, columns = self.files(), self.target.columns
        near = files.near(self.bounds(rows))
        ranks = [*self.target.identity, *self.target.rank]
        winners, lost = self.winners(rows, [files.read(file, columns, ranks) for file in near])
        if winners.num_rows:
            changed = [(file, places) for file, places in zip(near, lost, strict=True) if len(places)]
            kept = [without(files.read(file, columns), places) for file, places in changed]
            files.exchange([file for file, _ in changed], [*kept, winners])

    @abstractmethod
    def files(self) -> TableFiles:
        """The files of the table as it is now."""

    @abstractmethod
    def look_after(self) -> None:
        """Put small files together and remove what was replaced longer ago than it is kept."""

    @abstractmethod
    def lost_race(self, cause: Exception) -> bool:
        """Whether a commit failed because another writer made one in between."""
