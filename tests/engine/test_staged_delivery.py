"""Large deliveries brought to PostgreSQL by the executors: the same table as through one process, whatever dies in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from inline import InlineRunner
from staged_driver import pipeline, run
from tests.support.postgres import PASSWORD, PostgresServer

from eventide.engine.batch.staging import deliver_staged
from eventide.errors import SinkRefused, StagedPartsLost
from eventide.sinks import Delivery, Retry, postgres
from eventide.sinks.kinds.postgres import PostgresWriter
from eventide.state.store import Store

HERE = Path(__file__).parent
BASE = 1_760_000_040_000_000
SECOND = 1_000_000
BANKS = 1_000


def land(root: Path) -> None:
    """Every bank pays in the first minute; half of them once more, late; then a payment closes all."""
    (root / "in").mkdir(parents=True)
    instant = pl.Datetime("us", "UTC")

    def write(number: int, banks: list[str], at: int, arrived: int, paise: int) -> None:
        frame = pl.DataFrame({"bank": banks}).with_columns(
            pl.lit(at).cast(instant).alias("at"), pl.lit(arrived).cast(instant).alias("arrived"), pl.lit(paise).alias("paise")
        )
        path = root / "in" / f"{number}.parquet"
        frame.write_parquet(path)
        os.utime(path, (1_760_000_000 + number, 1_760_000_000 + number))

    banks = [f"bank-{n}" for n in range(BANKS)]
    write(0, banks, BASE, BASE, 5)
    write(1, ["closes"], BASE + 120 * SECOND, BASE + 120 * SECOND, 0)
    write(2, banks[: BANKS // 2], BASE + SECOND, BASE + 121 * SECOND, 7)
    write(3, ["closes"], BASE + 300 * SECOND, BASE + 300 * SECOND, 0)


def totals(server: PostgresServer, table: str) -> dict[str, tuple[int, int, int]]:
    with psycopg.connect(server.dsn) as connection:
        rows = connection.execute(f"select bank, total, n, sequence from {table} where bank <> 'closes'").fetchall()
    assert len(rows) == len({row[0] for row in rows})
    return {bank: (int(total), n, sequence) for bank, total, n, sequence in rows}


EXPECTED = {f"bank-{n}": (12, 2, 1) if n < BANKS // 2 else (5, 1, 0) for n in range(BANKS)}


def left_over(server: PostgresServer) -> int:
    with psycopg.connect(server.dsn) as connection:
        found = connection.execute("select count(*) from pg_class where relname like 'eventide_staged_%'").fetchone()
    assert found is not None
    return int(found[0])


@pytest.fixture
def table() -> str:
    return f"staged_{uuid.uuid4().hex[:8]}"


def test_large_deliveries_go_through_the_executors_and_may_be_repeated(
    spark: Any, postgres_server: PostgresServer, tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path)
    through_driver: list[int] = []
    deliver = PostgresWriter.deliver

    def small(self: PostgresWriter, panes: Any, delivery: Delivery) -> None:
        panes = list(panes)
        through_driver.append(sum(batch.num_rows for batch in panes))
        deliver(self, panes, delivery)

    monkeypatch.setattr(PostgresWriter, "deliver", small)
    failures = iter([None, None, RuntimeError("before the commit")])

    def once(point: str) -> None:
        if point == "deliver" and (failure := next(failures, None)):
            raise failure

    made = pipeline(tmp_path, postgres_server.dsn, table)
    with pytest.raises(Exception, match="before the commit"):
        run(made, spark, once)
    assert totals(postgres_server, table) == EXPECTED, "delivered, but not committed"
    run(made, spark)  # the same batch is staged and merged again
    assert totals(postgres_server, table) == EXPECTED
    assert left_over(postgres_server) == 0
    assert max(through_driver) < 500, "only small deliveries go through the driver"


def test_killed_between_staging_and_merge_nothing_is_lost_and_nothing_left_over(
    spark: Any, postgres_server: PostgresServer, tmp_path: Path, table: str
) -> None:
    land(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(HERE / "staged_driver.py"), str(tmp_path), postgres_server.dsn, table]
    killed = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, start_new_session=True)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "staged 4\n"), killed.stderr[-3000:]
    assert left_over(postgres_server) == 4
    assert totals(postgres_server, table) == {}, "readers saw half a delivery"
    run(pipeline(tmp_path, postgres_server.dsn, table), spark)
    assert totals(postgres_server, table) == EXPECTED
    assert left_over(postgres_server) == 0


class Crashing(InlineRunner):
    """Stages, then takes the server down so many times: its unlogged tables are empty when it is back."""

    def __init__(self, server: PostgresServer, times: int) -> None:
        self.server, self.times = server, times

    def run(self, tasks: Any) -> list[str]:
        lines = super().run(tasks)
        if self.times:
            self.times -= 1
            self.server.stop(signal.SIGQUIT)
            self.server.start()
        return lines


@pytest.mark.parametrize(("crashes", "tries"), [(1, 2), (3, 3)])
def test_parts_that_a_crash_of_the_server_emptied_are_staged_again(tmp_path: Path, crashes: int, tries: int) -> None:
    from tests.sinks.panes import SHAPE, batch, expected, random_log, seen
    from tests.sinks.places import Postgres, World

    panes = [pane for number in range(60) for pane in random_log(number)]
    store = Store(str(tmp_path))
    files = [
        store.write_table("panes/o", 0, f"part-{nth}", frame)
        for nth, part in enumerate((panes[::2], panes[1::2]))
        if isinstance(frame := pl.from_arrow(batch(part)[0]), pl.DataFrame)
    ]
    server = PostgresServer().start()
    try:
        place = Postgres(World(tmp_path, postgres_server=server))
        writer = place.sink(retry=Retry(give_up_after=20, first=0.05)).open("o", SHAPE)
        facts = Delivery("p", "o", 0, 0)
        runner = Crashing(server, crashes)
        if crashes < tries:
            deliver_staged(writer, runner, store, files, SHAPE.schema, facts)
            assert seen(place.rows(SHAPE, "o")) == expected(panes)
        else:
            with pytest.raises(StagedPartsLost):
                deliver_staged(writer, runner, store, files, SHAPE.schema, facts)
            assert place.rows(SHAPE, "o") == []
        writer.close()
    finally:
        server.remove()


def test_what_an_executor_is_told_keeps_its_kind_and_no_password(
    spark: Any, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    from tests.sinks.panes import SHAPE, batch, pane

    from eventide.engine.batch.runner import SparkRunner

    frame = pl.from_arrow(batch([pane("w", 0, total=1, n=1)])[0])
    assert isinstance(frame, pl.DataFrame)
    store = Store(str(tmp_path))
    files = [store.write_table("panes/o", 0, "all", frame)]
    writer = postgres(postgres_server.dsn, f"o{uuid.uuid4().hex[:6]}").open("o", SHAPE)
    wrong = postgres(postgres_server.dsn.replace(PASSWORD, "wr0ng-pass")).writer(
        postgres(postgres_server.dsn.replace(PASSWORD, "wr0ng-pass")).database(), writer.target, SHAPE
    )
    with pytest.raises(SinkRefused, match="wrong user name or password") as caught:
        deliver_staged(wrong, SparkRunner(spark), store, files, SHAPE.schema, Delivery("p", "o", 0, 0))
    assert "wr0ng-pass" not in str(caught.value)
