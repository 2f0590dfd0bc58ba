"""A pipeline driven through everything that can happen to it, step by step, with the oracle beside it.

The engine's own Run, journal, store, archive and sinks work on real files; Structured Streaming is stood in for by its contract (which files
a batch holds is written down before the batch runs; a batch that was not finished is run again with the same files). After every step the
sinks hold what one-event-at-a-time processing gives, over the arrivals as the archive has them.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
from crash_driver import Here, Listed, note
from feeding import KINDS, at
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from landing import START
from told import Table, archived_events, late_places, standing, told

import eventide as ev
from eventide.engine.run import Run

SECOND = 1_000_000
LANES = ("a", "b", "c")
POINTS = ("begin", "scan", "store", "begun", "between sinks", "deliver", "commit", "evicting", "evict")
seconds = st.integers(0, 40)
rows = st.lists(st.tuples(st.integers(-60, 5), st.integers(-10, 0), st.sampled_from("xy"), st.integers(0, 99)), max_size=4)


class Killed(Exception):
    """As good as SIGKILL: nothing of ours runs after it but the operating system's clean-up."""


class PipelineMachine(RuleBasedStateMachine):
    """Land, touch, read, kill, restart, reorder, move the clock."""

    windows = st.sampled_from([ev.tumbling("10 s"), ev.sliding("20 s", "10 s"), ev.session("7 s")])

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="eventide-machine-"))
        self.now, self.files = START + 1_000 * SECOND, 0
        self.order, self.taken, self.offsets = [0, 1, 2, 3], set[str](), dict[int, list[str]]()
        self.run: Run | None = None
        self.pending = False
        self.steps = self.batches = self.kills = 0

    @initialize(window=windows, idle=st.sampled_from([None, "15 s"]), bound=st.sampled_from(["0 s", "5 s"]))
    def define(self, window: Any, idle: str | None, bound: str) -> None:
        self.window, self.idle, self.bound = window, idle, bound
        for lane in LANES[:2]:
            self._land(lane, [(0, 0, "x", 1)])
        self._open()

    def pipeline(self) -> ev.Pipeline:
        payments = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded(self.bound),
            idle_after=self.idle,
        )  # fmt: skip
        made = payments.window(self.window, by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        base = ev.sqlite(str(self.root / "out.db"))
        outputs = [
            made.to("drop", base, late=ev.drop()),
            made.to("some", base, late=ev.accumulate("20 s", refused=ev.divert(base))),
            made.to("most", base, late=ev.retract("60 s", refused=ev.divert(base))),
            made.to("delta", base, late=ev.accumulate("20 s"), accumulation="discarding"),
        ]
        chosen = [outputs[i] for i in self.order]
        return ev.Pipeline("machine", *chosen, state=str(self.root / "state"), archive=str(self.root / "archive"), buckets=2)

    def _open(self) -> None:
        self.run = Run(self.pipeline(), Here(), str(self.root / "state"), clock=lambda: self.now)
        self.run.open()

    def _land(self, lane: str, facts: list[tuple[int, int, str, int]], old: int = 0) -> None:
        """Written elsewhere and moved in, as files should be; `old`: its time is that much before now."""
        here = self.root / "in" / lane
        here.mkdir(parents=True, exist_ok=True)
        second = (self.now - START) / SECOND
        values = [(at(second + happened), at(second + arrived), bank, paise) for happened, arrived, bank, paise in facts]
        aside = self.root / "aside.parquet"
        pl.DataFrame(values, schema=KINDS, orient="row").write_parquet(aside)
        modified = self.now // SECOND - old
        os.utime(aside, (modified, modified))
        aside.rename(here / f"{self.files:05d}.parquet")
        self.files += 1

    @rule(lane=st.sampled_from(LANES), facts=rows, old=st.sampled_from([0, 0, 0, 3, 30]))
    def land(self, lane: str, facts: list[tuple[int, int, str, int]], old: int) -> None:
        self._land(lane, facts, old)

    @rule(lane=st.sampled_from(LANES))
    def leave_a_half_written_file(self, lane: str) -> None:
        here = self.root / "in" / lane
        here.mkdir(parents=True, exist_ok=True)
        (here / f"{self.files:05d}.parquet.tmp").write_bytes(b"PAR1")
        (here / f".{self.files:05d}.parquet").write_bytes(b"PAR1")

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        files = sorted((self.root / "in").rglob("*.parquet"))
        if files:
            os.utime(data.draw(st.sampled_from(files)), (self.now // SECOND,) * 2)

    @rule(by=st.sampled_from([1, 5, 20, 100, -50]))
    def move_the_clock(self, by: int) -> None:
        self.now += by * SECOND

    @precondition(lambda self: self.run is not None)
    @rule(most=st.sampled_from([1, 2, 100]))
    def batch(self, most: int) -> None:
        self._batch(most)

    @precondition(lambda self: self.run is not None)
    @rule(most=st.sampled_from([1, 2, 100]), point=st.sampled_from(POINTS), times=st.integers(1, 3))
    def killed_batch(self, most: int, point: str, times: int) -> None:
        assert self.run is not None
        left = [times]

        def hook(here: str) -> None:
            left[0] -= here == point
            if here == point and left[0] == 0:
                raise Killed

        self.run.hook = hook
        try:
            self._batch(most)
        except Killed:
            self._dead()
        else:
            self.run.hook = lambda point: None

    def _batch(self, most: int) -> None:
        run = self.run
        assert run is not None
        self.now += SECOND // 10
        number = run.ledger.batch + 1
        if number not in self.offsets:
            ready = sorted((p.stat().st_mtime_ns, str(p)) for p in self._visible() if str(p) not in self.taken)
            self.offsets[number] = [path for _, path in ready[:most]]
            self.taken |= set(self.offsets[number])
        listed = [(path, os.stat(path).st_mtime_ns // 1_000_000 * 1000) for path in self.offsets[number]]
        note(self.root / "state", number, listed)
        self.pending = True
        run.batch(Listed(listed), number)
        self.pending, self.batches = False, self.batches + 1

    def _visible(self) -> list[Path]:
        return [p for p in (self.root / "in").rglob("*.parquet") if not p.name.startswith(".")]

    def _dead(self) -> None:
        assert self.run is not None
        self.kills += 1
        self.pending = self.run.ledger.batch + 1 in self.offsets
        self.run.deliverer.close()
        self.run.lease.release()  # the lease of a dead process is no obstacle on its own machine
        self.run = None

    @precondition(lambda self: self.run is not None)
    @rule()
    def kill(self) -> None:
        self._dead()

    @precondition(lambda self: self.run is None)
    @rule()
    def restart(self) -> None:
        self._open()
        assert self.run is not None
        self.pending = self.run.ledger.batch + 1 in self.offsets

    @precondition(lambda self: self.run is None)
    @rule(order=st.permutations([0, 1, 2, 3]))
    def reorder_the_outputs(self, order: list[int]) -> None:
        self.order = order

    @invariant()
    def the_sinks_hold_what_the_oracle_says(self) -> None:
        self.steps += 1
        if self.run is None or self.pending or self.run.ledger.batch < 0:
            return
        run = self.run
        events = archived_events(run.pipeline)
        assert run.ledger.rows["in"] == len(events)
        reference = told(run.shape.plan, events, run.ledger, run.last_clock)
        for output in run.shape.plan.outputs:
            assert self._table(output.name) == standing(reference, output.name), output.name
        for name in ("some", "most"):
            assert self._late(name) == late_places(reference, name), name

    def _table(self, name: str) -> Table:
        with sqlite3.connect(self.root / "out.db") as base:
            found = base.execute(f'select window_id, bank, n, total from "{name}"').fetchall()
        return {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in found}

    def _late(self, name: str) -> list[tuple[str, int]]:
        with sqlite3.connect(self.root / "out.db") as base:
            return sorted(base.execute(f'select _lane, _offset from "{name}_late"').fetchall())

    def teardown(self) -> None:
        if self.run is not None:
            self.run.close()
        shutil.rmtree(self.root)
        TOTALS["runs"] += 1
        for what in ("steps", "batches", "kills"):
            TOTALS[what] += getattr(self, what)


TOTALS: defaultdict[str, int] = defaultdict(int)
