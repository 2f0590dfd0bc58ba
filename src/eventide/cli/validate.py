"""`eventide validate FILE`: what a pipeline file defines, and whether a run of it would be let near its state. Nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from eventide.cli.faults import retrying
from eventide.cli.loading import load, relative_to
from eventide.cli.tables import screen

if TYPE_CHECKING:
    from eventide.engine.trial import Trial
    from eventide.pipeline import Pipeline

LATER = "the types of columns are compared when it starts: without Spark only Parquet files without schema= say theirs"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def validate(file: str, as_json: bool) -> None:
    """Say what FILE defines, and what has changed against its state; starts no Spark, and writes nothing.

    Exit code 0: a run would begin. 1: its state would refuse it. 2: the file or the definition is wrong. 3: the state's place does not answer now.
    """
    with retrying():
        pipeline = load(file)
        from eventide.engine.trial import tried

        trial = tried(pipeline)
    if as_json:
        click.echo(json.dumps(_facts(pipeline, trial), indent=2))
    else:
        _show(screen(), pipeline, trial, relative_to(pipeline, file))
    if trial.refused is not None:
        raise click.exceptions.Exit(1)


def _facts(pipeline: Pipeline, trial: Trial) -> dict[str, Any]:
    from eventide.engine.settings import settings_of, signature_of

    return {
        "pipeline": pipeline.name,
        "ok": trial.refused is None,
        "settings": settings_of(pipeline),
        "outputs": {output.name: signature_of(output.aggregation) for output in pipeline.outputs},
        "state": pipeline.state,
        "batch": trial.batch,
        "generation": trial.generation,
        "columns_compared": trial.columns,
        "changes": list(trial.changes),
        "new_outputs": list(trial.new),
        "leaving_outputs": list(trial.leaving),
        "refused": trial.refused,
    }


def _show(console: Console, pipeline: Pipeline, trial: Trial, relative: str | None) -> None:
    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, soft_wrap=True)

    say(pipeline.explain())
    say(f"  keeps its state in {pipeline.state}" if pipeline.state else "  keeps no state: to run it, give it state=…")
    if relative is not None:
        say(f"  {relative}", style="dim")
    if not trial.columns:
        say(f"  {LATER}", style="dim")
    if trial.refused is not None:
        say(f"\nrefused: {trial.refused}", style="red")
        return
    for change in trial.changes:
        say("\nchanged: {setting} is now {to} and was {from}: {why}.".format(**change))
    for name in trial.new:
        say(f"\nchanged: the output {name!r} is new: it begins with the next batch.")
    for name in trial.leaving:
        say(f"\nchanged: the output {name!r} leaves, and does not come back under its name.")
    say(f"\n{_verdict(trial)}", style="green")


def _verdict(trial: Trial) -> str:
    if trial.batch is None:
        return "ok: there is no state yet, and a run would begin"
    changed = "a run would go on so" if trial.changes or trial.new or trial.leaving else "nothing has changed"
    stands = f"stands after batch {trial.batch}" if trial.batch >= 0 else "has committed nothing yet"
    return f"ok: the state of generation {trial.generation} {stands}, and {changed}"
