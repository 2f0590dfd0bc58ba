"""`eventide verify FILE`: whether the answers hang on how the stream was cut, and whether state and sinks hold them. Nothing of theirs is written."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eventide import __version__
from eventide.cli.faults import Refused, refuse_unwritable, retrying
from eventide.cli.kept import as_plain
from eventide.cli.loading import load
from eventide.cli.tables import indented, screen, table
from eventide.readable.harmless import cell, harmless

if TYPE_CHECKING:
    from rich.console import Console

    from eventide.engine.verify import Certificate
    from eventide.pipeline import Pipeline


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--cuts", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many ways the archive is cut by chance."
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="By which they are drawn: the same seed, the same cuts.",
)
@click.option(
    "--report", type=click.Path(dir_okay=False), help="Write the certificate into this file, as JSON; it must not be there yet."
)
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def verify(file: str, cuts: int, seed: int, report: str | None, as_json: bool) -> None:
    """Run the archive of the pipeline in FILE in one batch and in random cuts, and compare all that they give with what stands.

    Compared are results, verdicts and late rows of the cuts with each other, then results with what the state said and with sinks that can be asked.

    Exit code 0: all the same. 1: the first difference is told. 2: it cannot be verified, with what would be needed.
    """
    if report is not None:
        refuse_unwritable("--report", report)
        if Path(report).exists():
            raise Refused(f"--report {report}: it is there already, and is not replaced. Name another file, or remove it.")
    with retrying():
        pipeline = load(file)
        from eventide.engine.verify import verify as verified

        found = verified(pipeline, cuts, seed, lambda text: click.echo(f"{text} …", err=True))
    facts = _facts(pipeline, found, seed)
    if report is not None:
        with Path(report).open("x") as written:
            written.write(json.dumps(facts, indent=2, default=as_plain) + "\n")
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=as_plain))
    else:
        _show(screen(), pipeline, found)
    if found.difference is not None:
        raise click.exceptions.Exit(1)


def _facts(pipeline: Pipeline, found: Certificate, seed: int) -> dict[str, Any]:
    from eventide.state.state import State

    state = State.of(pipeline)
    return {
        "pipeline": pipeline.name,
        "ok": found.difference is None,
        "state": state.path,
        "generation": state.generation,
        "batch": state.ledger.batch,
        "archive": pipeline.archive,
        "seed": seed,
        "eventide": __version__,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **asdict(found),
    }


def _show(console: Console, pipeline: Pipeline, found: Certificate) -> None:
    console.print(
        f"\n{harmless(pipeline.name)}   {found.rows:,} archived rows, {len(found.cuts)} cuts\n", markup=False, style="bold"
    )
    lines = table("output", "compared with", "results")
    for done in found.compared:
        lines.add_row(cell(done["output"]), cell(done["with"]), f"{done['results']:,}")
    if found.compared:
        console.print(indented(lines))
    for text in found.left_out:
        console.print(f"  not compared: {harmless(text, 300)}", markup=False, soft_wrap=True, style="dim")
    if found.difference is None:
        console.print(f"\nok: the same everywhere; digest of the results {found.digest[:16]}\n", style="green")
        return
    one = found.difference
    where = harmless(one.window_id, 200)
    what = f"{harmless(one.column)} is" if one.column else "there is"
    console.print(
        f"\ndifferent: output {harmless(one.output)}{', window ' + where if where else ''}",
        markup=False,
        soft_wrap=True,
        style="red",
    )
    for side, value in zip(one.sides, one.values, strict=True):
        console.print(f"  by {harmless(side)}: {what} {harmless(str(value), 200)}", markup=False, soft_wrap=True)
    console.print()
