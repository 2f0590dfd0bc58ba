"""The command `eventide` with Structured Streaming stood in for by its contract: a thread that calls for one batch after the other.

All else is the real thing: the command line, signals, the lease, the journal, the engine, sinks. A process starts in a second, so that it
can be interrupted at many moments.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from crash_driver import Here, Listed, note
from test_handle import Query

from eventide.cli import run as command
from eventide.cli.main import main
from eventide.engine.run import Run


def start(run: Any, *, available_now: bool = False, interval: str = "1 second") -> Query:
    """As Run.start: batch n is file n."""
    files = sorted(Path(run.pipeline.aggregation.stream.sources[0].path).glob("*.parquet"))

    def batch() -> None:
        number = run.ledger.batch + 1
        if run.query is None or (number >= len(files) and not available_now):
            time.sleep(0.02)
        elif number >= len(files):
            run.query.isActive = False
        else:
            listed = [(str(files[number]), files[number].stat().st_mtime_ns // 1_000_000 * 1000)]
            note(Path(run.state), number, listed)
            run._on_batch(Listed(listed), number)

    run.query = Query(batch)
    return run.query


if __name__ == "__main__":
    Run.start = start  # type: ignore[method-assign]
    command.session_for = lambda pipeline, **session: Here()  # type: ignore[assignment]
    main(prog_name="eventide")
