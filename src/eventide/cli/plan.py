"""`eventide plan FILE`: what the changed definition in a file would do: what is free, what needs a new generation, and which results would change."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.faults import Refused, retrying
from eventide.cli.kept import as_plain
from eventide.cli.loading import load
from eventide.cli.tables import screen
from eventide.readable.harmless import harmless

if TYPE_CHECKING:
    from eventide.engine.planned import Changed, Planned
    from eventide.pipeline import Pipeline

START_OVER = "eventide run FILE --start-over"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--results", is_flag=True, help="Run the archive through it, and show which results would be other ones.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(0), help="With --results: show so many of them.")
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def plan(file: str, results: bool, limit: int, as_json: bool) -> None:
    """Say what a run of FILE would change against its state, setting by setting; nothing is written, and no Spark started.

    Exit code 0: the state can be gone on from. 1: it needs a new generation, or is finished or at another batch. 2: the file is wrong.
    """
    with retrying():
        pipeline = load(file)
        if pipeline.state is None:
            raise Refused(
                f"pipeline {pipeline.name!r} keeps no state, so there is nothing that it could change. Give it one with state=…."
            )
        from eventide.engine.planned import changed_results, planned

        found, changed = planned(pipeline), None
        if results and found.trial.batch is not None:
            click.echo("running the archive through it …", err=True)
            changed = changed_results(pipeline)
    if as_json:
        click.echo(json.dumps(_facts(pipeline, found, changed, limit), indent=2, default=as_plain))
    else:
        for line in _lines(pipeline, found):
            screen().print(line, markup=False, soft_wrap=True)
        for line in [] if changed is None else _changed(changed, limit):
            screen().print(line, markup=False, soft_wrap=True)
    if found.trial.refused is not None:
        raise click.exceptions.Exit(1)


def _facts(pipeline: Pipeline, found: Planned, changed: Changed | None, limit: int) -> dict[str, Any]:
    trial = found.trial
    facts: dict[str, Any] = {
        "pipeline": pipeline.name, "state": pipeline.state, "batch": trial.batch, "generation": trial.generation,
        "free": list(trial.changes), "new_generation": list(trial.obstacles), "refused": trial.refused,
        "new_outputs": list(trial.new), "leaving_outputs": list(trial.leaving), "columns_compared": trial.columns,
        "windows": {"open": found.open, "retained": found.retained}, "waiting": found.waiting, "results_given": found.results,
    }  # fmt: skip
    if changed is not None:
        shown = {**asdict(changed), "differences": [asdict(one) for one in changed.differences[:limit]]}
        facts["results"] = {**shown, "different": len(changed.differences)}
    return facts


def _lines(pipeline: Pipeline, found: Planned) -> list[str]:
    trial = found.trial
    if trial.batch is None and trial.refused is None:
        return [f"\n{pipeline.name}: there is no state yet in {pipeline.state}; everything is new.\n"]
    lines = [
        f"\n{pipeline.name}, against the state of generation {trial.generation} after batch {trial.batch} in {pipeline.state}\n"
    ]
    lines += [f"  free            {c['setting']}: {c['from']} → {c['to']}\n                  {c['why']}" for c in trial.changes]
    lines += [
        f"  free            the output {harmless(name)} is new: it begins with the next batch"
        for name in trial.new
        if not trial.obstacles
    ]
    lines += [
        f"  loses           the output {harmless(name)} leaves, and does not come back under its name" for name in trial.leaving
    ]
    lines += [f"  new generation  {harmless(text, 600)}" for text in trial.obstacles]
    if trial.refused is not None and not trial.obstacles:
        return [*lines, f"  refused         {harmless(trial.refused, 800)}\n"]
    if not trial.columns:
        lines.append("  not compared    the types of columns: without Spark only Parquet files without schema= say theirs")
    kept = f"{found.open:,} open and {found.retained:,} retained windows, {found.waiting:,} rows that wait"
    if trial.obstacles:
        return [
            *lines,
            f"\n  {kept}: a new generation reads its sources from their beginning and computes them anew, beside the {found.results:,} results",
            "  given so far, which stay until it has caught up and are then replaced. What the sources hold no more is not in it.",
            f"  To do it: {START_OVER}\n",
        ]
    changed = trial.changes or trial.new or trial.leaving
    return [*lines, f"\n  {kept}: " + ("kept; the next run goes on so.\n" if changed else "nothing has changed.\n")]


def _changed(changed: Changed, limit: int) -> list[str]:
    lines = [f"  by the archive  {len(changed.differences):,} of {changed.compared:,} final results would be other ones"]
    lines += [
        f"                  {harmless(name)}: all of them, it has other columns, keys or windows" for name in changed.reshaped
    ]
    for one in changed.differences[:limit]:
        column = f"{harmless(one.column)} " if one.column else ""
        was, now = ("none" if value is None else harmless(str(value), 60) for value in one.values)
        lines.append(f"    {harmless(one.output)} {harmless(one.window_id, 80)}: {column}{was} → {now}")
    if len(changed.differences) > limit:
        lines.append(f"    and {len(changed.differences) - limit:,} more; --limit {len(changed.differences)} shows them all")
    for name, (so_far, of_all) in changed.refused.items():
        lines.append(f"  refused rows    {harmless(name)}: {so_far:,} so far, {of_all:,} of all archived rows")
    return [*lines, ""]
