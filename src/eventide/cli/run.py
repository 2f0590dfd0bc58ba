"""`eventide run FILE`: a pipeline file at work, with one live line for each source."""

from __future__ import annotations

import os
import runpy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from eventide.errors import EventideError
from eventide.model.time import show_instant

if TYPE_CHECKING:
    from eventide.engine.progress import Progress
    from eventide.pipeline import Pipeline


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--until-caught-up", is_flag=True, help="Stop when everything that is there now has been read.")
@click.option(
    "--start-over", is_flag=True, help="Set the state aside and begin the next generation; its results replace the old ones."
)
@click.option("--interval", default="1 second", show_default=True, help="How often a batch starts.")
@click.option("--master", default=None, help="Where Spark runs, such as spark://host:7077; by default on this machine.")
def run(file: str, until_caught_up: bool, start_over: bool, interval: str, master: str | None) -> None:
    """Run the pipeline that FILE defines (a Python file with one Pipeline)."""
    console = Console(highlight=False)
    try:
        pipeline = load(file)
        if start_over:
            pipeline = next_generation(pipeline, console)
        console.print(pipeline.explain(), style="dim")
        watch(pipeline, console, until_caught_up=until_caught_up, interval=interval, master=master)
    except EventideError as error:
        raise click.ClickException(str(error)) from error


def load(file: str) -> Pipeline:
    """The one pipeline that a file defines; of several, the one called `pipeline`."""
    from eventide.pipeline import Pipeline

    names = runpy.run_path(file, run_name="__pipeline__")
    found = {name: value for name, value in names.items() if isinstance(value, Pipeline)}
    if not found:
        raise click.ClickException(f"{file} defines no Pipeline. End it with: pipeline = ev.Pipeline(…)")
    if len(found) > 1 and "pipeline" not in found:
        raise click.ClickException(f"{file} defines {', '.join(sorted(found))}; call the one to run `pipeline`.")
    return found.get("pipeline") or next(iter(found.values()))


def next_generation(pipeline: Pipeline, console: Console) -> Pipeline:
    """Set a state directory aside and give the pipeline the generation after it."""
    from eventide.engine.restart import start_over

    fresh, aside = start_over(pipeline)
    if aside is not None:
        console.print(f"the state of generation {fresh.generation - 1} stands aside in {aside}", style="dim")
    return fresh


def watch(pipeline: Pipeline, console: Console, *, until_caught_up: bool, interval: str, master: str | None = None) -> None:
    """Run a pipeline and keep its lines up to date until it ends or is interrupted."""
    from eventide.engine.handle import Handle
    from eventide.engine.session import local_session

    with quiet_start(f"{pipeline.state}.spark.log"):
        spark = local_session(pipeline.packages(), name=pipeline.name, master=master)
    board = Board(pipeline)
    with Live(board.text(), console=console, refresh_per_second=4, transient=False) as live:

        def show(progress: Progress) -> None:
            board.take(progress)
            live.update(board.text())

        handle = Handle.start(pipeline, spark, available_now=until_caught_up, interval=interval, on_progress=show)
        try:
            handle.wait()
        except KeyboardInterrupt:
            handle.stop()
    console.print(where_rows_went(handle))


@contextmanager
def quiet_start(log: str) -> Iterator[None]:
    """What Spark's JVM has to say goes to a file beside the state; what matters reaches Python as an error."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    ours = os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


class Board:
    """The lines of a run: one for each source, one for each output."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.progress: Progress | None = None
        self.since = time.monotonic()
        self.rates: dict[str, float] = {}

    def take(self, progress: Progress) -> None:
        """The account of the next batch."""
        before = {source.name: source.rows for source in self.progress.sources} if self.progress else {}
        now = time.monotonic()
        passed = max(now - self.since, 1e-9)
        self.rates = {source.name: (source.rows - before.get(source.name, 0)) / passed for source in progress.sources}
        self.progress, self.since = progress, now

    def text(self) -> Text:
        """As it stands, one line for each source."""
        if self.progress is None:
            return Text("starting Spark …", style="dim")
        return Text("\n".join(self._line(source) for source in self.progress.sources), overflow="ellipsis", no_wrap=True)

    def _line(self, source: Any) -> str:
        progress = self.progress
        assert progress is not None
        parts = [source.name, f"watermark {_clock(source.watermark)}"]
        parts += [] if source.watermark is None else [f"lag {_rough(max(0, progress.clock - source.watermark))}"]
        parts += [] if source.holder is None else [f"holder {source.holder}"]
        return "  ".join([*parts, f"{self.rates[source.name]:,.0f} rows/s", f"late {source.late / max(1, source.rows):.1%}"])


def _rough(span: int) -> str:
    """A span in its largest unit: nobody reads the rest of it while it moves."""
    for unit, name in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")):
        if span >= unit:
            return f"{span / unit:.0f} {name}"
    return f"{span / 1_000_000:.0f} s"


def _clock(mark: int | None) -> str:
    return show_instant(mark).removesuffix("Z").partition(".")[0].partition("T")[2] or show_instant(mark)


PLACES = (("on time", "rows_on_time"), ("admitted late", "rows_admitted"))
REST = (("dead", "dead"), ("duplicates", "duplicates"), ("markers", "markers"))


def where_rows_went(handle: Any) -> str:
    """The closing lines: every row in exactly one place, for each output."""
    rows, outputs = handle.rows, {o.name: o for o in handle.run.pipeline.outputs}
    came = rows.get("in", 0)
    waiting = rows.get("kept", 0) - rows.get("judged", 0) - rows.get("duplicates", 0)
    lines = [f"\n[bold]Where every row went[/bold]   {came:,} in"]
    for name, counts in handle.outputs.items():
        lost = "dropped" if outputs[name].late.refused is None else "diverted"
        parts = [(counts.get(key, 0), label) for label, key in PLACES] + [(counts.get("rows_refused", 0), lost)]
        parts += [(rows.get(key, 0), label) for label, key in REST] + [(waiting, "waiting")]
        sign = "[green]✓[/green]" if sum(number for number, _ in parts) == came else "[red]✗[/red]"
        lines.append(f"  {name:<10} " + " + ".join(f"{n:,} {label}" for n, label in parts if n) + f"  {sign}")
    return "\n".join(lines)
