"""What states have said of an output and still stand by, read from their own tables of panes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute

from eventide.errors import LossWarning
from eventide.kernel.arrow_types import small
from eventide.model.time import plus
from eventide.redaction import warn_of
from eventide.sinks.base import Span
from eventide.sinks.ranked import highest, outdated, retracts
from eventide.sinks.shape import PaneShape
from eventide.state.generations import states_aside
from eventide.state.journal import Journal, JournalError
from eventide.state.ledger import Ledger
from eventide.state.records import record_files
from eventide.state.state import committed_files
from eventide.state.store import Store

BACKFILLED = "backfilled"


@dataclass(frozen=True)
class Results:
    """The highest rank of each window (or each delta), withdrawn ones included; gone through bucket by bucket, as often as one likes."""

    store: Store
    files: tuple[str, ...]
    shape: PaneShape
    until: int | None = None
    """Only windows that end at or before it."""
    since: int | None = None
    """Only windows that start at or after it."""
    mixed: bool = False
    """Whether panes of one window may be in files of different names."""
    looked_from: int | None = None
    """The start of the earliest window that a view which holds results back has looked at: it may not have spoken of it."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for table in self._buckets():
            yield from highest(table, self.shape).to_batches()

    def _buckets(self) -> Iterator[pa.Table]:
        """A window's panes are all of one bucket, which the files are named by."""
        buckets: dict[str, list[str]] = {}
        for file in self.files:
            bucket = "" if self.mixed else file.rpartition("/")[2].partition("@")[0]
            buckets.setdefault(bucket, []).append(file)
        schema, start, end = self.shape.schema, self.shape.meta("window_start"), self.shape.meta("window_end")
        for files in buckets.values():
            table = pa.Table.from_batches(list(self.store.batches(files, schema)), schema=schema)
            if self.until is not None:
                table = table.filter(pa.compute.less_equal(_micros(table, end), pa.scalar(self.until, pa.int64())))
            if self.since is not None:
                table = table.filter(pa.compute.greater_equal(_micros(table, start), pa.scalar(self.since, pa.int64())))
            yield table

    def beginning(self, span: int) -> Results:
        """The same, taken to be all that there is from so long after the first window on, or, with a negative span, before it."""
        first = self.first_start()
        return self if first is None else replace(self, since=plus(first, span))

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """Without those that were withdrawn."""
        for batch in self:
            yield batch.filter(pa.compute.equal(batch[self.shape.meta("op")], pa.scalar("insert")))

    def windows(self) -> set[str]:
        """Every window that was spoken of."""
        column = self.shape.meta("window_id")
        return {str(window) for table in self._buckets() for window in table[column].to_pylist()}

    def first_start(self) -> int | None:
        """The start of the earliest window that was looked at: one that a view shows nothing of is known to be empty there."""
        if self.since is not None:
            return self.since
        column = self.shape.meta("window_start")
        starts: list[Any] = [self.looked_from, *(pa.compute.min(_micros(table, column)).as_py() for table in self._buckets())]
        return min((start for start in starts if start is not None), default=None)


def _micros(table: pa.Table, column: str) -> pa.ChunkedArray[Any]:
    return table[column].cast(pa.timestamp("us")).cast(pa.int64())


def keep_backfilled(store: Store, output: str, generation: int, results: Results) -> None:
    """Note in a live state what a backfill is about to tell a sink that cannot be asked: one day it may have to be taken back."""
    for number, batch in enumerate(results.inserts()):
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        store.write_table(f"{BACKFILLED}/{output}", generation, f"part-{number:06d}", frame)


def told_by(store: Store, output: str, files: list[str], shape: PaneShape) -> Results:
    """All that a live state has told of an output, these files and what backfills have told."""
    backfilled = store.files(f"{BACKFILLED}/{output}")
    return Results(store, (*files, *backfilled), shape, mixed=bool(backfilled))


