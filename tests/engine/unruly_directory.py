"""A landing directory to which everything is done that the world does to one, between two batches and between two tries of one.

Every row has a number of its own. At the end each row of a whole file has been read once, each bad file is one dead letter, W stands where the
directory was read to, and the tables are the oracle's over the arrivals as the archive has them.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crash_driver import Here, Listed, note
from feeding import KINDS, at
from killing import Killed, killed_at
from landing import START
from told import Table, archived_events, standing, told

import eventide as ev
from eventide.engine.run import Run
from eventide.model.event import end_of

SECOND = 1_000_000
DAY = 86_400
POINTS = ("begin", "scan", "store", "begun", "deliver", "commit", "evict")
DDL = "ts timestamp, at timestamp, bank string, paise bigint"
TOTALS: Counter[str] = Counter()


@dataclass
class Directory:
    """The world: files, what is in them, and what may become of them."""

    root: Path
    rng: random.Random
    form: str = "parquet"
    now: int = START + 1_000 * SECOND
    whole: dict[Path, set[int]] = field(default_factory=dict)
    """Files that must be read, with the numbers of their rows."""
    bad: set[Path] = field(default_factory=set)
    unsure: dict[Path, set[int]] = field(default_factory=dict)
    """Files that were bad or there only for a while: dead letter or rows, never both; of those that went away perhaps neither."""
    rows: int = 0
    files: int = 0

    def path(self, ending: str = "") -> Path:
        below = self.rng.choice(["a", "b", "b/deep", "c d%20é"])
        ending = ending or f".{self.form}" + self.rng.choice(["", ".gz"] if self.form in ("json", "csv") else [""])
        self.files += 1
        place = self.root / "in" / below / f"{self.files:05d}{self.rng.choice(['', ' +%', '=x'])}{ending}"
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def body(self, path: Path) -> tuple[bytes, set[int]]:
        """Some rows as a file of that name."""
        facts, second = [], (self.now - START) / SECOND
        for _ in range(self.rng.randint(1, 4)):
            self.rows += 1
            happened = second - self.rng.choice([0, 1, 5, 20, 60])
            facts.append((at(happened), at(second - self.rng.choice([0, 0, 3])), self.rng.choice("xy"), self.rows))
        frame, aside = pl.DataFrame(facts, schema=KINDS, orient="row"), self.root / "aside"
        if self.form == "parquet":
            frame.write_parquet(aside)
            body = aside.read_bytes()
        else:
            texts = frame.with_columns(pl.col("ts", "at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
            body = (texts.write_csv() if self.form == "csv" else texts.write_ndjson()).encode()
        return gzip.compress(body) if path.name.endswith(".gz") else body, {paise for *_, paise in facts}

    def put(self, path: Path, body: bytes, modified: float | None = None) -> None:
        """Written beside and moved in, as files should be."""
        aside = self.root / "aside"
        aside.write_bytes(body)
        second = self.now / SECOND if modified is None else modified
        os.utime(aside, (second, second))
        aside.rename(path)

    def land(self) -> None:
        path = self.path()
        body, self.whole[path] = self.body(path)
        here = self.now / SECOND
        self.put(path, body, self.rng.choice([here, here, here, here - 3, here - 400 * DAY, here + 60_000 * DAY]))

    def land_a_bad_one(self) -> None:
        path = self.path(".parquet" if self.form == "parquet" else f".{self.form}.gz")
        body, _ = self.body(path)
        self.put(path, self.rng.choice([b"", body[: len(body) // 2], body[:-3], b"PAR1", b"\x00" * 40]))
        self.bad.add(path)

    def leave_others_about(self) -> None:
        """Files under names that are not read; one of them gets its own name later."""
        path = self.path()
        body, rows = self.body(path)
        path.with_name(path.name + ".tmp").write_bytes(body)
        path.with_name(f".{path.name}").write_bytes(body[:5])
        path.with_name(f"_{path.name.replace('=', '')}").write_bytes(body)
        path.with_name("notes.txt").write_bytes(b"not data")
        if self.rng.random() < 0.6:
            path.with_name(path.name + ".tmp").rename(path)
            self.whole[path] = rows

    def touch(self) -> None:
        there = [path for path in [*self.whole, *self.bad] if path.exists()]
        if there:
            second = self.now / SECOND + self.rng.choice([0, 0, -100, 30 * DAY])
            os.utime(self.rng.choice(there), (second, second))

    def mend(self) -> None:
        """A bad file is replaced by a whole one of the same name."""
        there = sorted(path for path in self.bad if path.exists())
        if there:
            path = self.rng.choice(there)
            body, rows = self.body(path)
            self.put(path, body)
            self.bad.remove(path)
            self.unsure[path] = rows

    def remove(self, taken: set[Path], needed: set[Path]) -> None:
        """A bad file, or one that is read; sometimes one that may not be. The first stays: of Parquet it says the columns."""
        known = [*list(self.whole)[1:], *self.bad, *self.unsure]
        there = [p for p in known if p.exists() and p not in needed and (p in taken or self.rng.random() < 0.3)]
        if there:
            path = self.rng.choice(sorted(there))
            path.unlink()
            if path not in taken:
                self.unsure[path] = self.whole.pop(path, set())
                self.bad.discard(path)


class Unruly:
    """A pipeline over such a directory, batch by batch, without Spark: which files a batch has is drawn here, and noted as Spark does."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root, self.world = root, Directory(root, self.rng, self.form())
        self.lane, self.arrival = self.lanes(), self.rng.choice([None, "at"])
        self.idle, self.most = self.rng.choice([None, "15 s"]), self.rng.choice([1, 2, 100])
        self.noted: dict[int, list[str]] = {}
        self.begun: set[Path] = set()
        self.busy = True
        self.world.land()
        self.open()

    def form(self) -> str:
        return "parquet"

    def lanes(self) -> str:
        return self.rng.choice(["source", "directory"])

    def session(self) -> Any:
        return Here()

    def pipeline(self) -> ev.Pipeline:
        payments = ev.files(
            "payments", str(self.root / "in"), format=self.world.form, event_time="ts", arrival=self.arrival, lane=self.lane,
            watermark=ev.bounded("5 s"), idle_after=self.idle, max_ahead=None, files_per_batch=self.most,
            schema=None if self.world.form == "parquet" else DDL,
        )  # fmt: skip
        made = payments.window(ev.tumbling("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        base = ev.sqlite(str(self.root / "out.db"))
        return ev.Pipeline(
            "unruly", made.to("some", base, late=ev.accumulate("20 s", refused=ev.divert(base))), made.to("drop", base, late=ev.drop()),
            state=str(self.root / "state"), archive=str(self.root / "archive"), buckets=2,
        )  # fmt: skip

    def open(self) -> None:
        self.run = Run(self.pipeline(), self.session(), str(self.root / "state"), clock=self.clock)
        self.run.open()

    def clock(self) -> int:
        """Read after Spark has listed the directory and before we do: a file may land in between."""
        if self.busy and self.rng.random() < 0.3:
            self.world.land()
        return self.world.now

    def batch(self) -> None:
        number = self.run.ledger.batch + 1
        if number not in self.noted:
            taken = {path for files in self.noted.values() for path in files}
            ready = [(p.stat().st_mtime_ns, str(p)) for p in (self.root / "in").rglob("*.parquet") if p.name[0] not in "._"]
            self.noted[number] = [path for _, path in sorted(ready) if path not in taken][: self.most]
            note(self.root / "state", number, [(path, 0) for path in self.noted[number]])
        there = [path for path in self.noted[number] if Path(path).exists()]
        self.run.batch(Listed([(path, os.stat(path).st_mtime_ns // 1_000_000 * 1000) for path in there]), number)

    def taken(self) -> set[Path]:
        """Files that a batch was begun with: from then on it needs them as they are."""
        self.begun |= set().union(*(self.begun_with(number) for number in range(self.run.ledger.batch + 2)))
        return self.begun

    def begun_with(self, number: int) -> set[Path]:
        facts = self.run.journal.begun(number) or {"landed": {}}
        return {Path(path) for path, *_, fault in facts["landed"].get("0", []) if fault is None}

    def go(self, steps: int) -> None:
        for _ in range(steps):
            self.happen(begun=set())
            self.world.now += self.rng.choice([1, 3, 20]) * SECOND
            self.try_batch()
        self.busy = False
        self.world.land()
        self.world.now += 100 * SECOND
        self.until_caught_up()

    def until_caught_up(self) -> None:
        while True:
            before = len({path for files in self.noted.values() for path in files})
            self.batch()
            if len({path for files in self.noted.values() for path in files}) == before:
                return

    def happen(self, begun: set[Path]) -> None:
        """Things that happen; what a batch was begun with stays as it is, but for its times."""
        world = self.world
        for _ in range(self.rng.randint(0, 4)):
            done: Callable[[], None] = self.rng.choice(
                [world.land, world.land, world.land_a_bad_one, world.leave_others_about, world.touch, world.touch, world.mend]
            )
            done()
            if self.rng.random() < 0.3:
                world.remove(self.taken(), begun)

    def try_batch(self) -> None:
        """A batch that may die, perhaps more than once; the world goes on while it is dead."""
        while self.rng.random() < 0.35:
            self.run.hook = killed_at(self.rng.choice(POINTS))
            try:
                self.batch()
                self.run.hook = lambda point: None
                return
            except Killed:
                TOTALS["kills"] += 1
            self.run.deliverer.close()
            self.run.lease.release()
            self.happen(self.begun_with(self.run.ledger.batch + 1))
            self.open()
            self.refuse_other_rows()
        self.run.hook = lambda point: None
        self.batch()

    def refuse_other_rows(self) -> None:
        """A file that the next batch was begun with is replaced by one of its size: the batch is not run again until it is back."""
        begun = self.begun_with(self.run.ledger.batch + 1)
        path = self.rng.choice(sorted(begun)) if begun else None
        if path is None or self.world.form != "parquet":
            return
        body, times = path.read_bytes(), path.stat()
        pl.read_parquet(path).with_columns(pl.col("paise") + 1).write_parquet(path)
        if path.stat().st_size == len(body):
            TOTALS["replaced"] += 1
            os.utime(path, (times.st_atime, times.st_mtime + 1))
            with pytest.raises(Exception, match=f"{re.escape(str(path))} .*of the same size, has been replaced"):
                self.batch()
            self.run.close()
            self.open()
        path.write_bytes(body)
        os.utime(path, (times.st_atime, times.st_mtime))

    def check(self) -> None:
        run, world = self.run, self.world
        events = archived_events(run.pipeline)
        read = Counter(event.row["paise"] for event in events if not event.dead)
        assert not [row for row, times in read.items() if times > 1], "rows read twice"
        dead = Counter(Path(json.loads(letter["raw"])["path"]) for letter in self.letters())
        assert max(dead.values(), default=1) == 1, dead
        for path, rows in world.whole.items():
            assert rows <= set(read) and path not in dead, f"{path} was not read"
        for path in world.bad:
            assert path in dead, f"{path} is no dead letter"
        for path, rows in world.unsure.items():
            assert not (path in dead and rows & set(read)), f"{path} is a dead letter and was read"
            assert rows <= set(read) or not rows & set(read), f"half of {path} was read"
        known = set().union(*world.whole.values(), *world.unsure.values())
        assert set(read) <= known and set(dead) <= {*world.bad, *world.unsure}
        assert run.ledger.swept == end_of(run.last_clock), "the directory was read to its end, and W does not know"
        reference = told(run.shape.plan, events, run.ledger, [(run.ledger.swept, run.last_clock)])
        for output in ("some", "drop"):
            assert self.table(output) == standing(reference, output), output
        TOTALS.update(streams=1, files=world.files, rows=len(read), dead_files=len(dead), batches=run.ledger.batch + 1)

    def letters(self) -> list[dict[str, Any]]:
        known = {f"@{attempt}" for _, attempt in self.run.ledger.attempts}
        files = [f for f in (self.root / "state/dead").rglob("*.parquet") if any(attempt in f.name for attempt in known)]
        found = [row for f in files for row in pl.read_parquet(f).to_dicts() if self.is_committed(f)]
        return [row for row in found if row["reason"].startswith("the file ")]

    def is_committed(self, path: Path) -> bool:
        from eventide.state.state import is_committed

        return is_committed(str(path.relative_to(self.root / "state")), self.run.ledger)

    def table(self, name: str) -> Table:
        with sqlite3.connect(self.root / "out.db") as base:
            found = base.execute(f'select window_id, bank, n, total from "{name}"').fetchall()
        return {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in found}

    def close(self) -> None:
        self.run.close()
        shutil.rmtree(self.root)
