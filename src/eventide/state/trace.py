"""How W, the lanes and the counts went, batch by batch: what pages and scrapes show of the past. Old batches are thinned, none is lost count of.

A batch writes one small file, which counts iff its commit does. Now and then the files are put together: of the newest batches each is kept, of older
ones every second, of those before every fourth, and so on, so that a hundred thousand batches take some thousand lines. Counts are totals since the
beginning, and a line says the longest lag of all batches that it stands for; so what is thinned is only how finely the past is told.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.errors import StoreError, StoreUnavailable
from eventide.log import note
from eventide.model.frontier import FrontierState
from eventide.state.holds import Hold, Holds
from eventide.state.ledger import Ledger
from eventide.state.marks import in_order, lag_of
from eventide.state.state import State, is_committed
from eventide.state.store import Store

TRACE = "trace"
FINE = 512
"""So many of the newest batches are told one by one, with the files that they wrote."""
COMPACT_EVERY = 32
LANES = 8
"""The slowest lanes of a source that a batch tells of."""
LONGEST_LANE = 120
TRIES = 5
"""How often the lines are looked for again that a run has put together meanwhile."""
PASSING = ("lanes", "files")
"""What is told of the newest batches only."""
SCHEMA = {"batch": pl.Int64(), "clock": pl.Int64(), "watermark": pl.Int64(), "lag": pl.Int64(), "facts": pl.String()}


@dataclass(frozen=True)
class Entry:
    """One batch, or the last of several that it stands for."""

    batch: int
    clock: int
    watermark: int | None
    lag: int | None
    """The longest, of the batches that it stands for."""
    facts: dict[str, Any]
    """Totals of rows, by output and by source; each source's mark and slowest lane; how long the stages of the batch took."""


def entry(ledger: Ledger, clock: int, holds: Holds, **more: object) -> Entry:
    """What a batch comes to; `more` is what its run knows beside the ledger."""
    frontier = ledger.frontier
    facts = {
        "holder": _hold(holds.holder),
        "sources": {str(index): _source(frontier, index, hold) for index, hold in holds.sources.items()},
        "lanes": _slowest_lanes(frontier),
        "rows": dict(ledger.rows),
        "outputs": {name: dict(counts) for name, counts in ledger.outputs.items()},
        "by_source": {place: dict(counts) for place, counts in ledger.by_source.items()},
        **more,
    }
    return Entry(ledger.batch, clock, frontier.watermark, lag_of(frontier.watermark, clock), facts)


def note_batch(store: Store, noted: Entry) -> None:
    """Write a batch's line, before its commit."""
    store.write_table(TRACE, noted.batch, "line", _frame([noted]))


def compact(store: Store, ledger: Ledger) -> None:
    """Now and then put the lines together, after a commit; a crash in between leaves the old files or both, never none."""
    if (ledger.batch + 1) % COMPACT_EVERY:
        return
    entries, old = _standing(store, ledger)
    merged = store.write_table(f"{TRACE}/merged", ledger.batch, "all", _frame(thinned(entries, ledger.batch)))
    gone = [path for path in old if path != merged]
    store.evict(gone, {path.rpartition("/")[0] for path in gone}, lambda: None)


def read_trace(state: State) -> list[Entry]:
    """The lines of the committed batches, oldest first; a run that puts them together meanwhile has them under another name."""
    if state.committed is None:
        return []
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            return _standing(state.store, state.committed)[0]
    raise StoreUnavailable(f"the trace of {state.path} is put together faster than it can be read here. Ask again.")


def last_entry(store: Store, ledger: Ledger) -> Entry | None:
    """The newest line."""
    lines = [path for path in store.files(f"{TRACE}/batch={ledger.batch}") if is_committed(path, ledger)]
    found = lines or store.files(f"{TRACE}/merged/batch={ledger.batch}")
    entries = _read(store, found[-1:])
    return entries[-1] if entries else None


