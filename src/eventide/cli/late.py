"""`eventide late FILE|STATE`: the rows that outputs refused and kept: how many, from where, why, and the rows themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from eventide.cli.faults import Refused
from eventide.cli.kept import as_records, by_lane, chosen, exported, refuse_export, rows_options, shown_lanes, shown_rows
from eventide.cli.states import asked, json_option, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.readable.harmless import cell, harmless

if TYPE_CHECKING:
    from eventide.state.kept_rows import KeptRows
    from eventide.state.state import State


@click.command()
@place_argument
@click.option("--output", help="Only this output; needed with --export where several have kept rows.")
@rows_options
@json_option
def late(place: str, output: str | None, limit: int, sample: int | None, export: str | None, as_json: bool) -> None:
    """Show the rows that came too late for a pipeline's outputs and were kept: by its FILE, or by its STATE directory alone.

    Rows that drop() refused are counted, and are not kept: divert(…) keeps them.
    """
    refuse_export(export)
    state, facts = asked(place, lambda state: [_facts(state, name) for name in _names(state, output)])
    if export is not None:
        exported(_only_one(state, facts), export)
    shown = {one["output"]: chosen(_kept(state, one["output"]), limit, sample) for one in facts}
    if as_json:
        click.echo(json.dumps({"outputs": [{**one, "rows": as_records(shown[one["output"]])} for one in facts]}, indent=2))
        return
    console = screen()
    _show(console, facts)
    for one in facts:
        if one["kept"]:
            console.print(f"\n[bold]Kept by {cell(one['output']).markup}[/bold]   {one['kept']:,} rows\n")
            console.print(indented(shown_lanes(one["lanes"])))
            console.print()
            console.print(indented(shown_rows(shown[one["output"]])))
    console.print()


def _only_one(state: State, facts: list[dict[str, Any]]) -> KeptRows:
    """The rows to export."""
    able = [one["output"] for one in facts if one["kept"]]
    if len(able) != 1:
        have = (
            f"{', '.join(map(harmless, able))} have kept rows; say whose with --output" if able else "no output has kept a row"
        )
        raise Refused(f"--export: {have}.")
    return _kept(state, able[0])


def _show(console: Console, facts: list[dict[str, Any]]) -> None:
    lines = table("output", "admitted late", "refused", "kept", *facts[0]["causes"])
    for one in facts:
        numbers = (one["admitted"], one["refused"], one["kept"], *one["causes"].values())
        lines.add_row(cell(one["output"]), *(f"{number:,}" for number in numbers))
    console.print("\n[bold]Late rows[/bold]\n")
    console.print(indented(lines))


def _names(state: State, output: str | None) -> list[str]:
    known = list(state.ledger.outputs)
    if output is not None and output not in known:
        raise Refused(f"pipeline {state.name!r} has no output {harmless(output)!r}. It has {', '.join(map(harmless, known))}.")
    return known if output is None else [output]


def _kept(state: State, output: str) -> KeptRows:
    from eventide.kernel.place import LATE
    from eventide.state.kept_rows import KeptRows

    return KeptRows(state, f"late/{output}", LATE)


def _facts(state: State, output: str) -> dict[str, Any]:
    from eventide.kernel import judge
    from eventide.lateness.witness import DISORDER, IDLENESS

    counts, lanes = state.ledger.outputs[output], by_lane(state.sources, _kept(state, output).counted("_source", "_lane"))
    return {
        "output": output,
        "admitted": counts["rows_admitted"],
        "refused": counts["rows_refused"],
        "causes": {DISORDER: counts[judge.DISORDER], IDLENESS: counts[judge.IDLENESS]},
        "kept": sum(one["rows"] for one in lanes),
        "lanes": lanes,
    }
