"""A pipeline driven through everything that can happen to it, step by step, with the oracle beside it.

The engine's own Run, journal, store, archive and sinks work on real files; Structured Streaming is stood in for by its contract (which files
a batch holds is written down before the batch runs; a batch that was not finished is run again with the same files). After every step the
sinks hold what one-event-at-a-time processing gives, over the arrivals as the archive has them; and of older generations what `Books` says.
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
from listening import Listener
from succeeding import Books
from told import Look, Table, archived_events, late_places, told

import eventide as ev
from eventide.engine.restart import start_over
from eventide.engine.run import Run
from eventide.engine.supersede import Superseding
from eventide.model.reference import Reference
from eventide.model.window import Session

SECOND = 1_000_000
LANES = ("a", "b", "c")
POINTS = ("begin", "scan", "store", "begun", "between sinks", "settling", "deliver", "commit", "evicting", "evict")
WINDOWS = [ev.tumbling("10 s"), ev.sliding("20 s", "10 s"), ev.session("7 s")]
rows = st.lists(st.tuples(st.integers(-60, 5), st.integers(-10, 0), st.sampled_from("xy"), st.integers(0, 99)), max_size=4)


class Killed(Exception):
    """As good as SIGKILL: nothing of ours runs after it but the operating system's clean-up."""


