"""An engine at work in a process of its own, with a Spark of its own that stays warm and waits while another one works."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cases import Case

HERE = Path(__file__).resolve().parent


class Worker:
    """Asked one run at a time."""

    def __init__(self, name: str, engine: str, kafka: bool = False, source: Path | None = None) -> None:
        self.name, self.begun = name, time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(source or HERE.parent / "src")}
        command = [sys.executable, __file__, engine, "kafka" if kafka else "files"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case: Case, data: str, work: Path, per_batch: int) -> dict[str, Any]:
        """Wall and CPU seconds of a run, and the milliseconds of each of its batches."""
        assert self.process.stdin and self.process.stdout
        asked = {"case": asdict(case), "data": data, "work": str(work), "per_batch": per_batch}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                return told
        raise SystemExit(f"{self.name} ended with {self.process.wait()}")

    def close(self) -> None:
        """Let it end by itself."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def listener(spark: Any) -> list[int]:
    """Notes how long each batch took, whoever computes it: by Spark's own account of its queries."""
    from pyspark.sql.streaming import StreamingQueryListener

    taken: list[int] = []

    class Durations(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            taken.append(int(event.progress.batchDuration))

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    spark.streams.addListener(Durations())
    return taken


def session(kafka: bool) -> Any:
    """Spark as the version of Eventide that is measured makes it; before its rooms were drawn it did so in `engine.session`."""
    import pyspark

    try:
        from eventide.engine.spark_session import local_session
    except ModuleNotFoundError:
        local_session = importlib.import_module("eventide.engine.session").local_session
    packages: Sequence[str] = ()
    if kafka:
        from eventide.engine.spark_compat import line_of

        packages = line_of(pyspark.__version__).kafka
    made = local_session(packages)
    made.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    return made


def serve(engine: str, kafka: bool) -> None:
    """A line in for each run, a line out."""
    import native
    import ours
    from processes import cpu

    which, _, variant = engine.partition("-")
    answer = {"native": native.run, "eventide": ours.run}[which]
    spark = session(kafka)
    taken = listener(spark)
    for line in sys.stdin:
        asked = json.loads(line)
        case, work = Case(**asked["case"]), Path(asked["work"])
        shutil.rmtree(work, ignore_errors=True)
        taken.clear()
        spent, started = cpu(), time.perf_counter()
        answer(spark, case, asked["data"], work, asked["per_batch"], variant)
        seconds = time.perf_counter() - started
        time.sleep(0.3)  # the listener hears of the last batch a little later
        told = {"seconds": seconds, "cpu": cpu() - spent, "batches": list(taken)}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] == "kafka")
