"""`eventide state FILE|STATE`: what a state keeps, which generation it is of, its lanes, and who holds it. Read only."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.states import asked, at_work, headline, json_option, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.readable.harmless import cell, harmless
from eventide.readable.spans import rough, size, to_seconds

if TYPE_CHECKING:
    from eventide.state.state import State


@click.command()
@place_argument
@json_option
def state(place: str, as_json: bool) -> None:
    """Say what the state of a pipeline keeps, by its FILE, or by its STATE directory alone: sizes, generations, lanes, and who holds it."""
    asked_state, facts = asked(place, _facts)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    console = screen()
    holder = at_work(asked_state)
    console.print(f"\n{headline(asked_state, facts['clock'], holder)}\n", markup=False, style="bold", soft_wrap=True)
    lines = table("kept", "files", "rows", "bytes")
    for kept in facts["kept"]:
        rows = "" if kept["rows"] is None else f"{kept['rows']:,}"
        lines.add_row(cell(kept["kind"]), f"{kept['files']:,}", rows, size(kept["bytes"]))
    everything = [sum(kept[name] for kept in facts["kept"]) for name in ("files", "bytes")]
    lines.add_row("all", f"{everything[0]:,}", "", size(everything[1]))
    console.print(indented(lines))
    console.print()
    for line in _said(facts):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print()


def _facts(asked_state: State) -> dict[str, Any]:
    from eventide.state.footprint import footprint
    from eventide.state.generations import noted, states_aside
    from eventide.state.marks import read_marks

    marks, holder, backfilled = read_marks(asked_state), at_work(asked_state), noted(asked_state.files)
    return {
        "pipeline": asked_state.name,
        "state": asked_state.path,
        "batch": marks.batch,
        "clock": marks.clock,
        "finished": marks.finished,
        "generation": asked_state.generation,
        "aside": [{"generation": number, "state": path} for number, path in states_aside(asked_state.path)],
        "newest_backfill": None if backfilled < 0 else backfilled,
        "holder": None if holder is None else asdict(holder),
        "sources": [{"source": one.source, "lanes": one.lanes, "idle": one.idle} for one in marks.sources],
        "changes": (asked_state.definition or {}).get("changes", []),
        "kept": [asdict(kept) for kept in footprint(asked_state)],
    }


def _said(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"generation {facts['generation']} in {facts['state']}, last batch {facts['batch']} at {to_seconds(facts['clock'])}"
    ]
    lines += [f"set aside: generation {one['generation']} in {one['state']}" for one in facts["aside"]]
    if facts["newest_backfill"] is not None:
        lines.append(f"backfills have taken generations up to {facts['newest_backfill']}")
    for one in facts["sources"]:
        idle = f", {one['idle']:,} of them idle" if one["idle"] else ""
        lines.append(f"source {harmless(one['source'])}: {one['lanes']:,} lane{'' if one['lanes'] == 1 else 's'}{idle}")
    lines += [f"changed after batch {c['after_batch']}: {c['setting']} to {c['to']}" for c in facts["changes"]]
    return [*lines, _lease(facts)]


def _lease(facts: dict[str, Any]) -> str:
    import time

    holder = facts["holder"]
    if holder is None:
        return "no run has held it"
    ago = rough(int(max(0.0, time.time() - holder["renewed"]) * 1_000_000))
    how = "held by" if holder["alive"] else "not held; last by"
    return f"{how} process {holder['pid']} on {holder['host']}, heard {ago} ago"
