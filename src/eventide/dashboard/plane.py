"""Events on the plane of event time and processing time: how many came where, counted here so that a browser draws cells and no rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eventide.dashboard.pieces import Pieces
from eventide.kernel.place import LATE
from eventide.sinks.shape import named_aside
from eventide.state.store import Store
from eventide.state.trace import Entry
from eventide.storage.opened import data_files

ACROSS, UP = 96, 72
"""Cells of the plane."""
FILES, ROWS, DOTS = 300, 300_000, 600
FARTHEST = 0.005
"""Share of the rows at either end of event time that may lie outside: one clock of 1970 must not flatten all others."""
Times = NDArray[np.int64]
NO_ARCHIVE = (
    "This pipeline keeps no archive, so how many events came where is not known: what is drawn is what the state knows, W, windows, and the late rows that "
    'outputs have kept. Keep one with Pipeline(…, archive="archive/…").'
)
NOTHING = "The archive gives no events of the newest batches; {gone:,} of its files were not found. A relative path leads from where the command was given."


class Plane:
    """The plane of one pipeline."""

    def __init__(self, store: Store, archive: str | None) -> None:
        self._archive = archive
        self._events = Pieces(self._read_archived, lambda times: len(times[0]), FILES, ROWS)
        self._late = Pieces(lambda path: _read_late(store, path), len, FILES, 20 * DOTS)

    def cells(self, entries: list[Entry]) -> dict[str, Any]:
        """The counts by cell, or why there are none; and the late rows that are kept."""
        dots = self._late.of(_newest(entries, "late"))
        late = [dot for frame in dots for dot in frame.iter_rows()][:DOTS]
        told = {"late": late, "late_gone": self._late.gone}
        if self._archive is None:
            return {**told, "source": "state", "said": NO_ARCHIVE}
        pieces = self._events.of(path for one in reversed(entries) for path in one.facts.get("files", {}).get("archive", []))
        if not pieces:
            return {**told, "source": "archive", "said": NOTHING.format(gone=self._events.gone)}
        arrived, happened = (np.concatenate([piece[which] for piece in pieces]) for which in (0, 1))
        more = f", those of the newest {len(pieces):,} files" if self._events.left else ""
        said = f"{len(arrived):,} events from the archive{more}" + (
            f"; {self._events.gone:,} files are gone" * bool(self._events.gone)
        )
        return {**told, "source": "archive", "said": said, **_counted(arrived, happened)}

    def _read_archived(self, path: str) -> tuple[Times, Times]:
        assert self._archive is not None
        with pq.ParquetFile(data_files(self._archive).open(path)) as file:
            names = [named_aside(name, file.schema_arrow.names) for name in ("_arrival", "_event_time")]
            frame = pl.from_arrow(file.read(names, use_threads=False))
        assert isinstance(frame, pl.DataFrame)
        times = frame.select(pl.col(name).dt.epoch("us") for name in names).drop_nulls()
        return times[:, 0].to_numpy(), times[:, 1].to_numpy()


def _newest(entries: list[Entry], kind: str) -> Iterator[str]:
    for one in reversed(entries):
        for paths in one.facts.get("files", {}).get(kind, {}).values():
            yield from paths


def _read_late(store: Store, path: str) -> pl.DataFrame:
    """Where each late row stands: arrival, event time, W when it came; ours are the last columns."""
    names = store.schema(path).names[-len(LATE) :]
    ours = dict(zip([column.name for column in LATE], names, strict=True))
    wanted = [ours[name] for name in ("_arrival", "_event_time", "_watermark")]
    frame = store.columns(path, wanted).select(pl.col(name).dt.epoch("us") for name in wanted)
    return frame.drop_nulls(wanted[:2]).head(DOTS)


def _counted(arrived: Times, happened: Times) -> dict[str, Any]:
    low, high = np.quantile(happened, [FARTHEST, 1 - FARTHEST], method="nearest")
    inside = (happened >= low) & (happened <= high)
    x, y = _range(arrived.min(), arrived.max()), _range(low, high)
    counts, _, _ = np.histogram2d(arrived[inside], happened[inside], bins=(ACROSS, UP), range=(x, y))
    taken = np.argwhere(counts > 0)
    cells: Iterable[tuple[int, int, int]] = ((int(i), int(j), int(counts[i, j])) for i, j in taken)
    return {"x": x, "y": y, "across": ACROSS, "up": UP, "cells": list(cells), "outside": int((~inside).sum())}


def _range(low: Any, high: Any) -> tuple[int, int]:
    return (int(low), max(int(high), int(low) + 1_000_000))


__all__ = ["Plane"]
