"""Parts staged from many executors and applied in one step."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from eventide.errors import StagedPartsLost
from eventide.sinks import StagedWriter
from tests.sinks.panes import SHAPE, batch, delivery, disturbed, expected, random_log, seen
from tests.sinks.places import Postgres, World

PANES = [p for number in range(100) for p in random_log(number, seed=9)]


@pytest.fixture
def place(postgres_server: Any) -> Postgres:
    return Postgres(World(None, postgres_server=postgres_server))


def staged_tables(place: Postgres) -> list[Any]:
    return place.query("select relname from pg_class where relname like 'eventide_staged_%'")


def test_parts_from_many_executors_become_one_table(place: Postgres) -> None:
    writer = place.sink().open(place.output, SHAPE)
    assert isinstance(writer, StagedWriter)
    sent = pickle.dumps(writer)
    parts = list(enumerate(disturbed(PANES, seed=5, cuts=8)))

    def executor(part: tuple[int, list[Any]]) -> str:
        number, panes = part
        return pickle.loads(sent).stage(str(number), batch(panes), delivery(place.output, 0))

    with ThreadPoolExecutor(4) as pool:
        tokens = list(pool.map(executor, [*parts, parts[0]][::-1]))  # one part is tried twice
    assert place.rows(SHAPE) == []
    tokens = sorted(set(tokens))
    writer.deliver_staged(tokens, delivery(place.output, 0))
    assert seen(place.rows(SHAPE)) == expected(PANES)
    assert staged_tables(place) == []
    with pytest.raises(StagedPartsLost):  # the answer to the first call was lost: all is staged and applied again
        writer.deliver_staged(tokens, delivery(place.output, 0))
    writer.deliver_staged([executor(part) for part in parts], delivery(place.output, 0))
    assert seen(place.rows(SHAPE)) == expected(PANES)


def test_a_part_that_a_crash_emptied_is_noticed(place: Postgres) -> None:
    writer = place.sink().open(place.output, SHAPE)
    token = writer.stage("0", batch(PANES), delivery(place.output, 0))
    with psycopg.connect(place.world.postgres_server.dsn) as connection:
        connection.execute(f'truncate "{token.partition(":")[0]}"')
    with pytest.raises(StagedPartsLost, match="staged again"):
        writer.deliver_staged([token], delivery(place.output, 0))
    assert place.rows(SHAPE) == []
    token = writer.stage("0", batch(PANES), delivery(place.output, 0))
    writer.deliver_staged([token], delivery(place.output, 0))
    assert seen(place.rows(SHAPE)) == expected(PANES)


def test_what_a_dead_run_staged_is_cleared_when_the_sink_is_opened(place: Postgres) -> None:
    writer = place.sink().open(place.output, SHAPE)
    writer.stage("0", batch(PANES), delivery(place.output, 0))
    assert len(staged_tables(place)) == 1
    place.sink().open(place.output, SHAPE).close()
    assert staged_tables(place) == []
