"""`eventide dead FILE|STATE`: the records that could not be read: how many, why, from where, and the records themselves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.faults import Refused, retrying
from eventide.cli.kept import MOST, as_records, by_lane, chosen, exported, refuse_export, rows_options, shown_lanes, shown_rows
from eventide.cli.loading import load, names_in
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
@click.option(
    "--mend",
    type=click.Path(exists=True, dir_okay=False),
    help="Read them again: this Python file has a function mend(letter) that gives columns as a dict, or None.",
)
@click.option("--into", metavar="SOURCE", help="With --mend: the source by which they come back, an ev.mended(…) of FILE.")
def dead(
    place: str, limit: int, sample: int | None, export: str | None, as_json: bool, mend: str | None, into: str | None
) -> None:
    """Show the records of a pipeline that could not be read, with their reasons and bytes: by its FILE, or by its STATE directory alone."""
    if (mend is None) != (into is None):
        raise click.UsageError("--mend goes with --into: the function that mends, and the source by which letters come back.")
    if mend is not None and into is not None:
        _mend(place, mend, into, as_json)
        return
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


def _mend(place: str, mend: str, into: str, as_json: bool) -> None:
    from eventide.engine.mending import mend as mended

    if not Path(place).is_file():
        raise Refused(f"--mend needs the pipeline's FILE, which says where letters come back; {place} is none.")
    change = names_in(mend).get("mend")
    if not callable(change):
        raise Refused(f"--mend {mend}: it has no function mend(letter).")
    with retrying():
        done = mended(load(place), change, into)
    if as_json:
        click.echo(json.dumps(asdict(done), indent=2))
        return
    said = [f"{done.mended:,} of {done.letters:,} dead letters mended, and on their way by {into!r}"]
    said += [f"{done.before:,} were mended before"] if done.before else []
    said += [f"{done.left:,} left as they are"] if done.left else []
    screen().print("; ".join(said), markup=False, soft_wrap=True)


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
