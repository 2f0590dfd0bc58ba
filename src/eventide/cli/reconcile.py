"""`eventide reconcile`: close the books of an output, and say where every difference comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eventide.cli.faults import Refused, in_words, refuse_unwritable
from eventide.cli.loading import load
from eventide.cli.spark import session_for
from eventide.cli.tables import indented, screen, table
from eventide.model.time import instant, show_instant
from eventide.storage.address import is_local, local_path


@click.command()
@click.argument("pipeline", type=click.Path(exists=True, dir_okay=False))
@click.option("--output", help="The output to reconcile, if the pipeline has several (default: the first).")
@click.option(
    "--against",
    default="archive",
    show_default=True,
    help='"archive", "late" (diverted rows), or the path of an outside Parquet table.',
)
@click.option(
    "--identity", help="Columns that make a row the same in an outside table, as in txn_id; splits the gap row by row."
)
@click.option(
    "--by",
    default="window",
    show_default=True,
    type=click.Choice(["window", "minute", "hour", "day"]),
    help="One correction for each window, or sums for each longer span, in a table of their own.",
)
@click.option("--since", help="Only windows from this day on (ISO 8601 with zone).")
@click.option("--until", help="Only windows up to this day.")
@click.option("--json", "json_to", type=click.Path(), help="Write the report as JSON to this file.")
def reconcile(pipeline: str, json_to: str | None, **asked: Any) -> None:
    """Compare what the output of a PIPELINE emitted with everything that arrived; write corrections and the corrected view."""
    from eventide.reconcile import reconcile as close_books

    console = screen()
    defined = load(pipeline)
    against: Any = asked["against"]
    _check(against, json_to, asked)
    spark = session_for(defined)
    if against not in ("archive", "late"):
        against = _outside(spark, against)
    identity = [name.strip() for name in asked["identity"].split(",")] if asked["identity"] else ()
    found = close_books(
        defined, asked["output"], against=against, by=asked["by"], since=asked["since"], until=asked["until"],
        identity=identity, spark=spark,
    )  # fmt: skip
    show(console, found)
    if json_to:
        body = {"run_id": found.run_id, "corrected": found.corrected, "table": found.table, "view": found.view}
        Path(json_to).write_text(json.dumps({**body, **found.report.to_json()}, indent=2, default=str) + "\n")
    if not found.report.explained:
        raise click.ClickException("part of the gap is unexplained; see the line above.")


def _check(against: str, json_to: str | None, asked: dict[str, Any]) -> None:
    """What can be told before Spark is started."""
    if json_to:
        refuse_unwritable("--json", json_to)
    for option in ("since", "until"):
        if asked[option]:
            instant(asked[option])
    if against not in ("archive", "late") and is_local(against) and not Path(local_path(against)).exists():
        raise Refused(
            f'--against {against}: there is no such file or directory. It must be "archive", "late", or a Parquet table.'
        )


def _outside(spark: Any, path: str) -> Any:
    from pyspark.errors import AnalysisException

    try:
        return spark.read.parquet(path)
    except AnalysisException as error:
        raise Refused(f'--against {path}: {in_words(error)} It must be "archive", "late", or a Parquet table.') from error


def show(console: Console, found: Any) -> None:
    """Print the split of the gap and where the corrections stand."""
    report = found.report
    names = list(report.lines[0].values)
    console.print(f"\n[bold]{found.output}[/bold]: windows up to {show_instant(found.horizon)}\n")
    lines = table("", "rows", *names)
    for line in report.lines:
        lines.add_row(line.name, "–" if line.rows is None else f"{line.rows:,}", *(f"{line.values.get(n, 0):,}" for n in names))
    console.print(indented(lines))
    for note in report.notes:
        console.print(f"  {note}")
    if report.strange:
        console.print(f"  {report.strange:,} windows differ though no late row was theirs; see the corrections with rows = 0")
    sign = "[green]✓[/green] every difference is explained" if report.explained else "[red]✗ not all of it is explained[/red]"
    console.print(f"\n  {sign}")
    if found.table:
        view = f", read {found.view} for corrected results" if found.view else ""
        console.print(f"  {found.corrected:,} corrections in {found.table}{view} (run {found.run_id})\n")
