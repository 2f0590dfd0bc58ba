"""The archive through the engine once more, in this process and cut at random: what stands in the end, and what was refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eventide.engine.archived_lanes import ArchivedLanes
from eventide.engine.batch.deliver import pane_shapes
from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, Engine
from eventide.engine.bound import bound
from eventide.kernel.columns import ARRIVAL
from eventide.kernel.scan import Arrivals
from eventide.model.event import LaneId
from eventide.sinks.shape import PaneShape
from eventide.state.results import Results
from eventide.state.store import Store

MOST_BATCHES = 12
ONE_BATCH = 0
"""The cut of a backfill: everything at once."""


class HereRunner:
    """Runs tasks one after the other in this process."""

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        """Run all tasks; give their lines in order."""
        return [task() for task in tasks]


@dataclass
class Recut:
    """What one cut gave."""

    batches: int
    rows: Counter[str]
    verdicts: dict[str, Counter[str]]
    """For each output, pairs of row and window by verdict, and rows by their worst."""
    results: dict[str, Results]
    """For each output, what stands."""
    late: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)
    """For each output that keeps refused rows, their places with the ends of the windows that they missed."""
    shapes: dict[str, PaneShape] = field(default_factory=dict)


class LaneReader:
    """A lane that is read a piece at a time."""

    def __init__(self, chunks: Iterator[pl.DataFrame]) -> None:
        self._chunks = chunks
        self._held: pl.DataFrame | None = next(chunks, None)

    @property
    def next_arrival(self) -> int | None:
        """When the next row arrives; None: there is none."""
        while self._held is not None and self._held.is_empty():
            self._held = next(self._chunks, None)
        return None if self._held is None else int(self._held[ARRIVAL][0])

    def take(self, clock: int | None, most: int | None) -> Iterator[pl.DataFrame]:
        """The next rows that have arrived by a clock (None: all), at most so many."""
        while (arrival := self.next_arrival) is not None and (clock is None or arrival <= clock) and most != 0:
            held = self._held
            assert held is not None
            ready = len(held) if clock is None else int(held[ARRIVAL].search_sorted(clock, side="right"))
            number = ready if most is None else min(ready, most)
            self._held = held[number:]
            most = None if most is None else most - number
            yield held[:number]


def recut(archive: ArchivedLanes, root: str, cut: int) -> Recut:
    """Run the archive through its definition in batches drawn by chance from a seed, each lane read as far as it happens; the last one drains."""
    chance = random.Random(cut)  # noqa: S311 (a cut is no secret)
    store = Store(root)
    shape = bound(
        archive.pipeline, archive.feeds, archive.kinds, store, archive.facts(1 if cut == ONE_BATCH else chance.randint(1, 3))
    )
    diverts = tuple(archive.pipeline.output(output.name).late.refused is not None for output in shape.outputs)
    engine = Engine(shape, archive.kinds, diverts, store, HereRunner())
    lanes = {lane: LaneReader(archive.rows(lane)) for lane in sorted(archive.files)}
    ledger, number, clock = engine.first_ledger(), 0, 0
    made = {output.name: list[str]() for output in shape.outputs}
    late = {name: set[tuple[Any, ...]]() for name in made}
    most = max(1, archive.count() // chance.randint(2, 40))
    drain, most_batches = False, chance.randint(2, MOST_BATCHES)
    while not drain:
        waiting = [arrival for lane in lanes.values() if (arrival := lane.next_arrival) is not None]
        drain = cut == ONE_BATCH or not waiting or number >= most_batches
        clock = max([clock, *waiting]) if drain else max(clock, chance.choice(waiting))
        accounts: list[LaneAccount] = []
        for lane, reader in lanes.items():
            rows = list(reader.take(None, None) if drain else reader.take(clock, chance.choice([0, 1, most, most, None])))
            if rows:
                arrivals = Arrivals.of(lane, ledger.swept, clock)
                account = scan_lane(shape, store, number, lane, ledger.carry(lane), arrivals, rows)
                accounts.append(LaneAccount.from_json(account.to_json()))
        given = BatchInput(number, clock, accounts, _at_end(lanes, clock), frozenset(lanes), drain)
        result = engine.process(ledger, given)
        ledger = type(ledger).from_json(result.ledger.to_json())
        for name, files in made.items():
            files += result.panes[name]
            late[name] |= set(_late(store, result.late[name]))
        store.delete(result.garbage)
        number += 1
    rows_of = [(one, archive.kinds) for one in shape.every] + [(stage.shape, dict(stage.kinds)) for stage in shape.stages]
    shapes = {name: pane for one, kinds in rows_of for name, pane in pane_shapes(one, kinds).items()}
    results = {name: Results(store, tuple(files), shapes[name]) for name, files in made.items()}
    return Recut(number, ledger.rows, ledger.outputs, results, late, shapes)


def _at_end(lanes: dict[LaneId, LaneReader], clock: int) -> frozenset[LaneId]:
    return frozenset(lane for lane, reader in lanes.items() if (arrival := reader.next_arrival) is None or arrival > clock)


def _late(store: Store, files: list[str]) -> Iterator[tuple[Any, ...]]:
    for batch in store.batches(files):
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        ours = frame[
            :, -10:
        ]  # after the user's own columns: source, lane, offset, …, the first and the last end that it missed
        yield from ours.select(ours.columns[0], ours.columns[1], ours.columns[2], ours.columns[6], ours.columns[7]).iter_rows()


__all__ = ["ONE_BATCH", "Recut", "recut"]
