"""What a micro-batch leaves for pages and scrapes: how long its stages took, what its sinks took, why records could not be read, and its files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from eventide.engine.batch.deliver import Taken
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.microbatch import BatchResult
from eventide.state.holds import Holds
from eventide.state.ledger import Ledger
from eventide.state.store import Store
from eventide.state.trace import entry, last_entry, note_batch

REASONS = 20
"""Reasons that are counted by name; what comes after them is counted together."""
LONGEST_REASON = 100
OTHER = "other reasons"
FILES = 64
"""So many files of each kind are noted of a batch."""


class Stages:
    """Seconds from one point to the next.

    >>> ticks = iter([10.0, 10.5, 12.0])
    >>> stages = Stages(lambda: next(ticks))
    >>> stages.end("begin"), stages.end("scan"), stages.seconds
    ('begin', 'scan', {'begin': 0.5, 'scan': 1.5})
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, told: Callable[[str], None] = lambda point: None) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._told = clock, told
        self._last = clock()

    def end(self, point: str) -> str:
        """A stage is over; gives the name of its end."""
        now = self._clock()
        self.seconds[point], self._last = round(now - self._last, 6), now
        self._told(point)
        return point


class Tracer:
    """Writes the line of each batch; totals go on from those of the run before."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        last = last_entry(store, ledger)
        before = {} if last is None else last.facts
        self._failed = Counter({name: sink["failed"] for name, sink in before.get("sinks", {}).items()})
        self._dead: Counter[str] = Counter(before.get("dead", {}))

    def note(
        self,
        result: BatchResult,
        clock: int,
        holds: Holds,
        stages: Stages,
        taken: dict[str, Taken],
        accounts: Iterable[LaneAccount],
    ) -> None:
        """Write a batch's line; it counts iff the commit after it does."""
        self._failed.update({name: spent.failed for name, spent in taken.items()})
        self._count_dead(result.dead)
        archived = [path for account in accounts for path in account.archived]
        files = {
            "panes": _few(result.panes),
            "late": _few(result.late),
            "dead": result.dead[:FILES],
            "archive": archived[:FILES],
        }
        sinks = {name: {"seconds": spent.seconds, "failed": self._failed[name]} for name, spent in taken.items()}
        more = {"stages": stages.seconds, "sinks": sinks, "dead": dict(self._dead), "files": files}
        note_batch(self._store, entry(result.ledger, clock, holds, **more))

    def _count_dead(self, paths: list[str]) -> None:
        for path in paths:
            for reason, number in self._store.columns(path, ["reason"])["reason"].value_counts().iter_rows():
                said = str(reason)[:LONGEST_REASON]
                known = said in self._dead or len(self._dead) < REASONS
                self._dead[said if known else OTHER] += number


def _few(paths: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: some[:FILES] for name, some in paths.items() if some}
