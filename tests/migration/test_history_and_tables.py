"""History filled and brought back; tables changed step by step, none before its phase."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import polars as pl
import pytest

from eventide.migration.data import history
from eventide.migration.data.history import HistoryRefused, fill
from eventide.migration.data.sql.database import TableRefused, connect
from eventide.migration.data.sql.loss import losses
from eventide.migration.data.sql.run import planned, run_next
from eventide.migration.data.sql.steps import Comparison
from eventide.migration.data.upcast import Upcast
from eventide.migration.faults import PlanRefused
from eventide.migration.plan.planning import expanded, propose
from eventide.migration.plan.shape import language
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from tests.migration.desk import CREATED_AT, FARE, PRICING, RENAME, SIGNUP_DATE, USER_ID, record
from tests.migration.test_drift import FARES, FOUR, rides

PLAN = propose("AVRO", record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), said=RENAME)
LEAVES = language("AVRO").leaves(expanded(PLAN, record(USER_ID, SIGNUP_DATE)))


@pytest.fixture
def landed(tmp_path):
    for day in range(4):
        directory = tmp_path / "in" / f"day={day}"
        directory.mkdir(parents=True)
        rides(100 * (day + 1)).tail(100).drop("pricing").write_parquet(directory / "part.parquet")
    return tmp_path / "in"


def everything(path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(p, hive_partitioning=False) for p in sorted(path.rglob("*.parquet"))], how="diagonal")


def test_a_backfill_that_was_stopped_goes_on_where_it_was(landed, monkeypatch):
    how = Upcast.of(FARES, keep=True)
    done, write = [], history._rewrite

    def dies(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(write(*arguments))
        return done[-1]

    monkeypatch.setattr(history, "_rewrite", dies)
    with pytest.raises(KeyboardInterrupt):
        fill(str(landed), how, "m")
    monkeypatch.undo()
    assert fill(str(landed), how, "m") == history.Filled(2, 2, 200)
    assert fill(str(landed), how, "m") == history.Filled(0, 4, 0)
    found = everything(landed)
    assert found.columns == ["ride_id", "fare_cents", "pricing"]
    assert found["pricing"].struct.field("base").to_list() == found["fare_cents"].to_list()
    # A file that came later, or was replaced, is done then.
    rides(10).drop("pricing").write_parquet(landed / "day=0" / "late.parquet")
    assert fill(str(landed), how, "m").rows == 10


def test_a_crash_between_file_and_mark_repeats_the_file_alike(landed):
    how = Upcast.of(FARES, keep=True)
    fill(str(landed), how, "m")
    before = everything(landed)
    for mark in (landed / history.MARKS / "m").iterdir():
        mark.unlink()
    assert fill(str(landed), how, "m").files == 4
    assert everything(landed).equals(before)


DYING = """
import os, sys
from eventide.migration.data.history import fill
from eventide.migration.data.upcast import Upcast
from tests.migration.test_drift import FARES

left, replace = int(sys.argv[2]), os.replace

def dying(one, other):
    global left
    for step in (lambda: None, lambda: replace(one, other)):
        step()
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)

