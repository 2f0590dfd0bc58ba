"""The law of conservation, checked in every batch: what came in is somewhere, by count and by value, read back from what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from eventide.engine.batch.join_conservation import check_join
from eventide.errors import EventideError
from eventide.kernel import aggregate, exactsum
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ROWS
from eventide.state.ledger import root_of
from eventide.state.store import PartKind

if TYPE_CHECKING:
    from eventide.engine.batch.microbatch import BatchInput, BatchResult
    from eventide.state.ledger import Ledger
    from eventide.state.store import Store


WITHDRAWALS = ("withdrawals_offered", "withdrawals_applied", "withdrawals_refused")


class ConservationBreach(EventideError):
    """Rows were lost or doubled inside the engine; the batch is not committed."""


def check_conservation(
    store: Store, shape: BoundPlan, diverts: Sequence[bool], before: Ledger, result: BatchResult, given: BatchInput
) -> None:
    """Stop the pipeline with the numbers unless every row of the batch is where the books say it is."""
    if shape.join is not None:
        check_join(_agree, store, shape, shape.join, before, result, given)
    for one in () if shape.join is not None else (shape,) if shape.deduplicates else shape.every:
        _kept_rows(one, given)
    for one in shape.every:
        if one.pairs is None:
            _rows(one, result, given)
        _pairs(one, before, result, given)
        _partials(store, one, given)
    for stage in shape.stages:
        _stage(stage.shape, before, result, given)
    _late_rows(store, shape, diverts, before, result, given)
    _audited(store, shape, before, result, given)
    _agree(
        given.number, "dead letters", _total(given, "dead"), "rows in the dead-letter files", sum(map(store.count, result.dead))
    )


def check_merge(parts: Sequence[pl.DataFrame], merged: pl.DataFrame, batch: int) -> None:
    """Merging partials neither loses nor doubles a row."""
    _agree(batch, "rows in the parts to be merged", _rows_in(parts), "rows in the merged part", _rows_in([merged]))


def _rows(shape: BoundPlan, result: BatchResult, given: BatchInput) -> None:
    """Rows in = ahead + judged + waiting + markers + duplicates + dead letters; those that wait are where a sweep will find them.

    A row that lies behind the sweep and was not judged never will be: it is missing among those that wait beyond it. After a drain
    nothing lies beyond.
    """
    rows, ledger = result.ledger.rows, result.ledger
    waiting, ahead, judged = ledger.waiting_for(shape.name), rows[shape.counter("ahead")], rows[shape.counter("judged")]
    beyond = result.waiting[shape.name]
    _agree(given.number, "rows waiting (kept and not yet judged)", waiting, "rows stored beyond the sweep", beyond)
    if given.drain:
        _agree(given.number, "rows that wait after the end of the input", waiting, "rows that may", 0)
    found = ahead + judged + waiting + rows["markers"] + rows["duplicates"] + rows["dead"]
    if rows["in"] != found:
        raise ConservationBreach(
            f"batch {given.number}: {rows['in']} rows came in, but {ahead} ahead + {judged} judged "
            f"+ {waiting} waiting + {rows['markers']} markers + {rows['duplicates']} duplicates + {rows['dead']} dead letters = {found}. "
            "The batch was not committed and nothing was delivered."
        )


def _pairs(shape: BoundPlan, before: Ledger, result: BatchResult, given: BatchInput) -> None:
    """For each output, pairs of row and window judged = on time + admitted + refused; rows, by their worst verdict, likewise."""
    pairs = result.ledger.counted(shape.name, "pairs") - before.counted(shape.name, "pairs")
    root = root_of(shape.name)
    ahead, judged = (result.ledger.counted(root, what) - before.counted(root, what) for what in ("ahead", "judged"))
    for name in (output.name for output in shape.plan.outputs):
        counts, old = result.ledger.counts_of(name), before.counts_of(name)
        for want, prefix, what in ((pairs, "", "pairs of row and window"), (ahead + judged, "rows_", "rows")):
            parts = [counts[prefix + verdict] - old[prefix + verdict] for verdict in ("on_time", "admitted", "refused")]
            found = f"{parts[0]} on time + {parts[1]} admitted + {parts[2]} refused"
            _agree(given.number, f"{what} judged", want, f"{found} in output {name!r}", sum(parts))


def _stage(shape: BoundPlan, before: Ledger, result: BatchResult, given: BatchInput) -> None:
    """The same of the ways of rows into a stage; every change of a result below came to one of its buckets; withdrawals are applied or refused."""
    _pairs(shape, before, result, given)
    handed, taken = result.handed[shape.name]
    _agree(given.number, f"changes of results handed on to {shape.plan.window}", handed, "changes taken in there", taken)
    for name in (output.name for output in shape.plan.outputs):
        now, old = result.ledger.counts_of(name), before.counts_of(name)
        offered, applied, refused = (now[w] - old[w] for w in WITHDRAWALS)
        found = f"{applied} applied + {refused} refused in {name!r}"
        _agree(given.number, "withdrawals offered", offered, found, applied + refused)


def _kept_rows(shape: BoundPlan, given: BatchInput) -> None:
    """Rows of which duplicates are still to be taken out are kept once, whatever the number of aggregations."""
    parts = [part for account in given.accounts for part in account.parts if part.kind == PartKind.ROWS]
    kept = sum(part.rows for part in parts if shape.deduplicates or part.aggregation == shape.name)
    want = _total(given, shape.counter("kept"))
    _agree(given.number, "rows that wait to be judged", want, "rows in the parts written for them", kept)


def _partials(store: Store, shape: BoundPlan, given: BatchInput) -> None:
    """What the scan aggregated is read back: as many rows, and the same sum of a value column."""
    parts = [p for account in given.accounts for p in account.parts if p.aggregation == shape.name]
    paths = {part.path for part in parts if part.kind == PartKind.PARTIAL}
    summed = {
        f"{aggregate.PART}{index}": (index, name)
        for index, (name, _) in enumerate(shape.plan.aggregates)
        if any(shape.counter(f"value_{index}") in account.counts for account in given.accounts)
    }
    stored = [store.columns(p, [ROWS, *(f"{part}_{half}" for part in summed for half in "sh")]) for p in paths]
    _agree(given.number, "rows aggregated", _total(given, shape.counter("ahead")), "rows in the partials", _rows_in(stored))
    for part, (index, name) in summed.items():
        total = sum(exactsum.stored_total(f[f"{part}_s"], f.to_dict().get(f"{part}_h")) for f in stored)
        want = _total(given, shape.counter(f"value_{index}"))
        _agree(given.number, f"sum {name!r} of the rows", want, "sum of the partials", total)


def _late_rows(
    store: Store, shape: BoundPlan, diverts: Sequence[bool], before: Ledger, result: BatchResult, given: BatchInput
) -> None:
    """Every row that an output refused, and keeps, is in its late files."""
    for output, kept in zip(shape.outputs, diverts, strict=True):
        if kept:
            was = before.outputs.get(output.name, Counter())
            refused = result.ledger.outputs[output.name]["rows_refused"] - was["rows_refused"]
            written = sum(map(store.count, result.late[output.name]))
            _agree(given.number, f"rows refused by output {output.name!r}", refused, "rows in its late files", written)


def _audited(store: Store, shape: BoundPlan, before: Ledger, result: BatchResult, given: BatchInput) -> None:
    """Where events are an output themselves, each that went on is in the files: as it was read, or once it is known to be the first of its equals."""
    if shape.audits:
        taken = [
            result.ledger.counted(shape.name, what) - before.counted(shape.name, what) for what in ("ahead", "kept", "judged")
        ]
        on = taken[2] if shape.deduplicates else taken[0] + taken[1]
        _agree(given.number, "events that went on", on, "rows in the files of events", sum(map(store.count, result.audited)))


def _total(given: BatchInput, name: str) -> int:
    return sum(account.counts.get(name, 0) for account in given.accounts)


def _rows_in(frames: Sequence[pl.DataFrame]) -> int:
    return sum(int(frame[ROWS].sum()) for frame in frames)


def _agree(batch: int, what: str, want: int, where: str, found: int) -> None:
    if want != found:
        raise ConservationBreach(
            f"batch {batch}: {what}: {want}; {where}: {found}. The batch was not committed and nothing was delivered."
        )


__all__ = ["ConservationBreach", "check_conservation", "check_merge"]