def thinned(entries: Iterable[Entry], newest: int) -> list[Entry]:
    """Fewer lines the older they are; the longest lag of those that go is told by the next that stays.

    >>> old = [Entry(batch, batch, None, 9 if batch == 1 else 0, {}) for batch in range(4)]
    >>> [(line.batch, line.lag) for line in thinned(old, newest=2 * FINE)]
    [(0, 0), (2, 9)]
    """
    kept: list[Entry] = []
    worst: int | None = None
    for one in entries:
        age = newest - one.batch
        worst = max((lag for lag in (worst, one.lag) if lag is not None), default=None)
        if one.batch % (1 << (age // FINE).bit_length()):
            continue
        facts = one.facts if age < FINE else {name: fact for name, fact in one.facts.items() if name not in PASSING}
        kept.append(replace(one, lag=worst, facts=facts))
        worst = None
    return kept


def short(lane: str) -> str:
    """A lane's name, of which a long one is cut and told from others by a hash."""
    if len(lane) <= LONGEST_LANE:
        return lane
    return f"{lane[:LONGEST_LANE]}…#{hashlib.sha256(lane.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _hold(hold: Hold | None) -> list[Any] | None:
    return None if hold is None else [hold.lane[0], short(hold.lane[1]), hold.since]


def _source(frontier: FrontierState, index: int, hold: Hold) -> dict[str, Any]:
    lanes = [standing for (source, _), standing in frontier.lanes.items() if source == index]
    mark = frontier.lanes[hold.lane].watermark
    facts = {"watermark": mark, "lanes": len(lanes), "idle": sum(standing.idle for standing in lanes)}
    return {**facts, "holder": short(hold.lane[1]), "since": hold.since}


def _slowest_lanes(frontier: FrontierState) -> list[list[Any]]:
    """Of each source the lanes that are furthest behind; idle ones last."""
    taken: Counter[int] = Counter()
    found: list[list[Any]] = []
    for (index, lane), standing in in_order(frontier):
        taken[index] += 1
        if taken[index] <= LANES:
            found.append([index, short(lane), standing.watermark, standing.idle])
    return found


def _standing(store: Store, ledger: Ledger) -> tuple[list[Entry], list[str]]:
    """The newest merged file and the lines after it, each of the run that committed its batch; and the files that a new merged one replaces."""
    files = [(int(path.split("batch=")[1].split("/")[0]), path) for path in store.files(TRACE)]
    merged = max(((batch, path) for batch, path in files if "/merged/" in path and batch <= ledger.batch), default=None)
    since = -1 if merged is None else merged[0]
    lines = sorted((b, path) for b, path in files if "/merged/" not in path and b > since and is_committed(path, ledger))
    live = ([] if merged is None else [merged[1]]) + [path for _, path in lines]
    return _read(store, live), [path for batch, path in files if batch <= ledger.batch]


def _read(store: Store, paths: list[str]) -> list[Entry]:
    """The lines of files. One that was cut short when a machine lost its power is told and passed over: nothing but what is shown hangs on it."""
    found: list[Entry] = []
    for path in paths:
        try:
            found += [made for piece in store.batches([path]) for made in _entries(pl.DataFrame(pl.from_arrow(piece)))]
        except (StoreError, OSError, pa.ArrowInvalid) as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from error
            note(
                __name__, "a file of the trace cannot be read and is passed over", logging.WARNING, path=path, error=str(error)
            )
    return found


def _frame(entries: list[Entry]) -> pl.DataFrame:
    rows = [(one.batch, one.clock, one.watermark, one.lag, json.dumps(one.facts)) for one in entries]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _entries(frame: pl.DataFrame) -> list[Entry]:
    return [Entry(batch, clock, mark, lag, json.loads(facts)) for batch, clock, mark, lag, facts in frame.iter_rows()]


__all__ = ["TRACE", "Entry", "compact", "entry", "last_entry", "note_batch", "read_trace", "thinned"]
