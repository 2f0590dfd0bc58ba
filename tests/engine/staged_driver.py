"""A pipeline whose panes the executors bring to PostgreSQL, and that can be killed between their staging and the merge."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import eventide as ev
from eventide.engine.batch import staging
from eventide.engine.run import Run
from eventide.engine.spark_session import local_session


def pipeline(root: Path, dsn: str, table: str) -> ev.Pipeline:
    """Half of its windows are corrected by the second file."""
    paid = ev.files(
        "paid", str(root / "in"), event_time="at", watermark=ev.bounded("1 second"), arrival="arrived", files_per_batch=1
    )
    sums = paid.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    output = sums.to(table, ev.postgres(dsn, parallel_from=500), late=ev.retract("1 hour"))
    return ev.Pipeline("staged", output, state=str(root / "state"), buckets=4)


def run(made: ev.Pipeline, spark: Any, hook: Any = lambda point: None) -> Run:
    """Run until all is read."""
    one = Run(made, spark, str(made.state), hook=hook)
    one.open()
    try:
        one.start(available_now=True).awaitTermination()
    finally:
        one.close()
    return one


def killed_before_the_merge(tokens: list[str]) -> str:
    print("staged", len(tokens), flush=True)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("still here")


def main(root: str, dsn: str, table: str) -> None:
    spark = local_session(name="eventide staged")
    token = staging._token
    seen: list[str] = []

    def count(line: str) -> str:
        seen.append(token(line))
        return seen[-1] if len(seen) < 4 else killed_before_the_merge(seen)

    staging._token = count
    run(pipeline(Path(root), dsn, table), spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