class PipelineMachine(RuleBasedStateMachine):
    """Land, touch, read, kill, restart, reorder and insert outputs, start over, lose the state, backfill, move the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="eventide-machine-"))
        self.now, self.files = START + 1_000 * SECOND, 0
        self.order, self.taken, self.offsets = ["drop", "some", "most", "delta", "told"], set[str](), dict[int, list[str]]()
        self.run: Run | None = None
        self.pending, self.filled = False, -1
        self.heard, self.books, self.seen, self.looks = Listener(), Books(), -1, list[Look]()
        self.counts = defaultdict[str, int](int)

    @initialize(window=st.sampled_from(WINDOWS), idle=st.sampled_from([None, "15 s"]), bound=st.sampled_from(["0 s", "5 s"]))
    def define(self, window: Any, idle: str | None, bound: str) -> None:
        self.window, self.idle, self.bound = window, idle, bound
        for lane in LANES[:2]:
            self._land(lane, [(0, 0, "x", 1)])
        self._open()
        self.land_and_read([[(-25, 0, "x", 2)], [(-31, 0, "y", 4)]], 20)

    def pipeline(self, where: Path | None = None, sinks: bool = True) -> ev.Pipeline:
        """The definition as it is now; elsewhere and without sinks, it is that of a backfill."""
        root = where or self.root
        payments = ev.files(
            "payments", str(root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded(self.bound),
            idle_after=self.idle,
        )  # fmt: skip
        made = payments.window(self.window, by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        base = ev.sqlite(str(root / "out.db")) if sinks else None
        heard = ev.function(self.heard, keyed=True) if sinks else None
        known = {
            "some": lambda: made.to("some", base, late=ev.accumulate("20 s", refused=ev.divert(base))),
            "most": lambda: made.to("most", base, late=ev.retract("60 s", refused=ev.divert(base))),
            "delta": lambda: made.to("delta", base, late=ev.accumulate("20 s"), accumulation="discarding"),
            "told": lambda: made.to("told", heard, late=ev.retract("20 s")),
        }
        outputs = [known[name]() if name in known else made.to(name, base, late=ev.drop()) for name in self.order]
        archive = str(root / "archive") if sinks else None
        return ev.Pipeline("machine", *outputs, state=str(root / "state"), archive=archive, buckets=2)

    def _open(self, pipe: ev.Pipeline | None = None) -> None:
        self.run = Run(pipe or self.pipeline(), self._session(), str(self.root / "state"), clock=lambda: self.now)
        self.run.on_progress = lambda _: self._look()
        self.run.open()
        self._look()

    def _session(self) -> Any:
        return Here()

    def _land(self, lane: str, facts: list[tuple[int, int, str, int]], old: int = 0) -> None:
        """Written elsewhere and moved in, as files should be; `old`: its time is that much before now."""
        second = (self.now - START) / SECOND
        values = [(at(second + happened), at(second + arrived), bank, paise) for happened, arrived, bank, paise in facts]
        modified = self.now // SECOND - old
        self._moved_in(self.root / "in" / lane, pl.DataFrame(values, schema=KINDS, orient="row"), modified)

    def _moved_in(self, here: Path, frame: pl.DataFrame, modified: int) -> Path:
        here.mkdir(parents=True, exist_ok=True)
        aside, there = self.root / "aside.parquet", here / f"{self.files:05d}.parquet"
        frame.write_parquet(aside)
        os.utime(aside, (modified, modified))
        aside.rename(there)
        self.files += 1
        return there

    @rule(lane=st.sampled_from(LANES), facts=rows, old=st.sampled_from([0, 0, 0, 3, 30]), by=st.sampled_from([0, 0, 3, 10, 20]))
    def land(self, lane: str, facts: list[tuple[int, int, str, int]], old: int, by: int) -> None:
        self.now += by * SECOND
        self._land(lane, facts, old)

    @precondition(lambda self: self.run is not None)
    @rule(each=st.lists(rows, min_size=2, max_size=3), by=st.sampled_from([0, 3, 10, 20]))
    def land_and_read(self, each: list[list[tuple[int, int, str, int]]], by: int) -> None:
        """Some time later every lane has news, and it is read."""
        self.now += by * SECOND
        for lane, facts in zip(LANES, each, strict=False):
            self._land(lane, [*facts, (0, 0, "x", 1)])
        self._batch(100)

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
    @rule(most=st.sampled_from([1, 2, 100]), point=st.sampled_from(POINTS), times=st.integers(1, 3), rises=st.booleans())
    def killed_batch(self, most: int, point: str, times: int, rises: bool) -> None:
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
            if rises:
                self.restart()
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
        self.pending = False
        self.counts["batches"] += 1

    def _visible(self) -> list[Path]:
        return [p for p in (self.root / "in").rglob("*.parquet") if not p.name.startswith(".")]

    def _dead(self) -> None:
        assert self.run is not None
        self.counts["kills"] += 1
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

    @rule(data=st.data())
    def reorder_the_outputs(self, data: st.DataObject) -> None:
        self._stopped()
        self.order = data.draw(st.permutations(self.order))
        self.restart()

    @precondition(lambda self: not self.pending and len(self.order) < 8)
    @rule(place=st.integers(0, 5))
    def insert_an_output(self, place: int) -> None:
        self._stopped()
        self.order.insert(place, f"extra{self.files}_{len(self.order)}")
        self.restart()

    def _stopped(self) -> None:
        if self.run is not None:
            self._dead()

    @rule(window=st.sampled_from([None, *WINDOWS]))
    def start_over(self, window: Any) -> None:
        """With the same windows or with others; everything that has landed is read again."""
        self._begin_again(window, lambda: start_over(self.pipeline())[0])
        self.counts["started over"] += 1

    @precondition(lambda self: not self.books.waiting)
    @rule()
    def lose_the_state(self) -> None:
        """Of a function nobody knows any more what it was told; tables can be asked, but for a generation that nobody has seen yet."""

        def lost() -> None:
            shutil.rmtree(self.root / "state")
            for aside in self.root.glob("state.generation-*"):
                if aside.is_dir():  # the note of a generation that waited stays: it lies beside the state for this
                    shutil.rmtree(aside)

        self.heard.forget()
        self._begin_again(None, lost)

    def _begin_again(self, window: Any, how: Any) -> None:
        self._stopped()
        was, self.window = self.window, window or self.window
        self.books.close({name: self._table(name) for name in self.order}, was, self.window)
        self.taken, self.offsets, self.seen, self.looks, self.pending, self.filled = set(), {}, -1, [], False, -1
        self._open(how())

    @precondition(lambda self: self.run is not None and not self.pending and self.filled != self.seen >= 0)
    @rule()
    def backfill(self) -> None:
        """From the archive into the sinks, unless readers still see an older shape, or an output has not had a batch yet."""
        run = self.run
        assert run is not None
        self.filled = self.seen
        if not any(o.withheld for o in run.deliverer.outlets.values()) and {*self.order} <= {*self.books.accounts}:
            self._backfill(run)
            told = {o.name: o.allowed for o in run.shape.plan.outputs if o.name in self._replaceable()}
            self.books.backfilled(run.ledger.frontier.watermark, told)
            self.counts["backfills"] += 1

    def _replaceable(self) -> list[str]:
        """What a session added before it grew stands under its older bounds: no backfill can replace it."""
        return [name for name in self.order if name != "delta" or not isinstance(self.window, Session)]

    def _backfill(self, live: Run) -> None:
        """A Run of its own over the archived rows, in their places; the lanes that the live run waited for are there from the start."""
        where = self.root / f"history {self.files}"
        superseding = Superseding.of(self.pipeline(), from_archive=True, only=self._replaceable())
        events = archived_events(live.pipeline)
        waited = live.definition["lanes"]["payments"]
        facts: dict[str, list[Any]] = {lane: [] for lane in sorted({*waited, *(e.lane for e in events)})}
        for e in events:
            facts[e.lane].append((at((e.event_time - START) / SECOND), at((e.arrival - START) / SECOND), e.key, e.row["paise"]))
        frames = {lane: pl.DataFrame(own, schema=KINDS, orient="row") for lane, own in facts.items()}
        landed = [self._moved_in(where / "in" / lane, frames[lane], 1_600_000_000) for lane in waited]
        far = max((e.arrival for e in events), default=0) + 10**12
        run = Run(self.pipeline(where, sinks=False), Here(), str(where / "state"), clock=lambda: far, numbered=superseding.take)
        run.open()
        landed += [self._moved_in(where / "in" / lane, frames[lane], 1_600_000_000) for lane in frames if lane not in waited]
        run.batch(Listed([(str(path), 1_600_000_000 * SECOND) for path in landed]), 0, drain=True)
        superseding.deliver(run)
        run.close()
        shutil.rmtree(where)

    def _look(self) -> None:
        """What the oracle says after a batch was committed; looked at once for each."""
        run = self.run
        if run is None or run.ledger.batch <= self.seen:
            return
        self.seen = run.ledger.batch
        events = archived_events(run.pipeline)
        assert run.ledger.rows["in"] == len(events)
        assert run.ledger.swept is not None
        self.looks.append((run.ledger.swept, run.last_clock))
        self.reference: Reference = told(run.shape.plan, events, run.ledger, self.looks)
        self.books.committed(self.reference, run.ledger, run.definition["began"])

    @invariant()
    def the_sinks_hold_what_the_oracle_says(self) -> None:
        self.counts["steps"] += 1
        if self.run is None or self.pending or self.run.ledger.batch < 0:
            return
        for output in self.run.shape.plan.outputs:
            if isinstance(self.window, Session) and output.name in self.run.ledger.joined_at:
                continue  # its sessions begin with the rows that are judged from then on
            found = self._table(output.name)
            assert self.books.agree(output.name, found), output.name
        for name in ("some", "most"):
            assert self._late(name) == late_places(self.reference, name), name

    def _table(self, name: str) -> Table:
        if name == "told":
            return self.heard.table()
        with sqlite3.connect(self.root / "out.db") as base:
            if not base.execute("select 1 from sqlite_master where name = ?", [name]).fetchall():
                return {}
            found = base.execute(f'select window_id, bank, n, total from "{name}"').fetchall()
        return {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in found}  # type: ignore[misc]

    def _late(self, name: str) -> list[tuple[str, int]]:
        assert self.run is not None
        with sqlite3.connect(self.root / "out.db") as base:
            query = f'select _lane, _offset from "{name}_late" where _generation = {self.run.generation}'
            return sorted(base.execute(query).fetchall())

    def teardown(self) -> None:
        if self.run is not None and hasattr(self.run, "deliverer"):
            self.run.close()
        shutil.rmtree(self.root)
        TOTALS["runs"] += 1
        TOTALS["of 30 steps"] += self.counts["steps"] >= 30
        for what, number in self.counts.items():
            TOTALS[what] += number


TOTALS: defaultdict[str, int] = defaultdict(int)