os.replace = dying
fill(sys.argv[1], Upcast.of(FARES, keep=True), "m")
"""


@pytest.mark.parametrize("point", range(1, 7))
def test_a_backfill_killed_around_any_rename_leaves_whole_files_and_goes_on(landed, point):
    before = everything(landed)
    ran = subprocess.run([sys.executable, "-c", DYING, str(landed), str(point)], check=False)
    assert ran.returncode == -9
    assert everything(landed).select(before.columns).equals(before)
    fill(str(landed), Upcast.of(FARES, keep=True), "m")
    found = everything(landed)
    assert found.select(before.columns).equals(before)
    assert found["pricing"].struct.field("base").to_list() == found["fare_cents"].to_list()
    assert fill(str(landed), Upcast.of(FARES, keep=True), "m").files == 0


def test_a_file_that_came_anew_under_its_name_is_done_again(landed, tmp_path):
    how, out = Upcast.of(FARES, keep=True), str(tmp_path / "out")
    fill(str(landed), how, "m", target=out)
    assert fill(str(landed), how, "m", target=out).files == 0
    path = landed / "day=0" / "part.parquet"
    path.write_bytes(path.read_bytes())  # the same size, another moment
    assert fill(str(landed), how, "m", target=out).files == 1


def test_a_dropped_field_is_rebuilt_as_it_was_recorded_and_computed_where_it_was_not(tmp_path):
    both = rides(100).with_columns(fare_cents=pl.col("fare_cents") + (pl.col("ride_id") == 7))  # one was recorded otherwise
    (tmp_path / "dual").mkdir()
    (tmp_path / "now").mkdir()
    both.head(60).write_parquet(tmp_path / "dual" / "a.parquet")
    rides(100).drop("fare_cents").write_parquet(tmp_path / "now" / "a.parquet")
    how = Upcast.of(FARES, "old", keep=True)
    fill(str(tmp_path / "now"), how, "m-old", target=str(tmp_path / "out"), history=str(tmp_path / "dual"), key=("ride_id",))
    found = everything(tmp_path / "out").sort("ride_id")
    assert found["fare_cents"].to_list() == both["fare_cents"].to_list()
    with pytest.raises(HistoryRefused, match="--key"):
        fill(str(tmp_path / "now"), how, "x", target=str(tmp_path / "other"), history=str(tmp_path / "dual"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(HistoryRefused, match="no Parquet files"):
        fill(str(tmp_path / "empty"), how, "x")


def at(phase: Phase, plan=PLAN) -> Migration:
    return Migration("m", "users", plan, 0, phase=phase)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, signup_date TEXT, name TEXT)")
        rows = [(i, str(d), f"u{i}") for i, d in FOUR.select("user_id", "signup_date").iter_rows()]
        connection.executemany("INSERT INTO users VALUES (?, ?, ?)", [*rows, (5, None, "u5")])
    return f"sqlite:///{path}"


def test_a_table_follows_the_phases(database):
    here = connect(database)
    assert run_next(here, at(Phase.PLAN), "users", LEAVES) == []
    assert run_next(here, at(Phase.EXPAND), "users", LEAVES) == ["add created_at", "fill created_at"]
    assert here.run('SELECT user_id, created_at FROM "users" ORDER BY 1')[0] == [
        (1, "2025-09-14 00:00:00"), (2, "2025-09-15 00:00:00"), (3, "2025-09-16 00:00:00"), (4, "2025-09-17 00:00:00"), (5, None),
    ]  # fmt: skip
    assert run_next(here, at(Phase.EXPAND), "users", LEAVES) == []
    with pytest.raises(TableRefused, match="'view' may run from migrate on, and m is in dual_write"):
        run_next(here, at(Phase.DUAL_WRITE), "users", LEAVES, upto="view")
    assert run_next(here, at(Phase.MIGRATE), "users", LEAVES) == ["view"]
    assert here.run('SELECT * FROM "v_users" WHERE user_id = 1')[0] == [(1, "u1", "2025-09-14 00:00:00")]
    with pytest.raises(TableRefused, match="'drop signup_date' may run from contracted on"):
        run_next(here, at(Phase.CONTRACT_READY), "users", LEAVES, upto="drop signup_date")
    assert here.columns("users") == ["user_id", "signup_date", "name", "created_at"]
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == ["drop signup_date"]
    assert here.columns("users") == ["user_id", "name", "created_at"]
    assert all(done for _, done in planned(here, at(Phase.CONTRACTED), "users", LEAVES))


def test_a_step_that_fails_leaves_nothing_behind_and_one_done_by_hand_is_taken_as_done(database):
    here = connect(database)
    here.run('ALTER TABLE "users" ADD COLUMN "created_at" TEXT')
    assert run_next(here, at(Phase.EXPAND), "users", LEAVES, upto="add created_at") == ["add created_at"]
    here.run('CREATE VIEW "v_users" AS SELECT 1')
    with pytest.raises(TableRefused, match=r"Step 'view' failed, and what it had begun was undone: .* already exists"):
        run_next(here, at(Phase.MIGRATE), "users", LEAVES)
    assert [step.name for step, done in planned(here, at(Phase.MIGRATE), "users", LEAVES) if not done] == [
        "view",
        "drop signup_date",
    ]


def test_rows_of_the_old_shape_that_came_after_the_fill_are_filled_before_the_drop(database):
    here = connect(database)
    run_next(here, at(Phase.EXPAND), "users", LEAVES)
    here.run("INSERT INTO users (user_id, signup_date) VALUES (6, '2025-09-20')")
    assert run_next(here, at(Phase.MIGRATE), "users", LEAVES) == ["fill created_at", "view"]
    here.run("INSERT INTO users (user_id, signup_date) VALUES (7, '2025-09-21')")
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == ["fill created_at", "drop signup_date"]
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == []
    assert here.run("SELECT COUNT(*), COUNT(created_at) FROM users")[0] == [(7, 6)]  # one never had a date


def test_a_column_is_not_dropped_while_it_holds_what_the_new_shape_has_not(database):
    here = connect(database)
    here.run("UPDATE users SET signup_date = 'long ago' WHERE user_id = 2")
    with pytest.raises(TableRefused, match="would lose 1 value of users that the new shape does not have"):
        run_next(here, at(Phase.CONTRACTED), "users", LEAVES)
    assert "signup_date" in here.columns("users")
    here.run("UPDATE users SET created_at = '2000-01-01 00:00:00' WHERE user_id = 2")
    with pytest.raises(TableRefused, match="signup_date is 'long ago', and the new shape says '2000-01-01'"):
        run_next(here, at(Phase.CONTRACTED), "users", LEAVES)
    here.run("UPDATE users SET signup_date = NULL WHERE user_id = 2")
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == ["drop signup_date"]


def test_a_value_changed_after_the_fill_keeps_its_column_with_the_count_and_examples(database):
    here = connect(database)
    run_next(here, at(Phase.MIGRATE), "users", LEAVES)
    here.run(
        "UPDATE users SET signup_date = '2031-01-0' || user_id WHERE user_id IN (2, 3)"
    )  # by an application of the old shape
    with pytest.raises(TableRefused) as refusal:
        run_next(here, at(Phase.CONTRACTED), "users", LEAVES)
    said = str(refusal.value)
    assert "would lose 2 values of users" in said
    assert "user_id 2: signup_date is '2031-01-02', and the new shape says '2025-09-15'" in said
    assert "user_id 3: signup_date is '2031-01-03', and the new shape says '2025-09-16'" in said
    assert here.run("SELECT signup_date FROM users WHERE user_id = 2")[0] == [("2031-01-02",)]
    here.run("UPDATE users SET created_at = datetime(signup_date) WHERE user_id IN (2, 3)")
    assert run_next(here, at(Phase.CONTRACTED), "users", LEAVES) == ["drop signup_date"]


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM", "BINARY"])
def test_a_collation_that_takes_two_texts_for_the_same_hides_no_loss(tmp_path, collation):
    path = tmp_path / "names.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"CREATE TABLE names (id INTEGER PRIMARY KEY, old TEXT COLLATE {collation}, new TEXT COLLATE {collation})"
        )
        connection.executemany(
            "INSERT INTO names VALUES (?, ?, ?)", [(1, "McKay", "Mckay"), (2, "x", "x"), (3, "y ", "y"), (4, None, "z")]
        )
    said = losses(connect(f"sqlite:///{path}"), "names", "old", Comparison('"new"', ("new",)))
    assert said is not None and "would lose 2 values" in said
    assert "id 1: old is 'McKay', and the new shape says 'Mckay'" in said and "id 3: old is 'y '" in said


def test_of_several_new_columns_one_that_was_changed_keeps_the_old_column(tmp_path):
    path = tmp_path / "rides.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rides (fare_cents INTEGER)")  # without a key: rows are named by their rowid
        connection.executemany("INSERT INTO rides VALUES (?)", [(900,), (None,), (100,)])
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    leaves = language("AVRO").leaves(expanded(plan, record(USER_ID, FARE)))
    here = connect(f"sqlite:///{path}")
    run_next(here, at(Phase.MIGRATE, plan), "rides", leaves)
    here.run("UPDATE rides SET pricing_tax = 70 WHERE fare_cents = 900")
    with pytest.raises(TableRefused, match="rowid 1: fare_cents is 900, and the new shape says 970"):
        run_next(here, at(Phase.CONTRACTED, plan), "rides", leaves)
    here.run("UPDATE rides SET pricing_base = 830 WHERE fare_cents = 900")  # knows more, says the same
    assert run_next(here, at(Phase.CONTRACTED, plan), "rides", leaves) == ["drop fare_cents"]


def test_what_is_wrong_with_a_database_a_table_or_a_step_is_said(database, tmp_path):
    with pytest.raises(TableRefused, match="There is no SQLite file"):
        connect(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(TableRefused, match="does not let us in"):
        connect("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(PlanRefused, match="There is no table usrs"):
        run_next(connect(database), at(Phase.EXPAND), "usrs", LEAVES)
    with pytest.raises(
        TableRefused, match="'drop all' is no step of m; take one of 'add created_at', 'fill created_at', 'view'"
    ):
        run_next(connect(database), at(Phase.EXPAND), "users", LEAVES, upto="drop all")


def test_an_aborted_migration_changes_no_table(database):
    assert run_next(connect(database), at(Phase.ABORTED), "users", LEAVES) == []


def test_large_tables_are_filled_in_small_transactions(tmp_path):
    path = tmp_path / "rides.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rides (ride_id INTEGER PRIMARY KEY, fare_cents INTEGER)")
        connection.executemany("INSERT INTO rides VALUES (?, ?)", rides(25_000).select("ride_id", "fare_cents").iter_rows())
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    leaves = language("AVRO").leaves(expanded(plan, record(USER_ID, FARE)))
    here = connect(f"sqlite:///{path}")
    run_next(here, at(Phase.EXPAND, plan), "rides", leaves)
    assert here.run("SELECT COUNT(*), SUM(pricing_base) = SUM(fare_cents), SUM(pricing_tax) FROM rides")[0] == [(25_000, 1, 0)]
