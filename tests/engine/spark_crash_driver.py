"""The pipeline of the crash tests under a real Structured Streaming query, with a clock that is off by so much."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from crash_driver import pipeline

from eventide.engine.run import Run
from eventide.engine.spark_session import local_session


def main(root: str, shift: str) -> None:
    payments = pipeline(Path(root))
    spark = local_session(payments.packages(), name="eventide crash")
    print("session", flush=True)
    run = Run(payments, spark, str(payments.state), clock=lambda: time.time_ns() // 1000 + int(shift))
    run.on_progress = lambda progress: print("batch", progress.batch, flush=True)
    run.open()
    run.start(available_now=True).awaitTermination()
    run.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
