"""The law of conservation, checked in every batch: what came in is somewhere, by count and by value, read back from what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from eventide.errors import EventideError
from eventide.kernel import aggregate, exactsum
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ROWS

if TYPE_CHECKING:
    from eventide.engine.batch.microbatch import BatchInput, BatchResult
    from eventide.state.ledger import Ledger
    from eventide.state.store import Store


class ConservationBreach(EventideError):
    """Rows were lost or doubled inside the engine; the batch is not committed."""


def check_conservation(
    store: Store, shape: BoundPlan, diverts: Sequence[bool], before: Ledger, result: BatchResult, given: BatchInput
) -> None:
    """Stop the pipeline with the numbers unless every row of the batch is where the books say it is."""
    _kept_rows(given)
    _rows(result, given)
    _pairs(before, result, given)
    _partials(store, shape, given)
    _late_rows(store, shape, diverts, before, result, given)
    _agree(
        given.number, "dead letters", _total(given, "dead"), "rows in the dead-letter files", sum(map(store.count, result.dead))
    )


def check_merge(parts: Sequence[pl.DataFrame], merged: pl.DataFrame, batch: int) -> None:
    """Merging partials neither loses nor doubles a row."""
    _agree(batch, "rows in the parts to be merged", _rows_in(parts), "rows in the merged part", _rows_in([merged]))


def _rows(result: BatchResult, given: BatchInput) -> None:
    """Rows in = ahead + judged + waiting + markers + duplicates + dead letters; those that wait are where a sweep will find them.

    A row that lies behind the sweep and was not judged never will be: it is missing among those that wait beyond it. After a drain
    nothing lies beyond.
    """
    rows = result.ledger.rows
    waiting = result.ledger.waiting
    _agree(given.number, "rows waiting (kept and not yet judged)", waiting, "rows stored beyond the sweep", result.waiting)
    if given.drain:
        _agree(given.number, "rows that wait after the end of the input", waiting, "rows that may", 0)
    found = rows["ahead"] + rows["judged"] + waiting + rows["markers"] + rows["duplicates"] + rows["dead"]
    if rows["in"] != found:
        raise ConservationBreach(
            f"batch {given.number}: {rows['in']} rows came in, but {rows['ahead']} ahead + {rows['judged']} judged "
            f"+ {waiting} waiting + {rows['markers']} markers + {rows['duplicates']} duplicates + {rows['dead']} dead letters = {found}. "
            "The batch was not committed and nothing was delivered."
        )


def _pairs(before: Ledger, result: BatchResult, given: BatchInput) -> None:
    """For each output, pairs of row and window judged = on time + admitted + refused; rows, by their worst verdict, likewise."""
    rows, was = result.ledger.rows, before.rows
    pairs = rows["pairs"] - was["pairs"]
    judged = rows["ahead"] - was["ahead"] + rows["judged"] - was["judged"]
    for name, counts in result.ledger.outputs.items():
        old = before.outputs.get(name, Counter())
        for want, prefix, what in ((pairs, "", "pairs of row and window"), (judged, "rows_", "rows")):
            parts = [counts[prefix + verdict] - old[prefix + verdict] for verdict in ("on_time", "admitted", "refused")]
            found = f"{parts[0]} on time + {parts[1]} admitted + {parts[2]} refused"
            _agree(given.number, f"{what} judged", want, f"{found} in output {name!r}", sum(parts))


def _kept_rows(given: BatchInput) -> None:
    kept = sum(part.rows for account in given.accounts for part in account.parts if part.kind == "rows")
    _agree(given.number, "rows that wait to be judged", _total(given, "kept"), "rows in the parts written for them", kept)


def _partials(store: Store, shape: BoundPlan, given: BatchInput) -> None:
    """What the scan aggregated is read back: as many rows, and the same sum of a value column."""
    paths = {part.path for account in given.accounts for part in account.parts if part.kind == "partial"}
    summed = {
        f"{aggregate.PART}{index}": (index, name)
        for index, (name, _) in enumerate(shape.plan.aggregates)
        if any(f"value_{index}" in account.counts for account in given.accounts)
    }
    stored = [store.columns(p, [ROWS, *(f"{part}_{half}" for part in summed for half in "sh")]) for p in paths]
    _agree(given.number, "rows aggregated", _total(given, "ahead"), "rows in the partials", _rows_in(stored))
    for part, (index, name) in summed.items():
        total = sum(exactsum.stored_total(f[f"{part}_s"], f.to_dict().get(f"{part}_h")) for f in stored)
        _agree(given.number, f"sum {name!r} of the rows", _total(given, f"value_{index}"), "sum of the partials", total)


def _late_rows(
    store: Store, shape: BoundPlan, diverts: Sequence[bool], before: Ledger, result: BatchResult, given: BatchInput
) -> None:
    """Every row that an output refused, and keeps, is in its late files."""
    for output, kept in zip(shape.plan.outputs, diverts, strict=True):
        if kept:
            was = before.outputs.get(output.name, Counter())
            refused = result.ledger.outputs[output.name]["rows_refused"] - was["rows_refused"]
            written = sum(map(store.count, result.late[output.name]))
            _agree(given.number, f"rows refused by output {output.name!r}", refused, "rows in its late files", written)


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
