"""`eventide windows FILE|STATE`: the windows that a state holds for each output, open or kept for late rows, and what they take."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eventide.cli.faults import Refused
from eventide.cli.states import asked, at_work, headline, json_option, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.model.time import show_duration
from eventide.readable.harmless import cell, harmless
from eventide.readable.spans import size, to_seconds

if TYPE_CHECKING:
    from eventide.state.footprint import WindowsKept
    from eventide.state.state import State


@click.command()
@place_argument
@click.option("--output", help="Only this output.")
@json_option
def windows(place: str, output: str | None, as_json: bool) -> None:
    """Say which windows the state of a pipeline holds, output by output: by its FILE, or by its STATE directory alone.

    Open windows are those whose end W has not reached; retained ones have closed and take late rows still. Outputs that read the same
    windows share what is kept for them.
    """
    from eventide.state.footprint import windows_kept

    def kept(state: State) -> list[WindowsKept]:
        every = windows_kept(state)
        if output is not None and output not in [one.output for one in every]:
            names = ", ".join(harmless(one.output) for one in every)
            raise Refused(f"pipeline {state.name!r} has no output {harmless(output)!r}. It has {names}.")
        return [one for one in every if output in (None, one.output)]

    state, found = asked(place, kept)
    mark = state.ledger.frontier.watermark
    if as_json:
        click.echo(json.dumps({"pipeline": state.name, "watermark": mark, "outputs": [asdict(one) for one in found]}, indent=2))
        return
    console = screen()
    console.print(f"\n{headline(state, state.last['clock'], at_work(state))}\n", markup=False, style="bold", soft_wrap=True)
    console.print(f"  W {to_seconds(mark)}\n", markup=False)
    lines = table("output", "open", "retained", "allowed lateness", "rows kept", "bytes", "results given")
    for one in found:
        counts = ["–" if number is None else f"{number:,}" for number in (one.open, one.retained)]
        kept_for = [f"{one.rows:,}", f"{size(one.bytes)}{' *' if one.shared else ''}"]
        lines.add_row(cell(one.output), *counts, show_duration(one.allowed), *kept_for, f"{one.panes:,}")
    console.print(indented(lines))
    if any(one.shared for one in found):
        console.print("  * outputs that read the same windows share most of it", style="dim")
    for reads in dict.fromkeys(one.reads for one in found):
        console.print(
            f"  {', '.join(harmless(one.output) for one in found if one.reads == reads)}: {harmless(reads, 300)}",
            markup=False,
            style="dim",
            soft_wrap=True,
        )
    console.print()
