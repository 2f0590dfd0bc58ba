"""Law 6: killed anywhere and restarted, with the clock moved, the sinks end in the same tables as an undisturbed run."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crash_driver import POINTS, state_of
from landing import land, lane_rows

from eventide.state.journal import Journal
from eventide.state.records import record_files
from eventide.state.store import Store

HERE = Path(__file__).parent
HOUR = 3600 * 1_000_000
ROWS = 6_000


class Lives:
    """A process that forks one life at a time."""

    def __init__(self, log: Path) -> None:
        self.log = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "crash_driver.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1,
        )  # fmt: skip

    def live(self, root: Path, shift: int = 0, **how: Any) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"root": str(root), "shift": shift, **how}) + "\n")
        ended = self.process.stdout.readline().strip()
        assert ended in ("killed", "done"), f"the run failed ({ended}): {Path(self.log.name).read_text()[-3000:]}"
        return ended

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    started = Lives(tmp_path_factory.mktemp("lives") / "errors.txt")
    yield started
    started.close()


def fresh(where: Path, landed: Path) -> Path:
    where.mkdir()
    shutil.copytree(landed, where / "in")
    return where


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed") / "in"
    land(root, lane_rows(ROWS), [12, 9, 8, 7], "unevenly")
    return root


@pytest.fixture(scope="module")
def undisturbed(lives: Lives, landed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = fresh(tmp_path_factory.mktemp("undisturbed") / "run", landed)
    assert lives.live(root) == "done"
    facts = sinks_of(root)
    assert all(facts[name] for name in ("drop", "retract", "accumulate", "accumulate_late", "payments_dead_letters"))
    return facts


def sinks_of(root: Path) -> dict[str, Any]:
    """All that readers of the sinks can see, without when it was written; and where the books say that every row went."""
    facts: dict[str, Any] = {}
    with sqlite3.connect(root / "out.db") as base:
        tables = [name for (name,) in base.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            names = [row[1] for row in base.execute(f'pragma table_info("{table}")')]
            kept = [f'"{n}"' for n in names if "emitted" not in n]
            facts[table] = sorted(base.execute(f'select {", ".join(kept)} from "{table}"').fetchall(), key=repr)
        for (view,) in base.execute("select name from sqlite_master where type = 'view'").fetchall():
            names = [row[1] for row in base.execute(f'pragma table_info("{view}")')]
            kept = [f'"{n}"' for n in names if "emitted" not in n]
            facts[view] = sorted(base.execute(f'select {", ".join(kept)} from "{view}"').fetchall(), key=repr)
    for lake in (root / "lake").glob("*"):
        current = pl.read_parquet(lake / "current.parquet")
        facts[lake.name] = sorted(current.drop([c for c in current.columns if "emitted" in c]).rows(), key=repr)
        log = pl.concat([pl.read_parquet(p) for p in sorted((lake / "panes").glob("*.parquet"))])
        facts[f"{lake.name} log"] = sorted(log.drop([c for c in log.columns if "emitted" in c]).rows(), key=repr)
    last = Journal(record_files(state_of(root))).last()
    assert last is not None
    facts["rows"], facts["verdicts"] = last["ledger"]["rows"], last["ledger"]["outputs"]
    return facts


def assert_nothing_lost_or_doubled(root: Path, undisturbed: dict[str, Any]) -> None:
    facts = sinks_of(root)
    assert facts.keys() == undisturbed.keys()
    for name, want in undisturbed.items():
        assert facts[name] == want, name
    live = {p["path"] for p in Journal(record_files(state_of(root))).last()["ledger"]["parts"]}  # type: ignore[index]
    left = set(Store(state_of(root)).files("data"))
    assert left - live == set(), "files that nothing refers to stay behind"


def killed_at(
    point: str, kills: int, lives: Lives, root: Path, landed: Path, undisturbed: dict[str, Any], seed: int = 0
) -> int:
    """Run after run, each killed at the point a few times, until there were enough kills; every run must end right."""
    rng, done, runs = random.Random(f"{point}{seed}"), 0, 0
    while done < kills:
        here = fresh(root / f"{point} {runs}", landed)
        runs += 1
        ended = "killed"
        while ended == "killed":
            how = {"point": point, "times": rng.randint(1, 4)} if done < kills else {}
            ended = lives.live(here, rng.choice([-HOUR, 0, HOUR]), **how)
            done += ended == "killed"
        lives.live(here)
        assert_nothing_lost_or_doubled(here, undisturbed)
        shutil.rmtree(here)
    return done


def killed_at_random(
    kills: int,
    lives: Lives,
    root: Path,
    landed: Path,
    undisturbed: dict[str, Any],
    seed: int,
    prepare: Callable[[Path], Any] = lambda root: None,
) -> int:
    rng, done, runs = random.Random(seed), 0, 0
    while done < kills:
        here = fresh(root / f"random {runs}", landed)
        prepare(here)
        runs += 1
        ended = "killed"
        while ended == "killed":
            how = {"after": rng.uniform(0.05, 1.5)} if done < kills else {}
            ended = lives.live(here, rng.choice([-HOUR, 0, HOUR]), **how)
            done += ended == "killed"
        lives.live(here)
        assert_nothing_lost_or_doubled(here, undisturbed)
        shutil.rmtree(here)
    return done


def test_killed_once_at_each_named_point_the_sinks_end_the_same(
    lives: Lives, tmp_path: Path, landed: Path, undisturbed: dict[str, Any]
) -> None:
    here = fresh(tmp_path / "run", landed)
    for index, point in enumerate(POINTS):
        assert lives.live(here, (-HOUR, 0, HOUR)[index % 3], point=point, times=1) == "killed", point
    assert lives.live(here) == "done"
    assert_nothing_lost_or_doubled(here, undisturbed)


def test_killed_at_a_few_moments_the_sinks_end_the_same(
    lives: Lives, tmp_path: Path, landed: Path, undisturbed: dict[str, Any]
) -> None:
    assert killed_at_random(4, lives, tmp_path, landed, undisturbed, seed=1) >= 4


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_ten_times_at_each_point_and_a_hundred_times_at_random(
    lives: Lives, tmp_path: Path, landed: Path, undisturbed: dict[str, Any]
) -> None:
    kills = Counter({point: killed_at(point, 10, lives, tmp_path, landed, undisturbed, seed=2) for point in POINTS})
    kills["at random"] = killed_at_random(110, lives, tmp_path, landed, undisturbed, seed=3)
    print(f"\nkills: {dict(kills)}, {kills.total()} in all")
