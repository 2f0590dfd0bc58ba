"""Where a run's lines are shown: in their place in a terminal or a notebook, one after the other where there is neither."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from eventide.engine.board import Board

if TYPE_CHECKING:
    from eventide.engine.report import BatchReport

PLAIN_EVERY = 1.0
"""Seconds between two reports where each report is a new line."""
Show = Callable[["BatchReport"], None]


def on_screen(console: Console, board: Board) -> AbstractContextManager[Show]:
    """Show a board while a run is at work; gives what is to be called after each batch."""
    return _in_place(console, board) if console.is_terminal else _one_by_one(console, board)


@contextmanager
def _in_place(console: Console, board: Board) -> Iterator[Show]:
    with Live(_text(console, board), console=console, refresh_per_second=4, transient=False) as live:

        def show(progress: BatchReport) -> None:
            board.take(progress)
            live.update(_text(console, board))

        yield show


def _text(console: Console, board: Board) -> Text:
    style = "dim" if board.progress is None else ""
    return Text("\n".join(board.lines(console.width)), style=style, overflow="ellipsis", no_wrap=True)


@contextmanager
def _one_by_one(console: Console, board: Board) -> Iterator[Show]:
    last = -PLAIN_EVERY
    said: BatchReport | None = None

    def tell() -> None:
        console.print("\n".join(board.lines()), markup=False, highlight=False, soft_wrap=True)

    def say(progress: BatchReport) -> None:
        nonlocal last, said
        board.take(progress)
        if time.monotonic() - last >= PLAIN_EVERY:
            last, said = time.monotonic(), progress
            tell()

    yield say
    if board.progress is not None and board.progress is not said:
        tell()


def in_notebook() -> bool:
    """Whether this process answers the cells of a notebook. Who has not imported IPython is not asked by one."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


@contextmanager
def in_cell(html: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Show something below a notebook's cell; gives what is to be called when it looks different."""
    from IPython.display import HTML, display

    place = display(HTML(html()), display_id=True)
    yield lambda: place.update(HTML(html()))


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt only who is looking: Spark takes it for itself when it starts, and would cancel the batch at work."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


__all__ = ["Show", "in_cell", "in_notebook", "interruptible", "on_screen"]
