"""What only Redis does: forgetting by W, a key that is somebody else's, and a server that goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide import sinks
from eventide.errors import DefinitionError, SinkRefused, SinkUnavailable
from eventide.sinks import Retry
from tests.sinks.panes import BASE, MINUTE, SHAPE, batch, delivery, pane
from tests.sinks.places import Redis, World
from tests.support.redis_server import RedisServer


@pytest.fixture
def place(redis_server: RedisServer, tmp_path: Path) -> Redis:
    world = World(tmp_path)
    world.redis_server = redis_server
    return Redis(world)


def test_results_are_forgotten_by_w_with_their_ranks_and_never_come_back(place: Redis) -> None:
    writer = place.sink(keep="10 minutes").open(place.output, SHAPE)
    old, new = pane("old", 0, slot=0, total=1, n=1), pane("new", 0, slot=30, total=2, n=1)
    writer.deliver(batch([old]), delivery(place.output, 0, BASE + MINUTE))
    writer.deliver(batch([new]), delivery(place.output, 1, BASE + 31 * MINUTE))
    writer.deliver(batch([pane("old", 1, slot=0, total=9, n=1)]), delivery(place.output, 2, BASE + 31 * MINUTE))
    writer.close()
    assert [row["window_id"] for row in place.rows(SHAPE)] == ["new"]
    with place.client() as client:
        assert client.hkeys(f"{place.output}:ranks") == [b"new"] == client.zrange(f"{place.output}:ends", 0, -1)


def test_more_panes_than_a_call_takes_are_one_transaction(place: Redis) -> None:
    writer = place.sink().open(place.output, SHAPE)
    writer.deliver(batch([pane(f"w{number}", 0, total=number, n=1) for number in range(2_500)]), delivery(place.output, 0))
    writer.close()
    assert len(place.rows(SHAPE)) == 2_500


def test_a_key_that_is_no_hash_is_refused_by_name(place: Redis) -> None:
    with place.client() as client:
        client.set(place.output, "mine")
    with pytest.raises(SinkRefused, match=r"holds a string.*key="):
        place.sink().open(place.output, SHAPE)


@pytest.mark.parametrize("beside", [":ranks", ":ends"])
def test_so_are_the_keys_beside_it(place: Redis, beside: str) -> None:
    with place.client() as client:
        client.set(f"{place.output}{beside}", "mine")
    with pytest.raises(SinkRefused, match=rf"{beside}' in .* holds a string.*key="):
        place.sink().open(place.output, SHAPE)


def test_a_server_that_is_not_there_is_waited_for_and_an_address_of_another_kind_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkUnavailable, match="gave up"):
        sinks.redis(f"unix://{tmp_path}/none.sock", retry=Retry(give_up_after=0)).open("o", SHAPE)
    with pytest.raises(DefinitionError, match="no address of a Redis server"):
        sinks.redis("http://:hunter2@localhost")
