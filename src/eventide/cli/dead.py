"""`eventide dead FILE|STATE`: the records that could not be read: how many, why, from where, and the records themselves."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.faults import Refused
from eventide.cli.kept import MOST, as_records, by_lane, chosen, exported, refuse_export, rows_options, shown_lanes, shown_rows
from eventide.cli.states import asked, json_option, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.readable.harmless import cell

if TYPE_CHECKING:
    from eventide.state.kept_rows import KeptRows
    from eventide.state.state import State

LONG = 72
"""Signs of a reason."""


@click.command()
@place_argument
@rows_options
@json_option
def dead(place: str, limit: int, sample: int | None, export: str | None, as_json: bool) -> None:
    """Show the records of a pipeline that could not be read, with their reasons and bytes: by its FILE, or by its STATE directory alone."""
    refuse_export(export)
    state, facts = asked(place, _facts)
    rows = _kept(state)
    if export is not None:
        if not facts["dead"]:
            raise Refused("--export: there is no dead letter.")
        exported(rows, export)
    shown = chosen(rows, limit, sample)
    if as_json:
        click.echo(json.dumps({**facts, "rows": as_records(shown)}, indent=2))
        return
    console = screen()
    console.print(f"\n[bold]Dead letters[/bold]   {facts['dead']:,} of {facts['in']:,} rows\n")
    if facts["dead"]:
        reasons = table("reason", "rows")
        for one in facts["reasons"][:MOST]:
            reasons.add_row(cell(one["reason"], LONG), f"{one['rows']:,}")
        if len(facts["reasons"]) > MOST:
            reasons.add_row(f"and {len(facts['reasons']) - MOST:,} more", "")
        for made in (reasons, shown_lanes(facts["lanes"]), shown_rows(shown)):
            console.print(indented(made))
            console.print()


def _kept(state: State) -> KeptRows:
    from eventide.kernel.place import DEAD_LETTERS
    from eventide.state.kept_rows import KeptRows

    return KeptRows(state, "dead", DEAD_LETTERS)


def _facts(state: State) -> dict[str, Any]:
    counted = _kept(state).counted("source", "lane", "reason")
    reasons: Counter[str] = Counter()
    for (_, _, reason), number in counted.items():
        reasons[reason] += number
    return {
        "pipeline": state.name,
        "in": state.ledger.rows["in"],
        "dead": state.ledger.rows["dead"],
        "reasons": [{"reason": reason, "rows": number} for reason, number in reasons.most_common()],
        "lanes": by_lane(state.sources, counted),
    }
