"""Watching a run: what is shown where, and that looking changes nothing."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.cli.stated import at, defined, ran
from tests.engine.crash_driver import Here
from tests.engine.test_handle import handle_of

from eventide.cli.loading import load
from eventide.engine.board import Board
from eventide.engine.handle import Handle
from eventide.engine.report import BatchReport, SourceProgress
from eventide.engine.run import Run
from eventide.engine.screen import on_screen
from eventide.errors import SinkRefused

MINUTE = 60_000_000


def source(**facts: Any) -> SourceProgress:
    known = SourceProgress("payments", at(0), "payments/3", 1_000, 18)
    return replace(known, **facts)


def said(*sources: SourceProgress, batch: int = 1) -> BatchReport:
    return BatchReport(batch, at(120), at(0), (0, "3"), {"in": 1_000}, {}, {}, sources or (source(),))


def batches(*reports: BatchReport, ready: threading.Event | None = None) -> tuple[Handle, Any]:
    """A run that gives these accounts, one for each batch, and ends; it begins when it is told to."""
    left, begin = list(reports), ready or threading.Event()

    def work(run: Any) -> None:
        assert begin.wait(20)
        if left:
            run.progress = left.pop(0)
        else:
            run.query.isActive = False

    handle, run = handle_of(work)
    if ready is None:
        begin.set()
    return handle, run


def test_where_there_is_no_terminal_the_last_batch_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    handle, run = batches(said(), said(source(rows=2_000), batch=2))
    assert handle.watch() is True
    out, err = capsys.readouterr()
    assert out == "" and run.closed == 1
    assert err.splitlines()[-1].startswith("payments  watermark 14:13:20  lag 2 min  holder lane 3") and "late 0.9%" in err


def test_a_watch_of_some_seconds_leaves_the_run_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    handle, run = handle_of(lambda run: threading.Event().wait(0.01))
    run.progress = said()
    assert handle.watch(0.05) is False
    assert "payments" in capsys.readouterr().err and run.query.isActive
    handle.stop()


def test_what_killed_a_run_that_is_watched_is_raised_as_it_was() -> None:
    fault = SinkRefused("no rights on table sales")

    def work(run: Any) -> None:
        raise fault

    handle, run = handle_of(work)
    with pytest.raises(SinkRefused) as raised:
        handle.watch()
    assert raised.value is fault and run.closed == 1


def test_ctrl_c_ends_the_watching_and_is_not_heard_by_spark() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        watching = threading.Event()

        def work(run: Any) -> None:
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler and not watching.is_set():
                watching.set()
                os.kill(os.getpid(), signal.SIGINT)
            watching.wait(0.01)

        handle, run = handle_of(work)
        with pytest.raises(KeyboardInterrupt):
            handle.watch(20)
        assert heard == [] and run.query.isActive and run.closed == 0
        os.kill(os.getpid(), signal.SIGINT)
        assert heard == [signal.SIGINT]
        handle.stop()
    finally:
        signal.signal(signal.SIGINT, before)


LANES = ["7", "lucknow", "lucknow/upi/north-2/with/a/name/that/goes/on", "x" * 10_000, "北京" * 40, "\x1b[2Jowned\u202e", "<b>"]


@pytest.mark.parametrize("lane", LANES, ids=range(len(LANES)))
@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_screen_and_all_of_them_is_told(lane: str, width: int) -> None:
    board = Board()
    board.take(said(source(holder=f"payments/{lane}", since=at(120) - 11 * MINUTE)))
    board.rates = {"payments": 12_410.4}
    lines = board.lines(width)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)
    whole = "  ".join(lines)
    assert lines[0].startswith("payments  watermark 14:13:20  lag 2 min  ") and " for 11 min" in whole and " holder " in whole
    assert lines[0].endswith("  12,410/s  late 1.8%") and len(lines) == 1 + (cell_len(board.lines()[0]) > width)


def test_a_lane_that_holds_a_watermark_for_seconds_is_as_it_should_be() -> None:
    board = Board()
    board.take(said(source(since=at(100))))
    assert "for" not in board.lines()[0]


def test_a_terminal_shows_the_lines_in_their_place() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    with on_screen(console, Board()) as show:
        show(said(source(holder="payments/" + "x" * 10_000), source(name="cards", holder="cards/1")))
    first, last = out.getvalue().split("\x1b[2K")[0], out.getvalue().split("\x1b[2K")[-1]
    assert "starting the query" in first
    lines = [line for line in last.splitlines() if not line.startswith("\x1b")]
    assert len(lines) == 4 and all(cell_len(line) <= 80 for line in lines)
    assert "(10,000 signs)" in lines[1] and lines[-1] == "all together  watermark 14:13:20  holder payments/3"


class Cell:
    """What stands below a notebook's cell, one thing after the other."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown = threading.Event()

    def display(self, html: str, display_id: bool) -> Cell:
        assert display_id
        self.update(html)
        return self

    def update(self, html: str) -> None:
        self.said.append(html)
        self.shown.set()


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    made, display, ask = Cell(), ModuleType("IPython.display"), ModuleType("IPython.core.getipython")
    display.HTML, display.display = lambda html: html, made.display  # type: ignore[attr-defined]
    ask.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    modules = {"IPython": ModuleType("IPython"), "IPython.core": ModuleType("IPython.core")}
    for name, module in {**modules, "IPython.core.getipython": ask, "IPython.display": display}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_a_notebook_shows_one_table_that_follows(tmp_path: Path, cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    file = defined(tmp_path)
    reports = ran(file, [{"<script>": [1, 2, 70]}, {"<script>": [5, 130]}], [80, 140])
    handle, run = batches(*reports, ready=cell.shown)
    opened = Run(load(str(file)), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    opened.open()
    opened.close()
    run.pipeline, run.ledger = opened.pipeline, opened.ledger
    assert handle.watch() is True
    first, last = cell.said[0], cell.said[-1]
    assert "no batch so far" in first and "at work" in first
    assert "&lt;script&gt;" in last and "<script>" not in last and "5 rows" in last
    assert "ended" in last
    assert capsys.readouterr() == ("", "")


def test_a_run_that_goes_on_knows_its_last_batch_before_the_next(tmp_path: Path) -> None:
    file = defined(tmp_path)
    [_, last] = ran(file, [{"north": [1, 2, 70], "south": [65]}, {"north": [130], "south": [66]}], [80, 140])
    run = Run(load(str(file)), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    assert run.progress is None
    run.open()
    run.close()
    assert run.progress == replace(last, panes={})
    assert last.sources[0].holder == "rows/south" and last.sources[0].since == at(80)
