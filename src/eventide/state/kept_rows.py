"""Rows that a state keeps for people: late rows that an output refused, and dead letters; read a piece at a time, however many there are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.kernel.place import Shown
from eventide.state.state import State


@dataclass(frozen=True)
class KeptRows:
    """The committed rows of one of a state's tables, in the order of their batches."""

    state: State
    directory: str
    shown: tuple[Shown, ...]
    """Our columns, which stand after the user's own, or step aside where those have their names."""

    @property
    def files(self) -> list[str]:
        """Its files, of the oldest batch first."""
        return sorted(self.state.tables(self.directory), key=lambda path: (_batch(path), path))

    @property
    def schema(self) -> pa.Schema:
        """The columns of all its files together: a definition may have had other ones before."""
        store = self.state.store
        return pa.unify_schemas([store.schema(path) for path in self.files], promote_options="permissive")

    def pieces(self) -> Iterator[pl.DataFrame]:
        """Its rows, a piece at a time."""
        for batch in self.state.store.batches(self.files):
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            yield frame

    def first(self, number: int) -> pl.DataFrame:
        """The first rows."""
        found: list[pl.DataFrame] = []
        for piece in self.pieces():
            found.append(piece.head(number - sum(map(len, found))))
            if sum(map(len, found)) >= number:
                break
        return _together(found)

    def sample(self, number: int, seed: int = 0) -> pl.DataFrame:
        """So many rows, each as likely as any other; the same ones when it is asked again."""
        chance, chosen = random.Random(seed), pl.DataFrame()  # noqa: S311 (a sample is no secret)
        for piece in self.pieces():
            drawn = pl.Series(_DRAWN, [chance.random() for _ in range(len(piece))], dtype=pl.Float64)
            chosen = _together([chosen, piece.with_columns(drawn)]).bottom_k(number, by=_DRAWN)
        return chosen.drop(_DRAWN, strict=False)

    def counted(self, *names: str) -> Counter[tuple[Any, ...]]:
        """How many rows there are of each combination of values of some of our columns, whatever the user's are called."""
        found: Counter[tuple[Any, ...]] = Counter()
        known = [column.name for column in self.shown]
        for piece in self.pieces():
            ours = piece[:, -len(known) :].rename(dict(zip(piece.columns[-len(known) :], known, strict=True)))
            for *values, number in ours.group_by(names).len().iter_rows():
                found[tuple(values)] += number
        return found


_DRAWN = "__drawn"


def _batch(path: str) -> int:
    return int(next(part for part in path.split("/") if part.startswith("batch=")).removeprefix("batch="))


def _together(frames: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [frame for frame in frames if frame.width]
    return pl.concat(filled, how="diagonal_relaxed") if filled else pl.DataFrame()


__all__ = ["KeptRows"]