def withdrawals(results: Results, generation: int, span: Span, kept: Iterable[str] = ()) -> Iterator[pa.RecordBatch]:
    """A retract for each result of an older generation inside a span, but for windows that the newer one speaks of."""
    known = pa.array(sorted(kept), pa.string())
    for batch in results:
        gone = outdated(pa.Table.from_batches([batch]), results.shape, generation, span)
        gone = gone.filter(pa.compute.invert(pa.compute.is_in(gone[results.shape.meta("window_id")], known)))
        yield from retracts(gone, results.shape).to_batches()


@dataclass(frozen=True)
class Earlier:
    """A state that was set aside, as far as one output of it is concerned."""

    results: Results
    signature: str
    """Of its windows and keys; empty where an older format did not note it."""
    window: str
    keys: list[str]

    def is_like(self, shape: PaneShape, window: str) -> bool:
        """Whether its results can share a place with those of a shape; `window` is how an older format wrote the windows."""
        if self.signature:
            return self.signature == shape.signature
        return (self.window, self.keys) == (window, list(shape.key_names))


def earlier(state: str, output: str) -> Iterator[Earlier]:
    """The states set aside whose results of an output may stand in sinks that cannot be asked, newest first.

    A damaged one is what many start over from: it is passed over, and said to be.
    """
    for _, path in reversed(states_aside(state)):
        try:
            found, replaced_all = _told_from(path, output)
        except (JournalError, ValueError, KeyError, TypeError) as error:
            warn_of(
                f"the state set aside in {path} cannot be read ({error}), so nobody knows what it has told of output {output!r}. A sink that can be "
                "asked (a table) is not concerned; in any other (Kafka, a webhook, a function) results of that state which no newer one replaces "
                f"are not retracted. To have them retracted, restore the state in {path} before the next run; to be told no more, move it away.",
                LossWarning,
            )
            continue
        if found is not None:
            yield found
        if replaced_all:
            return


def _told_from(path: str, output: str) -> tuple[Earlier | None, bool]:
    """What a state set aside has told of an output, and whether that took the place of all before it."""
    journal, store = Journal(record_files(path)), Store(path)
    facts, ledger = journal.definition(), _last_ledger(journal) or Ledger()
    if facts is None or output not in facts["outputs"]:
        return None, False
    waited, settled = output in facts.get("withheld", ()), output in ledger.settled
    if waited and not settled and journal.begun(ledger.batch + 1) is None:
        return None, False  # it ended before it had caught up: nobody has seen anything of it
    files = [*committed_files(store, f"panes/{output}", ledger), *_begun(journal, store, output, ledger.batch + 1)]
    if not files:
        return None, waited and settled
    noted = facts.get("shapes", {}).get(output, facts["outputs"][output])
    shape = _shape_in(next(store.batches(files[:1])).schema, noted.get("accumulation", ""))
    results = told_by(store, output, files, shape)
    return Earlier(results, noted.get("signature", ""), str(facts.get("window")), facts.get("keys", [])), waited and settled


def _begun(journal: Journal, store: Store, output: str, batch: int) -> list[str]:
    """The files of a batch that was being delivered when its run ended: sinks may have all of it, whoever tried."""
    return store.files(f"panes/{output}/batch={batch}") if journal.begun(batch) is not None else []


def _last_ledger(journal: Journal) -> Ledger | None:
    """Of an older format only the number of the last batch is of interest: its files are named without attempts."""
    last = journal.last()
    if last is None or "format" not in last:
        return journal.ledger()
    return Ledger(batch=last["ledger"]["batch"])


def _shape_in(schema: pa.Schema, accumulation: str) -> PaneShape:
    """The shape of stored panes: three columns of ours, the user's keys and values, five columns of ours."""
    users = list(schema)[3:-5]
    return PaneShape(tuple((field.name, small(field.type)) for field in users), (), accumulation or "accumulating")


__all__ = ["Earlier", "Results", "earlier", "keep_backfilled", "told_by", "withdrawals"]
