"""A run whose state is in an object store: killed anywhere it ends as one that was not, and it asks little of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_driver import Here, Listed, pipeline
from landing import land, lane_rows
from test_crash import Lives, fresh, killed_at_random, sinks_of
from tests.support.faults import Breaking
from tests.support.object_store import ObjectStore, environment_at

from eventide.engine.run import Run
from eventide.errors import StoreError
from eventide.storage.objects import ObjectFiles

KILLS = 20
MOST = 60
"""Requests for a quiet batch with two buckets."""


@pytest.fixture
def lives(lake: str, tmp_path: Path) -> Iterator[Lives]:
    """Processes to which the environment says where the store is."""
    started = Lives(tmp_path / "errors.txt")
    yield started
    started.close()


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    land(tmp_path / "landed", lane_rows(1_500), [4, 3, 3, 2], "unevenly")
    return tmp_path / "landed"


def test_killed_twenty_times_a_run_on_an_object_store_ends_as_an_undisturbed_one_on_a_disk(
    lives: Lives, lake: str, landed: Path, tmp_path: Path
) -> None:
    undisturbed = fresh(tmp_path / "undisturbed", landed)
    assert lives.live(undisturbed) == "done"
    want = sinks_of(undisturbed)

    def elsewhere(where: Path) -> None:
        (where / "state_is_at").write_text(f"{lake}/{where.name.replace(' ', '-')}")

    kills = killed_at_random(KILLS, lives, tmp_path, landed, want, seed=5, prepare=elsewhere)
    assert kills >= KILLS


def requests_by_batch(lake: str, root: Path, store: ObjectStore) -> list[int]:
    """What each batch of one file asked of the store; the last one has no file."""
    (root / "state_is_at").write_text(lake)
    files = sorted((p.stat().st_mtime_ns // 1_000_000 * 1000, str(p)) for p in (root / "in").glob("*/*.parquet"))
    run = Run(pipeline(root), Here(), lake)
    counted: list[int] = []
    run.open()
    for number, batch in enumerate([*([file] for file in files), []]):
        before = len(store.requests())
        run.batch(Listed([(path, at) for at, path in batch]), number)
        counted.append(len(store.requests()) - before)
    run.close()
    return counted


def test_a_quiet_batch_asks_little_of_the_store(lake: str, landed: Path, tmp_path: Path, object_store: ObjectStore) -> None:
    """Two buckets, three outputs. A quiet batch brings nothing, or rows that close no window; those that close some may ask for more."""
    counted = requests_by_batch(lake, fresh(tmp_path / "run", landed), object_store)
    print(f"\nrequests of {len(counted) - 1} batches with one file each: {counted[:-1]}; of one without: {counted[-1]}")
    assert counted[-1] <= MOST / 3
    assert sorted(counted)[len(counted) // 2] <= MOST / 2
    assert max(counted) <= 2 * MOST


@pytest.mark.parametrize("faults", [10, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_over_a_line_that_breaks_a_run_never_takes_its_own_record_for_another_s(
    lake: str, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, faults: int
) -> None:
    """An answer may be lost after the record was written: sent again, the record is there already."""
    healthy, said = ObjectFiles(lake), {True: 0, False: 0, None: 0}
    with Breaking(object_store.port, seed=3, share=0.4, reach=4_000) as line:
        for name, value in environment_at(line.port).items():
            monkeypatch.setenv(name, value)
        broken = ObjectFiles(lake)

        def step(number: int) -> None:
            body = f"record {number}".encode() * 50
            try:
                answer = broken.create(f"journal/{number}", body)
            except StoreError:
                said[None] += 1
                return
            said[answer] += 1
            assert healthy.read(f"journal/{number}") == body

        line.until(faults, step)
        print(f"\n{line.counts}; created {said[True]}, unknown {said[None]}")
    assert said[True] and not said[False]
