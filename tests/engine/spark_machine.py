"""The same pipelines, driven by Structured Streaming itself: real listings, real checkpoints, batches that Spark cuts."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from machine import Killed, PipelineMachine

from eventide.engine.run import Run


class SparkMachine(PipelineMachine):
    """A batch here is a run until caught up, which may be several of Spark's; a kill is one inside any of them."""

    spark: ClassVar[Any] = None

    def _session(self) -> Any:
        return self.spark

    def _batch(self, most: int) -> None:
        run = self.run
        assert run is not None
        self.now += 100_000
        before, self.pending = run.ledger.batch, True
        query = run.start(available_now=True)
        try:
            query.awaitTermination()
        except Exception as error:
            if Killed.__name__ in str(error):
                raise Killed from error
            raise
        self.pending = False
        self.counts["batches"] += run.ledger.batch - before

    def _dead(self) -> None:
        super()._dead()
        self.pending = True  # Spark knows whether a batch was left: the next run finishes it before anything else

    @precondition(lambda self: self.run is None)
    @rule()
    def restart(self) -> None:
        self._open()

    @precondition(lambda self: self.run is not None)
    @rule(for_batches=st.integers(1, 3), rises=st.booleans())
    def live(self, for_batches: int, rises: bool) -> None:
        """Live for a few batches, then stopped; a state may be lived on and caught up on in any order."""
        run = self.run
        assert run is not None
        before, self.pending = run.ledger.batch, True
        query = run.start(available_now=False, interval="100 milliseconds")
        while run.ledger.batch < before + for_batches and query.isActive:
            query.awaitTermination(0.05)
        run.hook = _no_more
        query.stop()
        self.counts["batches"] += run.ledger.batch - before
        self.counts["lives"] += 1
        self._dead()
        if rises:
            self.restart()

    def _backfill(self, live: Run) -> None:
        where = str(self.root / f"history {self.counts['backfills']}")
        live.pipeline.backfill(spark=self.spark, deliver=self._replaceable(), state=where)


def _no_more(point: str) -> None:
    if point == "begin":
        raise Killed
