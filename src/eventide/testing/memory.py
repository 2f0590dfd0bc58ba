"""A source and a sink that live in memory: lanes read as unevenly as you like, and a table that keeps the highest rank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.model.event import Event, LaneId, Position, end_of
from eventide.model.pane import RETRACT, Pane
from eventide.model.policy import DISCARDING
from eventide.model.sweep import BEFORE_ALL
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.shape import PaneShape

Rank = tuple[int, int, bool]


class MemorySource:
    """Lanes of events in order, each read as far as you ask; tells how far a lane is known to be read.

    >>> source = MemorySource([Event(1, 10, offset=0), Event(5, 14, offset=1)])
    >>> [e.event_time for e in source.take((0, "0"), clock=4)], source.read_to((0, "0"), clock=4) == end_of(4)
    ([10], True)
    """

    def __init__(self, events: Iterable[Event] = (), lanes: Iterable[LaneId] = ()) -> None:
        self.lanes: dict[LaneId, list[Event]] = {lane: [] for lane in lanes}
        self._read: dict[LaneId, int] = {}
        self.add(events)

    def add(self, events: Iterable[Event]) -> None:
        """Append events to their lanes, each lane in position order."""
        for event in sorted(events, key=lambda e: e.position):
            self.lanes.setdefault(event.lane_id, []).append(event)

    def take(self, lane: LaneId, clock: int, limit: int | None = None) -> list[Event]:
        """The lane's next events that have arrived by this clock, at most `limit` of them."""
        start = self._read.get(lane, 0)
        ready = [event for event in self.lanes[lane][start:] if event.arrival <= clock][:limit]
        self._read[lane] = start + len(ready)
        return ready

    def backlog(self, lane: LaneId, clock: int) -> bool:
        """Whether more of the lane has arrived by this clock than was taken."""
        rest = self.lanes[lane][self._read.get(lane, 0) :]
        return bool(rest) and rest[0].arrival <= clock

    def read_to(self, lane: LaneId, clock: int) -> Position:
        """How far the lane is read: up to the clock if its end was reached, otherwise to its last event."""
        if not self.backlog(lane, clock):
            return end_of(clock)
        read = self._read.get(lane, 0)
        return self.lanes[lane][read - 1].position if read else BEFORE_ALL


class PaneTable:
    """One row for each window, the one of the highest rank; a withdrawn window leaves a tombstone, so that it stays gone.

    Deltas (discarding) are kept one by one, and `visible` adds those of the newest generation up.
    """

    def __init__(self, accumulation: str) -> None:
        self.discards = accumulation == DISCARDING
        self.kept: dict[Any, tuple[Rank, Mapping[str, Any] | None]] = {}

    def put(self, window_id: Any, rank: Rank, values: Mapping[str, Any] | None) -> None:
        """Apply one pane; `values` is None for a retract. Stale and repeated panes change nothing."""
        identity = (window_id, *rank[:2]) if self.discards else window_id
        standing = self.kept.get(identity)
        if standing is None or standing[0] < rank:
            self.kept[identity] = (rank, values)

    def apply(self, panes: Iterable[Pane]) -> PaneTable:
        """Apply panes of the model as they come."""
        for pane in panes:
            self.put(pane.window_id, pane.rank, None if pane.op == RETRACT else pane.values)
        return self

    def visible(self) -> dict[Any, Mapping[str, Any]]:
        """What a reader sees: window → values."""
        if not self.discards:
            return {window: values for window, (_, values) in self.kept.items() if values is not None}
        newest: dict[Any, int] = {}
        for window, generation, _ in self.kept:
            newest[window] = max(generation, newest.get(window, generation))
        totals: dict[Any, dict[str, Any]] = {}
        for (window, generation, _), (_, values) in sorted(self.kept.items(), key=lambda item: item[1][0]):
            if values is not None and generation == newest[window]:
                _add(totals.setdefault(window, {}), values)
        return dict(totals)


