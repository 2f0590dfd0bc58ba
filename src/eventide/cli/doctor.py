"""`eventide doctor [FILE]`: whether Spark, and a pipeline, could run here. Nothing is started and nothing written where a pipeline keeps things."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from eventide.cli.faults import retrying
from eventide.cli.loading import load
from eventide.cli.tables import screen
from eventide.readable.harmless import harmless

SIGNS = {"ok": ("✓", "green"), "note": ("–", "yellow"), "bad": ("✗", "red")}


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def doctor(file: str | None, as_json: bool) -> None:
    """Look at what a run needs here: Python, Spark, Java, ports, room, the clock; with FILE its connectors, its places and its sources too.

    Exit code 0: it could run. 1: something is wrong, with what to do.
    """
    with retrying():
        pipeline = None if file is None else load(file)
        from eventide.engine.ability import BAD, findings

        found = []
        for one in findings(pipeline):
            found.append(one)
            if not as_json:
                sign, style = SIGNS[one.level]
                screen().print(
                    f"  {sign} {harmless(one.what):<20} {harmless(one.said, 400)}", style=style, markup=False, soft_wrap=True
                )
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    if any(one.level == BAD for one in found):
        raise click.exceptions.Exit(1)
