"""`eventide tune`: what bound, allowed lateness and idle_after history recommends, and what each would cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eventide.cli.faults import refuse_unwritable
from eventide.cli.loading import load
from eventide.cli.spark import session_for
from eventide.cli.tables import indented, screen, table
from eventide.model.time import duration, show_duration
from eventide.model.watermark import bounded
from eventide.model.window import sliding, tumbling
from eventide.readable.harmless import cell
from eventide.sources.files import files
from eventide.tuning.plot import check_plot, write_plot
from eventide.tuning.recommendation import Point, Tuning
from eventide.tuning.report import as_json
from eventide.tuning.tune import check_targets
from eventide.tuning.tune import tune as ask_history


@click.command()
@click.argument("pipeline", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--history", type=click.Path(exists=True), help="A directory of events, instead of a pipeline.")
@click.option(
    "--event-time", default="event_time", show_default=True, help="With --history: the column that says when it happened."
)
@click.option("--arrival", help="With --history: the column that says when it arrived (default: the file's modification time).")
@click.option("--lane", default="source", show_default=True, help='With --history: "source", "directory" or "column:NAME".')
@click.option("--format", "form", default="parquet", show_default=True, help="With --history: parquet, json, csv or avro.")
@click.option("--schema", help="With --history: the columns as Spark DDL, where the files do not say them.")
@click.option("--time-unit", default="us", show_default=True, help="With --history: the unit of times that are whole numbers.")
@click.option(
    "--window", help='The windows, if not the pipeline\'s own: "1 minute", or "1 minute / 5 seconds" for sliding ones.'
)
@click.option("--output", help="The output whose windows are asked for, where a pipeline has several (default: the first).")
@click.option("--on-time", default=0.99, show_default=True, help="The share of rows that must be in the first result.")
@click.option("--in-the-end", default=0.999, show_default=True, help="The share of rows that must be in the last result.")
@click.option("--bounds", help='Bounds to show, as in "0 s, 5 s, 1 min".')
@click.option("--allowed", help="Allowed latenesses to show.")
@click.option("--budget", help="The longest emit latency that is acceptable; shows the bound that keeps it.")
@click.option("--resolution", help="How finely the curve is computed; it is exact for multiples of this.")
@click.option("--json", "json_to", help='Write everything as JSON to this file ("-": print it and nothing else).')
@click.option("--plot", help="Draw the curve into this file (.svg, .png or .html; needs eventide[plot]).")
def tune(pipeline: str | None, json_to: str | None, plot: str | None, **asked: Any) -> None:
    """Measure the latency/completeness curve of a PIPELINE's history (or of --history) in one Spark job."""
    if (pipeline is None) == (asked["history"] is None):
        raise click.UsageError("give either the file of a pipeline, or --history with a directory of events.")
    bounds, allowed = _spans(asked["bounds"]), _spans(asked["allowed"])
    budget = duration(asked["budget"], what="--budget") if asked["budget"] else None
    check_targets(asked["on_time"], asked["in_the_end"])
    if asked["resolution"]:
        duration(asked["resolution"], what="--resolution")
    if plot:
        check_plot(plot)
        refuse_unwritable("--plot", plot)
    if json_to and json_to != "-":
        refuse_unwritable("--json", json_to)
    window = _window(asked["window"])
    if not pipeline and window is None:
        raise click.UsageError('--history needs --window, as in --window "1 minute".')
    defined = load(pipeline) if pipeline else None
    tuning = ask_history(
        defined or _source(asked), window, spark=session_for(defined), on_time=asked["on_time"], in_the_end=asked["in_the_end"],
        resolution=asked["resolution"], output=asked["output"], bounds=[show_duration(span) for span in (*bounds, *allowed) if span],
    )  # fmt: skip
    if plot:
        write_plot(tuning, plot)
    if json_to:
        text = json.dumps(as_json(tuning, bounds, allowed), indent=2)
        if json_to == "-":
            click.echo(text)
            return
        Path(json_to).write_text(text + "\n")
    show(tuning, bounds, allowed, budget)


def _source(asked: dict[str, Any]) -> Any:
    return files(
        "history", asked["history"], event_time=asked["event_time"], arrival=asked["arrival"], lane=asked["lane"],
        format=asked["form"], schema=asked["schema"], time_unit=asked["time_unit"], watermark=bounded("0 s"),
    )  # fmt: skip


def _window(text: str | None) -> Any:
    if text is None:
        return None
    size, _, slide = (part.strip() for part in text.partition("/"))
    return sliding(size, slide) if slide else tumbling(size)


def _spans(text: str | None) -> list[int]:
    return [duration(part.strip(), what="a bound", zero=True) for part in text.split(",")] if text else []