def _add(total: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        have = total.get(name)
        if have is None or value is None:
            total[name] = value if have is None else have
        else:
            total[name] = sorted(have + value) if isinstance(value, list) else have + value


@dataclass(frozen=True)
class MemorySink:
    """A sink that keeps its tables and logs in this process, for tests and for a look at a pipeline without a database.

    >>> sink = MemorySink()
    >>> sink.capabilities.retract
    True
    """

    tables: dict[str, PaneTable] = field(default_factory=dict, compare=False, repr=False)
    logs: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict, compare=False, repr=False)
    deliveries: list[Delivery] = field(default_factory=list, compare=False, repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """It can do everything, except outlive its process."""
        return Capabilities(upsert=True, retract=True, transactional=True, ordered=True, append=True)

    def open(self, output: str, shape: PaneShape) -> MemoryPaneWriter:
        """A writer into this output's table."""
        table = self.tables.setdefault(output, PaneTable(shape.accumulation))
        return MemoryPaneWriter(table, shape, self.deliveries)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> MemoryLogWriter:
        """A writer into a log of late rows or dead letters."""
        return MemoryLogWriter(self.logs.setdefault(name, {}), identity)

    def rows(self, output: str) -> list[dict[str, Any]]:
        """The visible rows of an output, ordered by window."""
        visible = self.tables[output].visible() if output in self.tables else {}
        return [dict(values) for _, values in sorted(visible.items(), key=lambda item: str(item[0]))]


@dataclass
class MemoryPaneWriter:
    """Applies batches of panes to a table by rank."""

    table: PaneTable
    shape: PaneShape
    deliveries: list[Delivery]

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Apply the panes; doing it twice, or after newer panes, changes nothing."""
        names = {name: self.shape.meta(name) for name in ("window_id", "generation", "sequence", "op")}
        users = [*self.shape.key_names, *self.shape.value_names] if not self.table.discards else self.shape.value_names
        bounds = [] if self.table.discards else [self.shape.meta("window_start"), self.shape.meta("window_end")]
        for batch in panes:
            for row in batch.to_pylist():
                withdrawn = row[names["op"]] == RETRACT
                rank = (row[names["generation"]], row[names["sequence"]], withdrawn)
                self.table.put(row[names["window_id"]], rank, None if withdrawn else {n: row[n] for n in (*bounds, *users)})
        self.deliveries.append(delivery)

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class MemoryLogWriter:
    """Keeps rows by their identity."""

    kept: dict[tuple[Any, ...], dict[str, Any]]
    identity: tuple[str, ...]

    def append(self, rows: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Append the rows; doing it twice leaves one copy."""
        for batch in rows:
            for row in batch.to_pylist():
                self.kept[tuple(row[name] for name in self.identity)] = row

    def close(self) -> None:
        """Nothing is held."""


def pane_batch(panes: Sequence[Pane], shape: PaneShape, emitted_at: int = 0) -> pa.RecordBatch:
    """Panes of the model as the batch that a sink is given.

    >>> shape = PaneShape(keys=(("bank", pa.string()),), values=(("n", pa.int64()),))
    >>> pane_batch([Pane("counts", (0, 60), "a", 0, "insert", "on_time", {"n": 2})], shape).to_pylist()[0]["n"]
    2
    """
    rows = []
    for pane in panes:
        key = pane.key if isinstance(pane.key, tuple) else (pane.key,)
        ours = {
            "window_id": json.dumps([*pane.window, *key], default=str),
            "window_start": pane.window[0],
            "window_end": pane.window[1],
            "sequence": pane.sequence,
            "op": pane.op,
            "timing": pane.timing,
            "generation": pane.generation,
            "emitted_at": emitted_at,
        }
        users = {**dict(zip(shape.key_names, key, strict=False)), **pane.values}
        rows.append({**{shape.meta(name): value for name, value in ours.items()}, **users})
    return pa.RecordBatch.from_pylist(rows, schema=shape.schema)
