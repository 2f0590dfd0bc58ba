"""`eventide lateness`: how late a pipeline's events come, why, and who loses most: as it measured while it ran, or over its archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eventide.cli.faults import text_of
from eventide.cli.loading import load
from eventide.cli.spark import session_for
from eventide.cli.tables import indented, screen, table
from eventide.lateness.bias import bias
from eventide.lateness.measured import Lateness
from eventide.lateness.witness import HOUR
from eventide.model.time import show_instant
from eventide.readable.harmless import cell

MOST_VALUES = 20
LATE_AT = (
    "late at source: the event's time lay behind its own lane's watermark; late at window: that watermark had passed the end of its window. "
    "Neither is a reason to refuse: an output judges by W, the least of all lanes."
)


@click.command()
@click.argument("pipeline", type=click.Path(exists=True, dir_okay=False))
@click.option("--by", type=click.Choice(["lane", "hour"]), default="lane", show_default=True, help="The lines to show.")
@click.option("--archive", is_flag=True, help="Measure everything in the archive, instead of what the run measured of itself.")
@click.option("--column", "columns", multiple=True, help="With --archive: measure by this column too (may be repeated).")
@click.option(
    "--contract",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check the freshness and completeness that this data contract promises instead; exits with 1 if they are not kept.",
)
def lateness(pipeline: str, by: str, archive: bool, columns: tuple[str, ...], contract: Path | None) -> None:
    """Show what a PIPELINE has measured of its lateness: percentiles, late rows by cause, and bias by column."""
    if columns and not archive:
        raise click.UsageError(
            '--column goes with --archive; a run measures by the columns of Pipeline(…, measure=["region"]).'
        )
    console = screen()
    defined = load(pipeline)
    measured = defined.past_lateness(columns, spark=session_for(defined)) if archive else defined.lateness()
    if contract is not None:
        _check(measured, contract)
        return
    names = ("source", "lane") if by == "lane" else ("source", "hour")
    console.print(f"\n[bold]Arrival after event[/bold]   {measured.rows.get('in', 0):,} rows\n")
    console.print(indented(_spans(measured.by(*names), names)))
    shares = measured.shares
    console.print(
        f"\n  out of order {shares['out_of_order']:.2%}, late at source {shares['late_at_source']:.2%}, dead letters {shares['dead']:.2%}"
    )
    console.print(f"  {LATE_AT} Windows: {measured.window}.", style="dim", soft_wrap=True)
    _show_causes(console, measured)
    for column in columns if archive else defined.measure or ():
        _show_column(console, measured, column)
    console.print()


def _check(measured: Lateness, contract: Path) -> None:
    """Say of each promise whether it is kept, and end with 1 if one is not."""
    from eventide.lateness.promise import Promise
    from eventide.registry.contract import ContractRefused, read

    promised = read(text_of(contract)).get("slaProperties")
    if not isinstance(promised, list) or not all(isinstance(each, dict) for each in promised):
        raise ContractRefused(
            f"{contract} promises nothing: it has no list of slaProperties. `eventide registry contract export --tune` writes them."
        )
    promise = Promise.of(promised)
    found = promise.judged(measured)
    if not found:
        raise ContractRefused(f"{contract} promises neither freshness nor completeness, so there is nothing to check.")
    for kept, told in found:
        click.echo(f"{'kept' if kept else 'BROKEN':6}  {told}")
    for other in promise.others:
        click.echo(f"        {other}: not checked")
    if not all(kept for kept, _ in found):
        raise click.exceptions.Exit(1)


def _spans(lines: list[dict[str, Any]], names: tuple[str, ...]) -> Any:
    spans = table(*names, "rows", "p50", "p95", "p99", "p99.9", "max", "late at source", "late at window")
    for line in lines:
        shown = [_seconds(line[label]) for label in ("p50", "p95", "p99", "p999", "max")]
        shares = [f"{line[label]:.2%}" for label in ("late_at_source", "late_at_window")]
        spans.add_row(*(cell(_name(name, line[name])) for name in names), f"{line['rows']:,}", *shown, *shares)
    return spans


def _show_causes(console: Console, measured: Lateness) -> None:
    console.print("\n[bold]Late rows by cause[/bold]")
    for output in measured.outputs:
        causes = ", ".join(f"{cause} {number:,}" for cause, number in measured.causes(output).items())
        console.print(f"  {output}: {causes}")


def _show_column(console: Console, measured: Lateness, column: str) -> None:
    console.print(f"\n[bold]By {column}[/bold]\n")
    found = bias(measured.counts(column))
    spans = {line["value"]: line for line in measured.by("value", dimension=column)}
    values = table(column, "rows", "p50", "p99", "late at window", "interval", "others", "")
    for one in found[:MOST_VALUES]:
        values.add_row(
            cell(one.value), f"{one.rows:,}", _seconds(spans[one.value]["p50"]), _seconds(spans[one.value]["p99"]), f"{one.rate:.2%}",
            f"{one.low:.2%} – {one.high:.2%}", f"{one.base:.2%}", f"[red]loses {one.ratio:.1f}×[/red]" if one.flagged else "",
        )  # fmt: skip
    console.print(indented(values))
    if len(found) > MOST_VALUES:
        console.print(f"  and {len(found) - MOST_VALUES} more")


def _name(name: str, value: Any) -> str:
    return show_instant(value * HOUR) if name == "hour" else str(value)


def _seconds(span: float | None) -> str:
    return "–" if span is None else f"{span / 1_000_000:,.2f} s"
