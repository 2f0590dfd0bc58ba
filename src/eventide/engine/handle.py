"""A running pipeline in the user's hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.engine.run import Run
from eventide.engine.session import session_for
from eventide.errors import DefinitionError


@dataclass
class Handle:
    """Wait for it, stop it, ask how far it is."""

    run: Run
    query: Any

    @classmethod
    def start(
        cls,
        pipeline: Any,
        spark: Any = None,
        *,
        available_now: bool = False,
        interval: str = "1 second",
        on_progress: Any = None,
    ) -> Handle:
        """Open everything, then start the query."""
        if pipeline.state is None:
            raise DefinitionError(
                f'pipeline {pipeline.name!r} has no state directory; give it one: Pipeline(…, state="state/{pipeline.name}").'
            )
        session = session_for(pipeline, spark)
        run = Run(pipeline, session, str(pipeline.state), on_progress=on_progress)
        run.open()
        try:
            return cls(run, run.start(available_now=available_now, interval=interval))
        except BaseException:
            run.close()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends; with seconds, at most so long. An error of the query is raised here."""
        try:
            ended = self.query.awaitTermination(seconds) if seconds is not None else self.query.awaitTermination() or True
        except BaseException:
            self.run.close()
            raise
        if ended:
            self.run.close()
        return bool(ended)

    def stop(self) -> None:
        """Stop after the batch at work."""
        self.query.stop()
        self.run.close()

    @property
    def watermark(self) -> int | None:
        """W after the last committed batch."""
        return self.run.ledger.frontier.watermark

    @property
    def rows(self) -> dict[str, int]:
        """Where every row went, so far."""
        return dict(self.run.ledger.rows)

    @property
    def outputs(self) -> dict[str, dict[str, int]]:
        """The verdicts of each output, so far."""
        return {name: dict(counts) for name, counts in self.run.ledger.outputs.items()}
