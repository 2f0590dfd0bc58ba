"""Law 6 while the world goes on: killed again and again with producers writing all the time, the sinks end as the oracle says."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from agreement import oracle
from crash_driver import POINTS, pipeline
from landing import land, lane_rows
from test_crash import HOUR, Lives
from told import Table, archived_events, late_places, standing

from eventide.state.journal import Journal, LocalFiles

ROWS = 1_500


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    started = Lives(tmp_path_factory.mktemp("lives") / "errors.txt")
    yield started
    started.close()


def produce(root: Path, seconds: float, rng: random.Random) -> threading.Thread:
    """Files move in one by one, some of them with an old time, beside leftovers; then the input is closed."""
    written = root / "written"
    land(written, lane_rows(ROWS), [8, 7, 6, 5], "unevenly", seed=rng.randrange(1000))
    files = sorted(written.rglob("*.parquet"), key=lambda p: (p.stat().st_mtime, p))
    for lane in {file.parent.name for file in files}:
        (root / "in" / lane).mkdir(parents=True)

    def move(file: Path) -> None:
        now = time.time() - rng.choice([0, 0, 0, 1, 30])
        os.utime(file, (now, now))
        (root / "in" / file.parent.name / f"{file.name}.tmp").write_bytes(b"half")
        file.rename(root / "in" / file.parent.name / file.name)

    def moving() -> None:
        for file in files[1:]:
            time.sleep(rng.uniform(0, 2 * seconds / len(files)))
            move(file)
        (root / "closed").touch()

    move(files[0])  # by which the run knows the columns
    producer = threading.Thread(target=moving)
    producer.start()
    return producer


def killed_while_producing(kills: int, lives: Lives, where: Path, seed: int) -> Counter[str]:
    """Runs, each with its producers, killed at named points and at any moment until the input is closed; each must end right."""
    rng, done = random.Random(seed), Counter[str]()
    while done["kills"] < kills:
        root = where / f"run {done['runs']}"
        (root / "archive").mkdir(parents=True)
        producer = produce(root, rng.uniform(0.5, 4), rng)
        ended = "killed"
        while ended == "killed":
            how = rng.choice([{"point": rng.choice(POINTS), "times": rng.randint(1, 6)}, {"after": rng.uniform(0.05, 1.5)}])
            ended = lives.live(root, rng.choice([-HOUR, 0, 0, HOUR]), producing=True, **how)
            done["kills"] += ended == "killed"
        producer.join()
        assert_told(root)
        done["runs"] += 1
        shutil.rmtree(root)
    return done


def assert_told(root: Path) -> None:
    """Every table holds what the oracle says over the rows as they were archived, and every row that was written is there."""
    journal, pipe = Journal(LocalFiles(str(root / "state"))), pipeline(root)
    ledger, facts = journal.ledger(), journal.definition()
    assert ledger is not None and facts is not None
    plan = pipe.plan(0)
    plan = replace(plan, sources=(replace(plan.sources[0], lanes=tuple(facts["lanes"]["payments"])),))
    events = archived_events(pipe)
    assert len(events) == ledger.rows["in"] == sum(map(len, lane_rows(ROWS).values())) and ledger.waiting == 0
    reference = oracle(plan, events)
    for name in ("drop", "retract"):
        assert _sqlite(root, name) == standing(reference, name), name
    assert _lake(root) == standing(reference, "accumulate")
    with sqlite3.connect(root / "out.db") as base:
        late = sorted(base.execute("select _lane, _offset from accumulate_late").fetchall())
        dead = sorted(base.execute("select lane, offset from payments_dead_letters").fetchall())
    assert late == late_places(reference, "accumulate")
    assert dead == sorted((e.lane, e.offset) for e in events if e.broken is not None)


def _sqlite(root: Path, name: str) -> Table:
    with sqlite3.connect(root / "out.db") as base:
        found = base.execute(f'select window_id, bank, n, total from "{name}"').fetchall()
    return {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in found}  # type: ignore[misc]


def _lake(root: Path) -> Table:
    current = pl.read_parquet(root / "lake/accumulate/current.parquet").select("window_id", "bank", "n", "total").rows()
    return {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in current}  # type: ignore[misc]


def test_killed_a_few_times_while_producers_write_the_sinks_end_as_the_oracle_says(lives: Lives, tmp_path: Path) -> None:
    assert killed_while_producing(6, lives, tmp_path, seed=1)["kills"] >= 6


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_killed_two_hundred_times_while_producers_write(lives: Lives, tmp_path: Path) -> None:
    done = killed_while_producing(int(os.environ.get("EVENTIDE_KILLS", "200")), lives, tmp_path, seed=2)
    print(f"\n{dict(done)}")
