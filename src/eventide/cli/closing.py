"""Where every row went: the lines that a run ends with, however it ends."""

from __future__ import annotations

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
        parts += [(rows[key], label) for label, key in REST] + [
            (ledger.waiting_for(ledger.reads.get(output.name, "")), "waiting")
        ]
        agrees = sum(number for number, _ in parts) == rows["in"]
        shown = " + ".join(f"{number:,} {label}" for number, label in parts if number) or "nothing yet"
        lines.append(f"  {output.name:<10} {shown}  {'[green]✓[/green]' if agrees else '[red]✗[/red]'}")
        sound = sound and agrees
    return "\n".join(lines), sound


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
