"""A running pipeline in the user's hand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console

from eventide.definition.pipeline import Pipeline
from eventide.engine.board import Board
from eventide.engine.feeds.feed import Sight
from eventide.engine.following import Follower
from eventide.engine.gate import TOLD
from eventide.engine.report import BatchReport
from eventide.engine.run import Run
from eventide.engine.screen import Show, in_cell, in_notebook, interruptible, on_screen
from eventide.engine.spark_compat import refuse_offset_format, refuse_without
from eventide.engine.spark_session import SparkGone, is_gone, unchecked_session
from eventide.engine.worker import prepared_workers
from eventide.errors import DefinitionError, EventideError, beneath
from eventide.model.time import show_instant
from eventide.notebook import paragraph, shown, table

LOOK_EVERY = 0.2
"""Seconds between two looks at a run that is watched."""

SHORTEST_WAIT = 0.001
"""Spark refuses to wait for no time at all."""


class StoppedBeforeTheEnd(EventideError):
    """A query that was to read its input to the end was stopped from outside before it had."""


if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Handle:
    """Wait for it, stop it, ask how far it is."""

    run: Run
    query: StreamingQuery | None
    """Spark's query; None where nothing but the end of the input is left to be delivered."""
    drain: bool = False
    seen: dict[int, Sight] = field(default_factory=dict)
    """What there was to be read of each source when the query was started, where the input ends with it."""
    _closing: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _closed: bool = False

    @classmethod
    def start(
        cls,
        pipeline: Pipeline,
        spark: SparkSession | None = None,
        *,
        available_now: bool = False,
        drain: bool = False,
        interval: str = "1 second",
        on_progress: Callable[[BatchReport], None] | None = None,
        follow: Sequence[Follower] = (),
    ) -> Handle:
        """Open everything, then start the query."""
        if pipeline.state is None:
            raise DefinitionError(
                f'pipeline {pipeline.name!r} has no state directory; give it one: Pipeline(…, state="state/{pipeline.name}").'
            )
        if drain and not available_now:
            raise DefinitionError(
                "drain=True says that the input ends, and available_now=False that it goes on for ever; give one of them."
            )
        session = unchecked_session(pipeline, spark, record=True)
        workers = prepared_workers(session)
        refuse_without(session, pipeline.sources)
        refuse_offset_format(session)
        run = Run(pipeline, session, str(pipeline.state), on_progress=on_progress, workers=workers, followers=tuple(follow))
        run.open()
        try:
            if run.is_ending(drain):
                return cls(run, None, drain)
            seen = run.in_sight() if drain else {}
            return cls(run, run.start(available_now=available_now, interval=interval), drain, seen)
        except BaseException as error:
            with beneath(error):
                run.close(error)
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends; with seconds, at most so long. What killed it is raised here."""
        try:
            if self.query is not None and not self._closed:
                query = self.query
                span = None if seconds is None else max(seconds, SHORTEST_WAIT)
                if not query.awaitTermination(span) and span is not None:  # type: ignore[arg-type]
                    return False
            with self._closing:
                if self.drain and not self._closed and not self.run.gate.is_shut:
                    self._refuse_unread()
                    self.run.drain()
        except Exception as error:  # an interrupt is none: then the query goes on, and can be stopped
            if self.run.gate.fault is not None or TOLD not in str(error):
                raise self._closed_after(error) from None
        self._close()
        return True

    def _refuse_unread(self) -> None:
        """Spark does not tell a query that has read everything from one that somebody stopped; what was read does."""
        unread = [] if self.query is None else self.run.unread(self.seen)
        if unread:
            raise StoppedBeforeTheEnd(
                f"the query of pipeline {self.run.pipeline.name!r} was stopped by somebody else before it had read all that was there when it "
                f"started (of {', '.join(unread)}). The end of the input was not reached: no window was closed for it, and the state is not "
                "finished. Run it again: eventide run FILE --until-caught-up --drain."
            )

    def watch(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, and show meanwhile how it goes: W of each source, its lag, the lane that holds it, rows a second, late rows.

        In a notebook that is a table below the cell, in a terminal lines that stay in their place, elsewhere a line a second at most; on
        standard error. An interrupt (Ctrl-C, or the notebook's) ends the watching: the run goes on, and `stop()` ends it.
        """
        board = Board()
        with interruptible():
            if in_notebook():
                with in_cell(lambda: self._html(board)) as show_again:

                    def show(progress: BatchReport) -> None:
                        board.take(progress)
                        show_again()

                    try:
                        return self._watched(show, seconds)
                    finally:  # whether it is at work still
                        show_again()
            with on_screen(Console(stderr=True), board) as say:
                return self._watched(say, seconds)

    def _watched(self, show: Show, seconds: float | None) -> bool:
        until = None if seconds is None else time.monotonic() + seconds
        said: BatchReport | None = None
        while True:
            left = LOOK_EVERY if until is None else min(LOOK_EVERY, max(0.0, until - time.monotonic()))
            ended = self.wait(left)
            if self.progress is not None and self.progress is not said:
                said = self.progress
                show(said)
            if ended or (until is not None and time.monotonic() >= until):
                return ended

    def stop(self) -> None:
        """Stop after the batch at work. What had killed it before is raised here."""
        if self.run.gate.is_mine:  # a batch cannot wait for its own end
            threading.Thread(target=self.stop, name="stop", daemon=True).start()
            return
        self.run.gate.shut()
        died: Exception | None = None
        try:
            if self.query is not None:
                died = self.query.exception()  # before it is stopped: what the stop itself interrupts is no failure
                self.query.stop()
        except Exception as error:
            died = error
        except BaseException as interrupt:
            with beneath(interrupt):
                self._close()
            raise
        if self.run.gate.fault is not None or died is not None:
            raise self._closed_after(died) from None
        self._close()

    def _closed_after(self, error: BaseException | None) -> BaseException:
        """Close, and what is to be raised then: what killed the query, whatever goes wrong in closing."""
        cause = self._cause(error)
        with beneath(cause):
            self._close(cause)
        return cause

    def _cause(self, error: BaseException | None) -> BaseException:
        """The error of our own batch, where Spark only tells of one."""
        known = self.run.gate.fault or error
        assert known is not None
        if is_gone(known):
            return SparkGone(
                f"Spark's JVM is gone: it was killed, or ran out of memory. Batch {self.run.ledger.batch} is the last that was committed; "
                "nothing is lost, and the next run goes on from there."
            )
        return known

    def _close(self, fault: BaseException | None = None) -> None:
        with self._closing:
            if not self._closed:
                self._closed = True
                self.run.close(fault)

    @property
    def watermark(self) -> int | None:
        """W after the last committed batch."""
        return self.run.ledger.frontier.watermark

    @property
    def rows(self) -> Counter[str]:
        """Where every row went, so far; what has not been counted yet is 0."""
        return Counter(self.run.ledger.rows)

    @property
    def outputs(self) -> dict[str, Counter[str]]:
        """The verdicts of each output, so far; one that no row has had is 0."""
        return {name: Counter(counts) for name, counts in self.run.ledger.outputs.items()}

    @property
    def progress(self) -> BatchReport | None:
        """The account of the last committed batch, as `on_progress` is given it; None before the first."""
        return self.run.progress

    def _repr_html_(self) -> str:
        """As notebooks show it: where W stands, and what became of the rows, as of the last committed batch."""
        board = Board()
        if self.progress is not None:
            board.take(self.progress)
        return self._html(board)

    def _html(self, board: Board) -> str:
        ledger = self.run.ledger
        state = "ended" if self._closed or (self.query is not None and not self.query.isActive) else "at work"
        verdicts = ("rows_on_time", "rows_admitted", "rows_refused", "panes")
        outputs = [(name, *(counts.get(verdict, 0) for verdict in verdicts)) for name, counts in self.outputs.items()]
        return shown(
            self.run.pipeline.name,
            paragraph(f"{state}, batch {ledger.batch}, W {show_instant(self.watermark)}, {ledger.rows['in']:,} rows"),
            board.html(),
            table(["output", "on time", "admitted", "refused", "results"], outputs),
        )
