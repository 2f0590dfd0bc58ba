"""`eventide watermark FILE|STATE`: where the watermark stands, which lane holds it and since when, told by the state alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from eventide.cli.states import asked, at_work, headline, json_option, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.readable.harmless import cell, harmless
from eventide.readable.spans import rough, since, to_seconds

if TYPE_CHECKING:
    from eventide.state.marks import Holder, Marks

UNTOLD = "–"


@click.command()
@place_argument
@click.option(
    "--lanes", "most", default=10, show_default=True, type=click.IntRange(0), help="So many lanes, the slowest first."
)
@json_option
def watermark(place: str, most: int, as_json: bool) -> None:
    """Say where the watermark of a pipeline stands, running or stopped: by its FILE, or by its STATE directory alone.

    The lag is that of the last batch, by its clock. Windows wait for the lane that holds W if they would close without it.
    """
    from eventide.state.marks import read_marks

    state, marks = asked(place, read_marks)
    holder = at_work(state)
    if as_json:
        click.echo(json.dumps({**marks.to_json(), "running": holder is not None and holder.alive}, indent=2))
        return
    console = screen()
    console.print(f"\n{headline(state, marks.clock, holder)}\n", markup=False, style="bold", soft_wrap=True)
    _show(console, marks)
    if most and marks.lanes:
        console.print(indented(_lanes(marks, most)))
        if len(marks.lanes) > most:
            console.print(f"  and {len(marks.lanes) - most:,} more; --lanes {len(marks.lanes)} shows them all")
    console.print()


def _show(console: Console, marks: Marks) -> None:
    parts = [f"W {to_seconds(marks.watermark)}"]
    parts += [] if marks.lag is None else [f"lag {rough(marks.lag)}"]
    parts += [] if marks.moved is None or marks.finished else [f"stands there since {since(marks.moved, marks.clock)}"]
    console.print(f"  {', '.join(parts)}", markup=False, soft_wrap=True)
    console.print(f"  {_held(marks)}\n", markup=False, soft_wrap=True)
    sources = table("source", "watermark", "lag", "held by lane", "since", "lanes", "idle")
    for one in marks.sources:
        lane = UNTOLD if one.holder is None else one.holder.lane
        begun = UNTOLD if one.holder is None or one.holder.since is None else since(one.holder.since, marks.clock)
        lag = UNTOLD if one.lag is None else rough(one.lag)
        sources.add_row(cell(one.source), to_seconds(one.watermark), lag, cell(lane), begun, f"{one.lanes:,}", f"{one.idle:,}")
    console.print(indented(sources))
    console.print()


def _held(marks: Marks) -> str:
    """Who holds W, in a sentence."""
    if marks.finished:
        return "the end of the input was declared: every window is closed"
    if marks.holder is None:
        return "nobody holds it: no lane counts" if marks.lanes else "no lane is known yet"
    waiting = ", ".join(f"{number:,} of {harmless(output)}" for output, number in marks.waiting.items() if number)
    return f"held by {_name(marks.holder, marks)}; windows that wait for it: {waiting or 'none'}"


def _name(holder: Holder, marks: Marks) -> str:
    begun = "" if holder.since is None else f" since {since(holder.since, marks.clock)}"
    why = "" if holder.why is None else f", {harmless(holder.why, 200)}"
    return f"{harmless(holder.source)}/{harmless(holder.lane)}{begun}{why}"


def _lanes(marks: Marks, most: int) -> Any:
    lanes = table("lane", "watermark", "lag", "last heard", "")
    for one in marks.lanes[:most]:
        lag = UNTOLD if one.watermark is None else rough(max(0, marks.clock - one.watermark))
        heard = "never" if one.last_arrival is None else to_seconds(one.last_arrival)
        name = f"{harmless(one.source)}/{harmless(one.lane)}"
        lanes.add_row(cell(name), to_seconds(one.watermark), lag, heard, "idle" if one.idle else "")
    return lanes
