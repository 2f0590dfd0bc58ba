"""How a run is doing: lines that stay in their place in a terminal, and plain lines one after the other where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from eventide.cli.harmless import harmless
from eventide.cli.spans import rough
from eventide.model.time import show_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventide.engine.report import BatchReport, SourceProgress

PLAIN_EVERY = 1.0
"""Seconds between two reports where each report is a new line."""


@contextmanager
def shown(console: Console, board: Board) -> Iterator[Callable[[BatchReport], None]]:
    """Show a board while a run is at work; gives what is to be called after each batch."""
    if console.is_terminal:
        with Live(board.text(), console=console, refresh_per_second=4, transient=False) as live:

            def show(progress: BatchReport) -> None:
                board.take(progress)
                live.update(board.text())

            yield show
        return
    last = -PLAIN_EVERY
    said: BatchReport | None = None

    def say(progress: BatchReport) -> None:
        nonlocal last, said
        board.take(progress)
        if time.monotonic() - last >= PLAIN_EVERY:
            last, said = time.monotonic(), progress
            click.echo(board.lines())

    yield say
    if board.progress is not None and board.progress is not said:
        click.echo(board.lines())


class Board:
    """The lines of a run: one for each source, and with several sources one for W."""

    def __init__(self) -> None:
        self.progress: BatchReport | None = None
        self.since = time.monotonic()
        self.rates: dict[str, float] = {}

    def take(self, progress: BatchReport) -> None:
        """The account of the next batch."""
        now = time.monotonic()
        if self.progress is not None:  # rows are counted since the pipeline's first batch, which may have been another run's
            before = {source.name: source.rows for source in self.progress.sources}
            self.rates = {s.name: (s.rows - before[s.name]) / max(now - self.since, 1e-9) for s in progress.sources}
        self.progress, self.since = progress, now

    def text(self) -> Text:
        """As it stands, in a terminal."""
        if self.progress is None:
            return Text("starting the query …", style="dim")
        return Text(self.lines(), overflow="ellipsis", no_wrap=True)

    def lines(self) -> str:
        """One line for each source; with several, one more for what they come to."""
        progress = self.progress
        assert progress is not None
        lines = [self._line(source) for source in progress.sources]
        if len(lines) > 1:
            held = [] if progress.held_by is None else [f"holder {harmless(progress.held_by)}"]
            lines.append("  ".join(["all together", f"watermark {_clock(progress.watermark)}", *held]))
        return "\n".join(lines)

    def _line(self, source: SourceProgress) -> str:
        progress = self.progress
        assert progress is not None
        parts = [source.name, f"watermark {_clock(source.watermark)}"]
        parts += [] if source.watermark is None else [f"lag {rough(max(0, progress.clock - source.watermark))}"]
        parts += [] if source.holder is None else [f"holder {_lane(source)}"]
        parts += [f"{self.rates[source.name]:,.0f}/s"] if self.rates else []
        return "  ".join([*parts, f"late {source.late / max(1, source.rows):.1%}"])


def _lane(source: SourceProgress) -> str:
    """The lane that holds a source's watermark, on the line that begins with the source's name."""
    lane = str(source.holder).removeprefix(f"{source.name}/")
    return f"lane {lane}" if lane.isdigit() else harmless(lane)


def _clock(mark: int | None) -> str:
    return show_instant(mark).removesuffix("Z").partition(".")[0].partition("T")[2] or show_instant(mark)
