"""`eventide state FILE|STATE`: what a state keeps, which generation it is of, its lanes, and who holds it; asked to, it cleans or copies one."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.faults import Refused, retrying
from eventide.cli.loading import load
from eventide.cli.states import asked, at_work, headline, json_option, opened, place_argument
from eventide.cli.tables import indented, screen, table
from eventide.model.time import duration
from eventide.readable.harmless import cell, harmless
from eventide.readable.spans import rough, size, to_seconds

if TYPE_CHECKING:
    from eventide.state.state import State


@click.command()
@place_argument
@click.option(
    "--clean",
    metavar="SPAN",
    help="Remove panes, late rows, dead letters and events that batches wrote so long ago; needs FILE.",
)
@click.option("--dry-run", is_flag=True, help="With --clean: only say what would go.")
@click.option(
    "--copy", "to", metavar="DIRECTORY", help="Copy the state there, for another pipeline of the same name to go on with."
)
@json_option
def state(place: str, clean: str | None, dry_run: bool, to: str | None, as_json: bool) -> None:
    """Say what the state of a pipeline keeps, by its FILE, or by its STATE directory alone: sizes, generations, lanes, and who holds it.

    --clean and --copy are for a state that no run is at work on.
    """
    if clean is not None and to is not None:
        raise click.UsageError("--clean or --copy, one at a time.")
    if dry_run and clean is None:
        raise click.UsageError("--dry-run goes with --clean.")
    if clean is not None:
        _clean(place, clean, dry_run, as_json)
        return
    if to is not None:
        _copy(place, to, as_json)
        return
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


def _clean(place: str, span: str, dry_run: bool, as_json: bool) -> None:
    from eventide.engine.cleaning import clean

    older = duration(span, what="--clean")
    if not Path(place).is_file():
        raise Refused(
            f"--clean needs the pipeline's FILE, which says whose results are still to be taken back; {place} is none."
        )
    with retrying():
        done = clean(load(place), older, time.time_ns() // 1000, only_look=dry_run)
    if as_json:
        click.echo(json.dumps({**asdict(done), "removed": not dry_run}, indent=2))
        return
    what = f"{done.files:,} files, {size(done.bytes)}, of batches up to {done.upto}"
    click.echo("nothing is so old" if done.upto < 0 else f"{what}: {'these would go' if dry_run else 'removed'}")


def _copy(place: str, to: str, as_json: bool) -> None:
    from eventide.engine.cleaning import copy

    with retrying():
        path = opened(place).path
        taken = copy(path, to)
    if as_json:
        click.echo(json.dumps({"state": path, "copy": to, "bytes": taken}, indent=2))
        return
    click.echo(f"{size(taken)} copied to {to}")
    click.echo(
        "Give the pipeline that goes on with it sinks of its own: two that write the same results would overwrite each other.",
        err=True,
    )


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
    holder = facts["holder"]
    if holder is None:
        return "no run has held it"
    ago = rough(int(max(0.0, time.time() - holder["renewed"]) * 1_000_000))
    how = "held by" if holder["alive"] else "not held; last by"
    return f"{how} process {holder['pid']} on {holder['host']}, heard {ago} ago"
