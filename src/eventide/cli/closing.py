"""Where every row went: the lines that a run ends with, however it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventide.pipeline import Pipeline
    from eventide.state.ledger import Ledger

PLACES = (("on time", "rows_on_time"), ("admitted late", "rows_admitted"))
REST = (("dead", "dead"), ("duplicates", "duplicates"), ("markers", "markers"))


def where_rows_went(pipeline: Pipeline, ledger: Ledger) -> tuple[str, bool]:
    """Every row in exactly one place, for each output; and whether that is so."""
    rows = ledger.rows
    lines, sound = [f"\n[bold]Where every row went[/bold]   {rows['in']:,} in"], True
    for output in pipeline.outputs:
        counts, before = ledger.outputs[output.name], ledger.joined[output.name]
        lost = "dropped" if output.late.refused is None else "diverted"
        parts = [(before["ahead"] + before["judged"], "before it joined")]
        parts += [(counts[key], label) for label, key in PLACES] + [(counts["rows_refused"], lost)]
        if output.aggregation.joined not in (None, output.aggregation):  # its rows are the pairs of a join
            sound &= _agreed(lines, output.name, parts, rows["pairs_joined"], f"{rows['pairs_joined']:,} pairs = ")
            continue
        parts += [*_rest(rows), (ledger.waiting_for(ledger.reads.get(output.name, "")), "waiting")]
        sound &= _agreed(lines, output.name, parts, rows["in"])
    for audit in pipeline.audits:
        sound &= _agreed(lines, audit.name, [*_events(pipeline, ledger), *_rest(rows)], rows["in"])
    return "\n".join(lines), sound


def _rest(rows: Mapping[str, int]) -> list[tuple[int, str]]:
    return [(rows[key], label) for label, key in REST]


def _events(pipeline: Pipeline, ledger: Ledger) -> list[tuple[int, str]]:
    """Events that went on, which is what an output of events takes; of those that may be duplicates, once that is known."""
    first = ledger.reads.get(pipeline.outputs[0].name, "")
    if pipeline.stream.dedupe_keys:
        return [(ledger.counted(first, "judged"), "events"), (ledger.waiting_for(first), "waiting")]
    return [(ledger.counted(first, "ahead") + ledger.counted(first, "kept"), "events")]


def _agreed(lines: list[str], name: str, parts: list[tuple[int, str]], rows: int, of: str = "") -> bool:
    """A line, and whether its parts are all rows; `of` says what they are where they are no events."""
    agrees = sum(number for number, _ in parts) == rows
    shown = " + ".join(f"{number:,} {label}" for number, label in parts if number) or "nothing yet"
    lines.append(f"  {name:<10} {of}{shown}  {'[green]✓[/green]' if agrees else '[red]✗[/red]'}")
    return agrees


def committed(pipeline: Pipeline) -> Ledger:
    """Where a pipeline stands by what its last run committed: for a run that ended before it had opened anything, and may have no session."""
    from eventide.errors import StoreError
    from eventide.state.ledger import Ledger
    from eventide.state.records import HADOOP
    from eventide.state.state import State
    from eventide.storage.address import scheme_of

    if pipeline.state is not None and scheme_of(pipeline.state) in HADOOP:
        raise StoreError(f"what is committed in {pipeline.state} can be read through Spark only.")
    found = (None if pipeline.state is None else State.of(pipeline).committed) or Ledger()
    found.seat([output.name for output in pipeline.outputs], found.reads)
    return found
