"""A run that can be killed at a named point or at any moment: the engine's own Run, journal, store and sinks, fed by hand.

Structured Streaming is stood in for by its contract: which files a batch holds is written down before the batch runs, a batch that
was not finished is run again with the same files, and tasks run in this process. `serve` forks one child for each life, so that a
life costs milliseconds; the parent has imported everything and computed nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from urllib.parse import quote

import eventide as ev
from eventide.engine.batch import bucket_task
from eventide.engine.changes import StateFinished
from eventide.engine.feeds.feed import MODIFIED, PATH, SIZE
from eventide.engine.run import Run
from eventide.kernel.columns import SOURCE
from eventide.state.journal import LocalFiles

POINTS = ("begin", "scan", "store", "begun", "between sinks", "deliver", "commit", "evicting", "evict", "compacting")


class Rdd:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def map(self, work: Callable[[Any], Any]) -> Rdd:
        return Rdd([work(item) for item in self.items])

    def collect(self) -> list[Any]:
        return self.items


class Here:
    """As much of a Spark session as Run asks for when workers read the files: tasks, run here."""

    defaultParallelism = 2
    applicationId = "here"
    master, pythonExec = "local[2]", sys.executable
    conf = MappingProxyType[str, str]({})
    file_names = "UTF-8"

    @property
    def _jvm(self) -> Any:
        system = SimpleNamespace(getProperty={"sun.jnu.encoding": self.file_names}.__getitem__)
        return SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))

    @property
    def sparkContext(self) -> Here:
        return self

    def parallelize(self, items: Any, slices: int) -> Rdd:
        return Rdd(list(items))


class Listed:
    """A batch's files as the DataFrame that Spark's file source gives."""

    columns = (SOURCE, PATH, MODIFIED, SIZE)

    def __init__(self, files: list[tuple[str, int]], sources: list[int] | None = None) -> None:
        self.files, self.sources = files, sources or [0] * len(files)

    def where(self, condition: str) -> Listed:
        return self

    def select(self, *columns: str) -> Listed:
        return self

    def collect(self) -> list[dict[str, Any]]:
        listed = zip(self.sources, self.files, strict=True)
        sizes = {path: Path(path).stat().st_size for path, _ in self.files}
        return [{SOURCE: s, PATH: path, MODIFIED: modified, SIZE: sizes[path]} for s, (path, modified) in listed]


def note(state: Path, number: int, files: list[tuple[str, int]]) -> None:
    """What Spark writes into its checkpoint before a batch of these files runs."""
    log = LocalFiles(str(state / "checkpoint"))
    lines = [
        {"path": f"file://{quote(path)}", "timestamp": at // 1000, "batchId": number, "action": "add"} for path, at in files
    ]
    log.write(f"sources/0/{number}", "\n".join(["v1", *map(json.dumps, lines)]).encode())
    log.write(f"offsets/{number}", f'v1\n{{}}\n{{"logOffset":{number}}}'.encode())


def state_of(root: Path) -> str:
    """Where a run keeps its state: below its root, or where a file there says."""
    elsewhere = root / "state_is_at"
    return elsewhere.read_text() if elsewhere.exists() else str(root / "state")


def pipeline(root: Path) -> ev.Pipeline:
    """The pipeline of a run: what a file below its root says, or payments under three policies."""
    asked = root / "pipeline"
    return PIPELINES[asked.read_text() if asked.exists() else "payments"](root)


def payments(root: Path) -> ev.Pipeline:
    """Two sinks of different kinds, three policies, late rows and dead letters kept."""
    minutes = (
        _files(root, "payments", ".", lane="directory").window(ev.sliding("1 minute", "30 seconds"), by="bank").agg(**SUMS)
    )
    base = ev.sqlite(str(root / "out.db"))
    return ev.Pipeline(
        "payments",
        minutes.to("drop", base, late=ev.drop()),
        minutes.to("accumulate", ev.parquet(str(root / "lake")), late=ev.accumulate("2 minutes", refused=ev.divert(base))),
        minutes.to("retract", base, late=ev.retract("5 minutes", refused=ev.divert())),
        state=state_of(root),
        dead_letters=base,
        buckets=2,
        archive=str(root / "archive") if (root / "archive").exists() else None,
    )


def staged(root: Path) -> ev.Pipeline:
    """Stages over sessions and over windows, beside what they read; results come and go."""
    seen, base = _files(root, "payments", ".", lane="directory"), ev.sqlite(str(root / "out.db"))
    minutes, visits = (
        seen.window(shape, by="bank").agg(**SUMS) for shape in (ev.tumbling("1 minute"), ev.session("5 seconds"))
    )
    fives = (
        minutes.results(late=ev.accumulate("4 minutes"))
        .where("n < 12")
        .window(ev.sliding("5 minutes", "1 minute"), by="n")
        .agg(most=ev.max("total"), banks=ev.distinct("bank", exact=True))
    )
    halves = (
        fives.results(late=ev.accumulate("2 minutes"))
        .window(ev.tumbling("30 minutes"))
        .agg(sum=ev.sum("most"), last=ev.last("n"))
    )
    crowds = visits.results(late=ev.accumulate("2 minutes")).window(ev.tumbling("2 minutes"), by="n").agg(visits=ev.count())
    return ev.Pipeline(
        "staged",
        minutes.to("minutes", base, late=ev.drop()),
        fives.to("fives", base, late=ev.retract("3 minutes")),
        halves.to("halves", ev.parquet(str(root / "lake")), late=ev.accumulate("1 minute")),
        crowds.to("crowds", base, late=ev.retract("3 minutes")),
        state=state_of(root),
        dead_letters=base,
        buckets=2,
    )  # fmt: skip


def joined(root: Path, how: str = "full") -> ev.Pipeline:
    """Pairs and rows without a match, which late rows withdraw."""
    base = ev.sqlite(str(root / "out.db"))
    pairs = _files(root, "orders", "l0").join(
        _files(root, "payments", "l1"), on="bank", within=("-5 s", "5 s"), how=how,
        late=ev.accumulate("1 minute", refused=ev.divert(base)), prefix=("order_", "payment_"),
    )  # fmt: skip
    outputs = [pairs.to("pairs", base), pairs.to("lake", ev.parquet(str(root / "lake")))]
    if how == "inner":
        summed = pairs.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count(), paid=ev.sum("payment_paise"))
        outputs = [pairs.to("pairs", base), summed.to("minutes", base, late=ev.retract("1 minute"))]
    return ev.Pipeline("joined", *outputs, state=state_of(root), dead_letters=base, buckets=2)


def _files(root: Path, name: str, below: str, **more: Any) -> Any:
    bound = ev.bounded("2 seconds")
    return ev.files(name, str(root / "in" / below), event_time="ts", arrival="at", watermark=bound, files_per_batch=3, **more)


SUMS = {"n": ev.count(), "total": ev.sum("paise")}
PIPELINES: dict[str, Callable[[Path], ev.Pipeline]] = {
    "payments": payments,
    "staged": staged,
    "joined": joined,
    "windows over pairs": lambda root: joined(root, "inner"),
}


def batch_of(pipe: ev.Pipeline, files: list[tuple[str, int]]) -> Listed:
    """A batch of these files, each of the source that reads its directory."""
    roots = [Path(source.path).resolve() for source in pipe.sources]
    owners = [next((n for n, root in enumerate(roots) if Path(path).resolve().is_relative_to(root)), None) for path, _ in files]
    read = [(file, owner) for file, owner in zip(files, owners, strict=True) if owner is not None]
    return Listed([file for file, _ in read], [owner for _, owner in read])


def live(root: Path, hook: Callable[[str], None], shift: int) -> None:
    """Go on from wherever the last life ended, to the end of the input."""
    bucket_task.COMPACT_ABOVE = 2
    pipe = pipeline(root)
    run = Run(pipe, Here(), state_of(root), hook=hook, clock=lambda: time.time_ns() // 1000 + shift)
    try:
        run.open()
    except StateFinished:  # the last life died after its last commit
        return
    log, number = LocalFiles(str(root / "offsets")), 0
    files = sorted((p.stat().st_mtime_ns // 1_000_000 * 1000, str(p)) for p in (root / "in").glob("*/*.parquet"))
    batches = [files[i : i + 3] for i in range(0, len(files), 3)]
    for number, batch in enumerate(batches):
        noted = log.read(str(number))
        if noted is None:
            log.write(str(number), json.dumps([[path, at] for at, path in batch]).encode())
        chosen = [(path, at) for path, at in json.loads(noted)] if noted else [(path, at) for at, path in batch]
        run._on_batch(batch_of(pipe, chosen), number)
    if run.ledger.batch < len(batches):
        run.batch(Listed([]), len(batches), drain=True)
    run.close()


def live_while_others_write(root: Path, hook: Callable[[str], None], shift: int) -> None:
    """Go on from wherever the last life ended, while files land; when the producers have closed the input, to its end."""
    bucket_task.COMPACT_ABOVE = 2
    run = Run(pipeline(root), Here(), state_of(root), hook=hook, clock=lambda: time.time_ns() // 1000 + shift)
    try:
        run.open()
    except StateFinished:  # the last life died after its last commit
        return
    log, finished = LocalFiles(str(root / "offsets")), False
    taken = {path for name in log.names(".") for path in json.loads(log.read(name) or b"[]")}
    while not finished:
        number = run.ledger.batch + 1
        noted, closed = log.read(str(number)), (root / "closed").exists()
        if noted is None:
            landed = sorted((p.stat().st_mtime_ns, str(p)) for p in (root / "in").glob("*/*.parquet") if str(p) not in taken)
            finished = closed and not landed
            noted = json.dumps([path for _, path in landed[:3]]).encode()
            log.write(str(number), noted)
            taken |= set(json.loads(noted))
        finished = finished or (closed and (run.journal.begun(number) or {}).get("drain", False))
        files = [(path, Path(path).stat().st_mtime_ns // 1_000_000 * 1000) for path in json.loads(noted)]
        run.batch(Listed(files), number, drain=finished)
    run.close()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(point: str, times: int) -> Callable[[str], None]:
    """A hook that kills this process when a point is passed so many times."""
    left = [times]

    def reached(here: str) -> None:
        if here == point:
            left[0] -= 1
            if left[0] == 0:
                die()

    if point == "compacting":
        _hook_compaction(lambda: reached("compacting"))
    return reached


def _hook_compaction(reached: Callable[[], None]) -> None:
    """After a merged part was written, before anything says that the old ones are gone."""
    add = bucket_task.Settling._add

    def watched(self: Any, kind: str, frame: Any, about: str, output: str = "") -> None:
        add(self, kind, frame, about, output)
        self.written = getattr(self, "written", 0) + (kind == "partial" and len(frame) > 0)
        if kind == "partial" and self.written > 1:
            reached()

    bucket_task.Settling._add = watched  # type: ignore[method-assign]


def one_life(order: dict[str, Any]) -> str:
    """Fork a child that runs until it is killed or done; gives "killed", "done" or "failed"."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            hook = dying_at(order["point"], order["times"]) if order.get("point") else lambda point: None
            (live_while_others_write if order.get("producing") else live)(Path(order["root"]), hook, order["shift"])
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + order["after"] if order.get("after") is not None else None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.001)
    if os.WIFSIGNALED(status):
        return "killed"
    return "done" if os.WEXITSTATUS(status) == 0 else "failed"


def serve() -> None:
    for line in sys.stdin:
        print(one_life(json.loads(line)), flush=True)


if __name__ == "__main__":
    serve()