def show(tuning: Tuning, bounds: list[int], allowed: list[int], budget: int | None) -> None:
    """Print the curve, the lanes and the recommendation."""
    console = screen()
    rows, lanes = sum(fact.rows for fact in tuning.answer.facts.values()), len(tuning.answer.facts)
    whose = "" if tuning.output is None else f" of output {tuning.output}"
    console.print(
        f"\n[bold]What waiting buys[/bold]\n  {rows:,} rows, {lanes} {'lane' if lanes == 1 else 'lanes'}, {tuning.answer.question.window}{whose}\n"
    )
    curve = table("behind by", "on time", "too late", "complete", "results after", "by the clock")
    for bound in bounds or tuning.usual_bounds():
        point = tuning.point(bound)
        curve.add_row(
            show_duration(bound), f"{point.on_time:,}", f"{point.refused:,}", f"{point.completeness:.2%}", *_latencies(point)
        )
    console.print(indented(curve))
    console.print(f"\n[bold]What admitting late rows buys[/bold]\n  watermark {show_duration(tuning.bound)} behind\n")
    late = table("allowed", "on time", "admitted", "refused", "complete", "state", "re-emissions")
    for span in allowed or tuning.usual_allowances():
        point = tuning.point(tuning.bound, span)
        late.add_row(
            show_duration(span), f"{point.on_time:,}", f"{point.admitted:,}", f"{point.refused:,}", f"{point.completeness:.2%}",
            f"{point.state:.2f}×", f"≤ {point.re_emissions:,}",
        )  # fmt: skip
    console.print(indented(late))
    _show_lanes(console, tuning)
    _show_choice(console, tuning, budget)


def _show_lanes(console: Console, tuning: Tuning) -> None:
    console.print(f"\n[bold]Who is late[/bold]\n  at {show_duration(tuning.bound)}\n")
    lanes = table("lane", "rows", "late", "of all", "holds W", "p50", "p99", "p99.9", "max", "bound if mended")
    for report in tuning.lanes()[:20]:
        spans = [_seconds(report.quantiles[i]) for i in (0, 2, 3, 4)] if report.quantiles else ["–"] * 4
        lanes.add_row(
            cell(f"{tuning.names[report.lane[0]]} {report.lane[1]}"), f"{report.rows:,}", f"{report.late:,}", f"{report.late_share:.1%}",
            f"{report.holds:.0%}", *spans, show_duration(report.bound_without),
        )  # fmt: skip
    console.print(indented(lanes))
    for cause, number in tuning.causes(tuning.bound).items():
        if number:
            console.print(f"  late, {cause}: {number:,}")
    holder = tuning.answer.holder
    if holder is not None and len(tuning.answer.facts) > 1:
        spared = tuning.latency_without_holder(tuning.bound)
        console.print(
            f"  lane {holder[1]} holds W most often; without it results would come after {_seconds(spared)} "
            f"instead of {_seconds(tuning.point(tuning.bound).emit_latency)}"
        )
    for name, idle in tuning.idle():
        used = "no idle_after" if idle.idle_after is None else f"idle_after {show_duration(idle.idle_after)}"
        console.print(
            f"  {name}: {used}; the longest silence of a lane was {_seconds(idle.longest)}"
            + (f", and {idle.fallen:,} silences let a lane fall idle" if idle.fallen else "")
        )


def _show_choice(console: Console, tuning: Tuning, budget: int | None) -> None:
    chosen = tuning.point(tuning.bound, tuning.allowed)
    console.print(
        f"\n[bold]Recommended[/bold]\n  {chosen.on_time / max(1, chosen.rows):.2%} on time (asked: {tuning.targets[0]:.2%}), "
        f"{chosen.completeness:.2%} in the end (asked: {tuning.targets[1]:.2%}), first results after {_seconds(chosen.emit_latency)}, "
        f"{chosen.state:.2f}× the state, at most {chosen.re_emissions:,} corrections"
    )
    if budget is not None:
        best = tuning.largest_within(budget)
        text = (
            "no bound keeps it" if best is None else f"{show_duration(best.bound)}, which has {best.completeness:.2%} in time"
        )
        console.print(f"  with results within {show_duration(budget)}: {text}")
    console.print("\n  paste into the pipeline:")
    for line in tuning.lines():
        console.print(f"    {line}", markup=False, soft_wrap=True)
    console.print()


def _latencies(point: Point) -> tuple[str, str]:
    return (_seconds(point.emit_latency), _seconds(point.wait)) if point.windows else ("–", "–")


def _seconds(span: float) -> str:
    return f"{span / 1_000_000:,.2f} s"
