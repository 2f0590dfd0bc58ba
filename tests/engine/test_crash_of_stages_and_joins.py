"""Law 6 with stages and joins in the pipeline: killed anywhere and restarted, the sinks end in the same tables as an undisturbed run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_driver import POINTS
from landing import land, lane_rows
from test_crash import HOUR, Lives, assert_nothing_lost_or_doubled, fresh, killed_at_random, sinks_of

FILLED = {
    "staged": ("minutes", "fives", "halves", "crowds", "staged_dead_letters"),
    "joined": ("pairs", "pairs_late", "lake", "joined_dead_letters"),
    "windows over pairs": ("pairs", "minutes", "joined_dead_letters"),
}
"""What must not be empty, or the proof would be hollow."""
ROWS = 2_000
KILLS = int(os.environ.get("EVENTIDE_KILLS", "120"))
Facts = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    started = Lives(tmp_path_factory.mktemp("lives") / "errors.txt")
    yield started
    started.close()


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed") / "in"
    land(root, lane_rows(ROWS), [6, 5, 4, 4], "unevenly")
    return root


@pytest.fixture(scope="module")
def undisturbed(lives: Lives, landed: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    found: dict[str, dict[str, Any]] = {}

    def of(kind: str) -> dict[str, Any]:
        if kind not in found:
            root = fresh(tmp_path_factory.mktemp("undisturbed") / "run", landed)
            (root / "pipeline").write_text(kind)
            assert lives.live(root) == "done"
            found[kind] = sinks_of(root)
            assert all(found[kind][name] for name in FILLED[kind])
        return found[kind]

    return of


@pytest.mark.parametrize("kind", FILLED)
def test_killed_once_at_each_named_point(lives: Lives, tmp_path: Path, landed: Path, undisturbed: Facts, kind: str) -> None:
    want, here = undisturbed(kind), fresh(tmp_path / "run", landed)
    (here / "pipeline").write_text(kind)
    for index, point in enumerate(p for p in POINTS if p != "compacting"):
        assert lives.live(here, (-HOUR, 0, HOUR)[index % 3], point=point, times=1) == "killed", point
    assert lives.live(here) == "done"
    assert_nothing_lost_or_doubled(here, want)


def killed_at_any_moment(kills: int, kind: str, lives: Lives, where: Path, landed: Path, want: dict[str, Any]) -> int:
    def named(root: Path) -> None:
        (root / "pipeline").write_text(kind)

    return killed_at_random(kills, lives, where, landed, want, seed=kills, prepare=named)


@pytest.mark.parametrize("kind", FILLED)
def test_killed_at_a_few_moments(lives: Lives, tmp_path: Path, landed: Path, undisturbed: Facts, kind: str) -> None:
    assert killed_at_any_moment(3, kind, lives, tmp_path, landed, undisturbed(kind)) >= 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_any_moment(lives: Lives, tmp_path: Path, landed: Path, undisturbed: Facts) -> None:
    kills = Counter[str]()
    for kind in FILLED:
        (tmp_path / kind).mkdir()
        kills[kind] = killed_at_any_moment(KILLS // len(FILLED), kind, lives, tmp_path / kind, landed, undisturbed(kind))
    print(f"\nkills: {dict(kills)}, {kills.total()} in all")
