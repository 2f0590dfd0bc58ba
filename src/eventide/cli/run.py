"""`eventide run FILE`: a pipeline file at work, with one live line for each source."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from eventide.cli.closing import committed, where_rows_went
from eventide.cli.faults import Refused, Stopped, in_words, telling
from eventide.cli.following import NOBODY, Heard
from eventide.cli.loading import load, relative_to
from eventide.cli.signals import Interrupted, Signals
from eventide.cli.spark import session_for, settings, spark_log
from eventide.errors import EventideError
from eventide.model.time import duration

if TYPE_CHECKING:
    from eventide.engine.handle import Handle
    from eventide.pipeline import Pipeline

LOOK_EVERY = 0.2
"""Seconds between two looks at whether a signal came."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--until-caught-up", is_flag=True, help="Stop when everything that is there now has been read.")
@click.option(
    "--drain",
    is_flag=True,
    help="With --until-caught-up: the input ends there; close every window. The state is finished then.",
)
@click.option(
    "--start-over", is_flag=True, help="Set the state aside and begin the next generation; its results replace the old ones."
)
@click.option("--interval", default="1 second", show_default=True, help="How often a batch starts.")
@click.option("--master", default=None, help="Where Spark runs, such as spark://host:7077; by default on this machine.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's (may be repeated); it wins over ours.")
@click.option("--jars", default="", metavar="PATH,PATH", help="Connector jars that are here already and need not be fetched.")
@click.option(
    "--metrics", metavar="PORT", type=click.IntRange(0, 65535), help="Serve /metrics for Prometheus on this port of 127.0.0.1."
)
@click.option(
    "--otel", is_flag=True, help="Send spans and metrics by OTLP, to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names."
)
@click.option("--openlineage", metavar="URL", help="Send lineage events to this server, such as http://localhost:5000.")
def run(
    file: str,
    until_caught_up: bool,
    drain: bool,
    start_over: bool,
    interval: str,
    master: str | None,
    conf: tuple[str, ...],
    jars: str,
    metrics: int | None,
    otel: bool,
    openlineage: str | None,
) -> None:
    """Run the pipeline that FILE defines (a Python file with one Pipeline).

    Ctrl-C ends it after the batch at work, with exit code 130, SIGTERM likewise with 0. Exit code 2: it did not begin;
    1: it failed, or a row is not accounted for.
    """
    if drain and not until_caught_up:
        raise click.UsageError("--drain goes with --until-caught-up: without it the input does not end.")
    duration(interval, what="--interval", zero=True)
    console = Console(highlight=False)
    session = {"master": master, "conf": settings(conf), "jars": [jar for jar in jars.split(",") if jar]}

    def prepare() -> Pipeline:
        pipeline = load(file)
        if start_over:
            pipeline = next_generation(pipeline, console)
        console.print(pipeline.explain(), style="dim", soft_wrap=True)
        said = relative_to(pipeline, file)
        if said is not None:
            console.print(f"  {said}", style="dim", soft_wrap=True)
        return pipeline

    how = Heard(metrics, otel, openlineage)
    watch(prepare, console, until_caught_up=until_caught_up, drain=drain, interval=interval, session=session, heard=how)


def next_generation(pipeline: Pipeline, console: Console) -> Pipeline:
    """Set a state directory aside and give the pipeline the generation after it."""
    from eventide.engine.restart import start_over

    fresh, aside = start_over(pipeline)
    if aside is not None:
        console.print(f"the state of generation {fresh.generation - 1} stands aside in {aside}", style="dim")
    return fresh


def watch(
    prepare: Callable[[], Pipeline],
    console: Console,
    *,
    until_caught_up: bool,
    drain: bool = False,
    interval: str = "1 second",
    session: dict[str, Any] | None = None,
    heard: Heard = NOBODY,
) -> None:
    """Run a pipeline, keep its lines up to date, and say at the end where every row went: however it ends, from the first moment on."""
    with Signals() as signals:
        watched = Watched(console, signals, until_caught_up, drain, interval, session or {}, heard)
        try:
            watched.run(prepare)
        except (Interrupted, KeyboardInterrupt):
            watched.close()
            leave(signals.exit_code)
        except Stopped:
            watched.close()
            raise
        if signals.came is not None:
            watched.close()
            raise click.exceptions.Exit(signals.exit_code)
        if not watched.close():
            raise Stopped("not every row is accounted for; see the line with ✗ above.")


class Watched:
    """One run on the screen."""

    def __init__(
        self,
        console: Console,
        signals: Signals,
        until_caught_up: bool,
        drain: bool,
        interval: str,
        session: dict[str, Any],
        heard: Heard = NOBODY,
    ) -> None:
        self.console, self.signals, self.session, self.heard = console, signals, session, heard
        self.how: dict[str, Any] = {"available_now": until_caught_up, "drain": drain, "interval": interval}
        self.pipeline: Pipeline | None = None
        self.handle: Handle | None = None

    def run(self, prepare: Callable[[], Pipeline]) -> None:
        """From the definition to the end of the query."""
        with telling():
            self.pipeline = pipeline = prepare()
            self.heard.refuse()
            if self.console.is_terminal:
                self.console.print("starting Spark …", style="dim")
            # The engine is imported while the JVM starts.
            threading.Thread(target=import_module, args=("eventide.engine.handle",), daemon=True).start()
            spark = session_for(pipeline, record=True, **self.session)
            from eventide.engine.board import Board
            from eventide.engine.handle import Handle
            from eventide.engine.screen import on_screen

            self.signals.take()
        with self.heard.opened(pipeline, self.console) as follow, on_screen(self.console, Board()) as show:
            try:
                self.handle = Handle.start(pipeline, spark, on_progress=show, follow=follow, **self.how)
                self._wait(self.handle)
            except Exception as error:
                self._fail(error)

    def _wait(self, handle: Handle) -> None:
        self.signals.at_work = True
        while not handle.wait(LOOK_EVERY):
            if self.signals.came is not None:
                self.console.print("stopping after the batch at work; a second signal leaves it to the next run", style="dim")
                handle.stop()
                return

    def _fail(self, error: Exception) -> None:
        """Told in a paragraph; the traceback goes to the log for whoever looks for it. A JVM that the signal reached too is no failure."""
        from eventide.engine.spark_session import SparkGone

        if isinstance(error, SparkGone) and self.signals.came is not None:
            return
        with open(spark_log(self.pipeline), "a") as log:
            log.write("".join(traceback.format_exception(error)))
        raise (Refused if self.handle is None else Stopped)(in_words(error)) from error

    def close(self) -> bool:
        """Print where every row went, by what is committed; says whether it all adds up."""
        if self.pipeline is None:
            self.console.print("\nstopped before the pipeline was read; nothing was done")
            return True
        try:
            ledger = self.handle.run.ledger if self.handle is not None else committed(self.pipeline)
        except EventideError as error:
            self.console.print(
                f"\nstopped before the state was opened; this run read no row. Where earlier ones went cannot be told: {error}",
                markup=False, soft_wrap=True,
            )  # fmt: skip
            return True
        text, sound = where_rows_went(self.pipeline, ledger)
        self.console.print(text, soft_wrap=True)
        return sound


def leave(code: int) -> None:
    """End at once: a batch that is at work in another thread is left as it is, for the next run to do again."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
