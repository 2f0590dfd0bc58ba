"""The same on PostgreSQL: the rollout in its registry, and a table of its own."""

from __future__ import annotations

import threading

import psycopg
import pytest

from eventide.migration.data.sql.database import TableRefused, connect
from eventide.migration.data.sql.loss import losses
from eventide.migration.data.sql.run import run_next
from eventide.migration.data.sql.steps import Comparison
from eventide.migration.rollout.consumer import Shape
from eventide.migration.rollout.phase import Phase
from tests.migration.desk import Desk, field_names
from tests.migration.test_history_and_tables import LEAVES, at
from tests.migration.test_phases import QUICK, declare, drift, go, reads, refused
from tests.registry.conftest import fresh_database, wait_until


@pytest.fixture
def url(postgres_server):
    return fresh_database(str(postgres_server.dsn))


def test_the_rollout_in_a_postgresql_registry(url, tmp_path):
    desk = Desk(tmp_path, url)
    desk.planned(policy=QUICK)
    for step in ("expand", "dual_write"):
        go(desk, step)
    drift(desk, 1, agree=5, differ=1)
    assert "1 of 6 events drift" in refused(desk, "migrate")
    go(desk, "expand")
    go(desk, "dual_write")
    desk.do(lambda r: r.report_drift("m", "p", 2, {"agree": 7}, [{"kind": "differ"}]))
    go(desk, "migrate")
    declare(desk, "billing", "old")
    assert "billing" in refused(desk, "contract_ready")
    desk.now += 1
    declare(desk, "billing", "new")
    desk.now += 1
    reads(desk, "billing", "created_at")
    go(desk, "contract_ready")
    go(desk, "contracted", confirmation="m")
    assert field_names(desk.latest("users")) == ["user_id", "created_at"]
    assert desk.do(lambda r: r.find("m")).phase is Phase.CONTRACTED
    assert desk.do(lambda r: r.tables.consumers("m"))[0].shape is Shape.NEW
    desk.store.close()


def test_a_postgresql_table_follows_the_phases(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE users (user_id BIGINT PRIMARY KEY, signup_date DATE, name TEXT)")
        connection.execute("INSERT INTO users SELECT i, DATE '2025-09-14' + i::int, 'u' FROM generate_series(1, 25000) i")
    here = connect(url)
    assert run_next(here, at(Phase.EXPAND), "users", LEAVES) == ["add created_at", "fill created_at"]
    assert here.run("SELECT COUNT(*) FROM users WHERE created_at::date = signup_date")[0] == [(25_000,)]
    here.run("INSERT INTO users (user_id, signup_date) VALUES (25001, '2025-09-14')")  # by a producer of the old shape
    assert run_next(here, at(Phase.MIGRATE), "users", LEAVES) == ["fill created_at", "view"]
    with pytest.raises(TableRefused):
        run_next(here, at(Phase.CONTRACT_READY), "users", LEAVES, upto="drop signup_date")
    here.run("CREATE VIEW dependent AS SELECT signup_date FROM users")
    with pytest.raises(TableRefused, match=r"Step 'drop signup_date' failed, and what it had begun was undone: .*depend"):
        run_next(here, at(Phase.CONTRACTED), "users", LEAVES)
    here.run("DROP VIEW dependent")
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == ["drop signup_date"]
    assert here.run("SELECT COUNT(created_at) FROM v_users")[0] == [(25_001,)]
    assert here.columns("users") == ["user_id", "name", "created_at"]


def test_a_value_changed_by_a_transaction_that_ends_while_the_drop_waits_is_not_lost(url):
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE users (user_id BIGINT PRIMARY KEY, signup_date TEXT)"
        )  # text, where the schema has a date
        connection.execute("INSERT INTO users VALUES (1, '2025-09-14'), (2, '2025-09-15')")
    here = connect(url)
    run_next(here, at(Phase.MIGRATE), "users", LEAVES)
    refusals = []

    def dropping():
        try:
            run_next(connect(url), at(Phase.CONTRACTED), "users", LEAVES)
        except TableRefused as error:
            refusals.append(str(error))

    with psycopg.connect(url) as other:
        other.execute("UPDATE users SET signup_date = '2031-01-01' WHERE user_id = 2")
        thread = threading.Thread(target=dropping)
        thread.start()
        waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"
        wait_until(lambda: here.run(waiting)[0] == [(1,)])
        other.commit()
    thread.join()
    assert len(refusals) == 1 and "would lose 1 value of users" in refusals[0]
    assert "user_id 2: signup_date is '2031-01-01', and the new shape says '2025-09-15'" in refusals[0]
    assert here.run("SELECT signup_date FROM users ORDER BY user_id")[0] == [("2025-09-14",), ("2031-01-01",)]


def test_a_type_that_takes_two_texts_for_the_same_hides_no_loss(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION citext")
        connection.execute("CREATE TABLE names (id int PRIMARY KEY, old citext, new citext, c char(9), n numeric)")
        connection.execute("INSERT INTO names VALUES (1, 'McKay', 'MCKAY', 'abc', 1.50), (2, 'x', 'x', 'de', 2)")
    here = connect(url)
    said = losses(here, "names", "old", Comparison('"new"', ("new",)))
    assert said is not None and "would lose 1 value" in said and "old is 'McKay', and the new shape says 'MCKAY'" in said
    assert losses(here, "names", "c", Comparison("CASE id WHEN 1 THEN 'abc' ELSE 'de' END", ("new",))) is None
    assert losses(here, "names", "n", Comparison("CASE id WHEN 1 THEN 1.5 ELSE 2.00 END", ("new",))) is None
