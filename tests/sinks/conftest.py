"""The real systems, started once for all tests of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sinks.places import PLACES, Place, World
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="session")
def chdb_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("chdb"))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(params=PLACES, ids=lambda kind: kind.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """One kind of sink, at a fresh place of a real system."""
    kind = request.param
    world = World(tmp_path)
    for need in kind.needs:
        setattr(world, need, request.getfixturevalue(need))
    made = kind(world)
    yield made
    made.close()
