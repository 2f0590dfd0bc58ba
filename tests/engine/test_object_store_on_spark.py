"""State in an object store with nothing stood in for but the store: Spark's own checkpoint is there too, by s3a."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from landing import land, lane_rows
from test_crash import HOUR, assert_nothing_lost_or_doubled, sinks_of
from test_crash_on_spark import life, prepared
from tests.support.object_store import ObjectStore

KILLS = 5
MOST = 60
"""Requests for a quiet batch, which closes no window; those that close some may ask for twice as many."""


def elsewhere(root: Path, place: str) -> Path:
    (root / "state_is_at").write_text(place)
    return root


def by_batch(asked: list[str]) -> list[int]:
    """How many requests were made up to each commit, from the one before it on."""
    commits = [number for number, line in enumerate(asked, 1) if line.startswith("PUT") and "/journal/commit-" in line]
    return [upto - since for since, upto in zip([0, *commits], commits, strict=False)]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_spark_process_with_its_state_in_an_object_store_ends_as_one_with_its_state_on_a_disk(
    lake: str, object_store: ObjectStore, tmp_path: Path
) -> None:
    landed = tmp_path / "landed"
    land(landed, lane_rows(1_500), [4, 3, 3, 2], "unevenly")
    on_disk = prepared(tmp_path / "on disk", landed)
    assert life(on_disk, 0, None) == "done"
    want = sinks_of(on_disk)

    before = len(object_store.requests())
    undisturbed = elsewhere(prepared(tmp_path / "undisturbed", landed), f"{lake.replace('s3a://', 's3://')}/undisturbed")
    assert life(undisturbed, 0, None) == "done"
    assert_nothing_lost_or_doubled(undisturbed, want)
    asked = object_store.requests()[before:]
    own, sparks = by_batch([line for line in asked if "checkpoint" not in line]), sum("checkpoint" in line for line in asked)
    print(
        f"\n{len(own)} batches: {own} requests, the first with the start; and {sparks / len(own):.0f} each about Spark's checkpoint"
    )
    assert min(own) <= MOST and max(own) <= 2 * MOST

    killed = elsewhere(prepared(tmp_path / "killed", landed), f"{lake}/killed")
    rng, kills = random.Random(4), []
    while (
        ended := life(
            killed, rng.choice([-HOUR, 0, HOUR]), rng.randint(0, 1) if len(kills) < KILLS else None, rng.uniform(0, 6)
        )
    ) != "done":
        kills.append(ended)
    assert_nothing_lost_or_doubled(killed, want)
    print(f"{len(kills)} kills: {kills}")
