"""The rollout from outside: REST and the command line against a running service."""

from __future__ import annotations

import json
import sqlite3

import polars as pl
import pytest
from click.testing import CliRunner

from eventide.cli.main import main
from eventide.migration.rollout.service import Migrations
from eventide.registry.client import RegistryClient, RegistryRefused
from eventide.registry.service import Options
from eventide.registry.service.auth import Accounts, hashed
from tests.migration.conftest import Shell
from tests.migration.desk import CREATED_AT, SIGNUP_DATE, USER_ID, field_names, record
from tests.migration.test_drift import FOUR
from tests.registry.conftest import InThread

QUICK = ["--set", "hold_dual_write=0 s", "--set", "drift_free=0 s", "--set", "retention=0 s"]


def report(client, batch=1, **counts):
    body = {"source": "p", "batch": batch, **(counts or {"agree": 10})}
    return client.call("POST", "/eventide/v1/migrations/signup/drift", body)


def test_the_whole_way_on_the_command_line(shell, client, wanted):
    said = shell("plan", "users-value", wanted, "--name", "signup", *QUICK)
    assert "rename  signup_date -> created_at   GUESS" in said and "confirm signup --accept-guesses" in said
    assert "created_at = CAST(signup_date AS TIMESTAMP)" in said
    assert "--accept-guesses" in shell("confirm", "signup", exits=1)
    shell(
        "edit",
        "signup",
        "--forward",
        "created_at=CAST(signup_date AS TIMESTAMP)",
        "--backward",
        "signup_date=CAST(created_at AS DATE)",
    )
    shell("confirm", "signup")
    assert "signup goes from plan to expand" in shell("advance", "signup", "--to", "expand", "--because", "the sprint begins")
    assert "signup is in expand" in shell("advance", "signup", "--to", "expand")
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "signup_date", "created_at"]

    with pytest.raises(
        RegistryRefused, match="drops signup_date, the old shape of migration 'signup', which is in expand"
    ) as refusal:
        client.register("users-value", record(USER_ID, {**CREATED_AT, "type": ["null", "long"], "default": None}))
    with pytest.raises(RegistryRefused, match="drops signup_date, the old shape"):  # rather than what the level thinks of it
        client.register("users-value", record(USER_ID, CREATED_AT))
    assert (refusal.value.status, refusal.value.code) == (409, 40961)

    assert "signup is in expand. Say where to: `eventide migrate advance signup --to dual_write`" in shell(
        "advance", "signup", exits=2
    )
    assert "SHUT  consumers_moved" not in shell("can-contract", "signup", exits=1)
    assert "SHUT  drift_zero" in shell("can-contract", "signup", exits=1)  # what the contract waits for, from the first day
    for _ in range(2):
        shell("advance", "signup", "--to", "dual_write")
    assert "SHUT  events_checked" in shell("status", "signup")
    report(client)
    shell("advance", "signup", "--to", "migrate")
    shell("declare", "signup", "billing", "--reads", "old", "--owner", "team money", "--expected-by", "2030-01-01")
    assert "waiting       billing  owned by team money  reads the old shape" in shell("consumers", "signup")
    assert "no: signup cannot go from migrate to contract_ready" in shell("can-contract", "signup", exits=1)
    shell("declare", "signup", "billing", "--reads", "new")
    client.call("POST", "/eventide/v1/subjects/users-value/selected", {"client": "billing", "columns": ["created_at"]})
    assert shell("can-contract", "signup").endswith("yes\n")
    shell("advance", "signup", "--to", "contract_ready")
    assert "cannot be undone" in shell("contract", "signup", exits=1)
    for _ in range(2):
        shell("contract", "signup", "--confirm", "signup")
    assert shell("can-contract", "signup").endswith("yes\n")
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "created_at"]
    assert shell("list") == "no migration is open; --all shows those that are over\n"
    assert "signup  contracted  users-value  signup_date -> created_at" in shell("list", "--all")
    assert "contracted and stays so" in shell("abort", "signup", exits=1)

    log = client.call("GET", "/eventide/v1/audit", subjectPrefix="users-value")
    moved = [(line["outcome"], line["detail"].get("to"), line["reason"]) for line in log if line["action"] == "move_migration"]
    assert ("done", "expand", "the sprint begins") in moved
    assert [m[1] for m in moved if m[0] == "done"] == ["expand", "dual_write", "migrate", "contract_ready", "contracted"]
    assert ("refused", None, "") in moved
    assert any(line["action"] == "register" and line["outcome"] == "refused" for line in log)


def test_rollback_and_abort(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    report(client)
    shell("advance", "signup", "--to", "migrate")
    assert "rollback signup --to dual_write" in shell("rollback", "signup", exits=2)
    assert "goes from migrate to dual_write" in shell("rollback", "signup", "--to", "dual_write")
    assert "signup is in dual_write" in shell("rollback", "signup", "--to", "dual_write")  # said twice, done once
    assert "migrate is ahead of it: `eventide migrate advance" in shell("rollback", "signup", "--to", "migrate", exits=1)
    assert "goes from dual_write to plan" in shell("rollback", "signup", "--to", "plan")
    shell("rollback", "signup", "--to", "plan", "--withdraw")  # on second thoughts, also that
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "signup_date"]
    assert "there is nowhere to go back to" in shell("rollback", "signup", exits=2)
    for _ in range(2):
        shell("abort", "signup")
    assert "is aborted and stays so" in shell("advance", "signup", "--to", "expand", exits=1)


def test_an_additive_change_is_told_that_it_needs_none_of_this(shell, client, tmp_path):
    more = tmp_path / "more.avsc"
    more.write_text(record(USER_ID, SIGNUP_DATE, {"name": "x", "type": "int", "default": 0}))
    assert "no migration is needed" in shell("plan", "users-value", str(more))
    assert client.call("GET", "/eventide/v1/migrations") == []


@pytest.mark.parametrize(
    ("method", "tail", "body", "code"),
    [
        ("POST", "", {"subject": "users-value"}, 42261),
        ("POST", "", {"subject": "nobody", "schema": "{}"}, 42261),
        ("POST", "", {"subject": "users-value", "schema": "{"}, 42261),
        (
            "POST",
            "",
            {"subject": "users-value", "schema": '{"type":"record","name":"R","fields":[]}', "policy": {"holdd": 1}},
            42261,
        ),
        (
            "POST",
            "",
            {"subject": "users-value", "schema": '{"type":"record","name":"R","fields":[]}', "policy": {"budget": 2}},
            42261,
        ),
        ("POST", "", {"subject": "users-value", "schema": '{"type":"record","name":"R","fields":[]}', "name": "a/b"}, 42261),
        ("POST", "", {"subject": "users-value", "schema": '{"type":"record","name":"R","fields":[]}', "renames": [1]}, 42261),
        ("GET", "/none", None, 40461),
        ("POST", "/signup/phase", {"to": "sideways"}, 42261),
        ("POST", "/signup/phase", {"to": "contracted"}, 40962),
        ("PUT", "/signup/consumers", {"name": "a", "shape": "round"}, 42261),
        ("PUT", "/signup/consumers", {}, 42261),
        ("POST", "/signup/exempt", {"name": "nobody", "until": 9e99}, 42261),
        ("POST", "/signup/expire", {"name": "nobody"}, 42261),
        ("POST", "/signup/drift", {"source": "p", "batch": -1}, 42261),
        ("POST", "/signup/drift", {"source": "p", "batch": 1, "differ": "many"}, 42261),
        ("PUT", "/signup/plan", {"forward": {"created_at": "DROP TABLE x;"}}, 42261),
        ("PUT", "/signup/plan", {"forward": {"other": "1"}}, 42261),
    ],
)
def test_what_is_wrong_with_a_request_is_said(client, wanted, method, tail, body, code):
    from pathlib import Path

    plan = {
        "subject": "users-value",
        "schema": Path(wanted).read_text(),
        "name": "signup",
        "renames": {"signup_date": "created_at"},
    }
    client.call("POST", "/eventide/v1/migrations", plan)
    with pytest.raises(RegistryRefused) as refusal:
        client.call(method, f"/eventide/v1/migrations{tail}", body)
    assert refusal.value.code == code and len(refusal.value.reason) > 20


def test_the_same_plan_again_changes_nothing(client, wanted):
    from pathlib import Path

    plan = {
        "subject": "users-value",
        "schema": Path(wanted).read_text(),
        "name": "signup",
        "renames": {"signup_date": "created_at"},
    }
    first, second = (client.call("POST", "/eventide/v1/migrations", plan) for _ in range(2))
    assert first["created_at"] == second["created_at"]
    assert len([x for x in client.call("GET", "/eventide/v1/audit") if x["action"] == "plan_migration"]) == 1


def test_contracting_and_exempting_need_an_admin(swift_path, wanted):
    def account(name, role):
        return {"name": name, "secret": hashed("s"), "grants": [{"prefix": "users", "role": role}]}

    accounts = Accounts([account("ada", "admin"), account("will", "write"), account("rita", "read")])
    running = InThread(f"sqlite:///{swift_path}/registry.db", Options(accounts=accounts, extensions=(Migrations(),)))
    try:
        ada, will, rita = (RegistryClient(running.url, token=f"{name}.s") for name in ("ada", "will", "rita"))
        ada.register("users-value", record(USER_ID, SIGNUP_DATE))
        from pathlib import Path

        plan = {
            "subject": "users-value",
            "schema": Path(wanted).read_text(),
            "name": "signup",
            "renames": {"signup_date": "created_at"},
        }
        for who, method, tail, body in [
            (rita, "POST", "", plan),
            (will, "POST", "/signup/phase", {"to": "contracted", "confirm": "signup"}),
            (will, "POST", "/signup/exempt", {"name": "x"}),
            (rita, "PUT", "/signup/consumers", {"name": "x"}),
        ]:
            if tail and not ada.call("GET", "/eventide/v1/migrations"):
                will.call("POST", "/eventide/v1/migrations", plan)
            with pytest.raises(RegistryRefused) as refusal:
                who.call(method, f"/eventide/v1/migrations{tail}", body)
            assert refusal.value.status == 403
        assert rita.call("POST", "/eventide/v1/migrations/signup/drift", {"source": "p", "batch": 1, "agree": 1}) == {
            "counted": False,
            "phase": "plan",
        }
    finally:
        running.stop()


def test_the_plan_shows_the_phases_with_what_each_waits_for(shell, client, wanted):
    said = shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at")
    for phase in ("expand", "dual_write", "migrate", "contract_ready", "contracted"):
        assert f"phase {phase}" in said
    assert "1 days of dual write, no drift for 1 days, old records are kept 7 days" in said
    assert '"name": "signup_date"' in said.split("expanded: ")[1].splitlines()[0]
    assert '"name": "signup_date"' not in said.split("contracted: ")[1].splitlines()[0]


def test_a_plan_that_cannot_end_under_the_subjects_level_says_so_before_it_begins(shell, client, wanted):
    client.call("PUT", "/config/users-value", {"compatibility": "FORWARD"})
    said = shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at")
    assert "CANNOT END: the contracted schema does not pass" in said and "level with PUT /config" in said
    client.call("PUT", "/config/users-value", {"compatibility": "BACKWARD"})
    assert "CANNOT END" not in shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at")


def contract(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    report(client)
    for to in ("migrate", "contract_ready"):
        shell("advance", "signup", "--to", to)
    shell("contract", "signup", "--confirm", "signup")


def test_a_producer_of_the_old_shape_is_refused_after_the_contract(shell, client, wanted):
    old = record(USER_ID, SIGNUP_DATE)
    contract(shell, client, wanted)
    with RegistryClient(shell.url, name="a producer that was asleep") as producer:  # it has no id in memory
        for text in (old, record(USER_ID, {**SIGNUP_DATE, "default": 0}, {"name": "x", "type": "int", "default": 0})):
            with pytest.raises(RegistryRefused, match="migration 'signup' has contracted") as refusal:
                producer.register("users-value", text)
            assert (refusal.value.status, refusal.value.code) == (409, 40963)
            assert "created_at" in refusal.value.reason and "eventide migrate plan users-value" in refusal.value.reason
    both = client.call("GET", "/subjects/users-value/versions/2")
    assert client.register("users-value", both["schema"]).id == both["id"]  # still writes both: nobody is broken
    refusals = [x for x in client.call("GET", "/eventide/v1/audit") if x["action"] == "register" and x["outcome"] == "refused"]
    assert [x["detail"]["error_code"] for x in refusals] == [40963, 40963]
    # What was written with it can be read as before.
    assert client.call("POST", "/subjects/users-value", {"schema": old})["version"] == 1


def test_records_of_the_old_shape_that_are_read_after_the_contract_are_flagged(shell, client, wanted):
    contract(shell, client, wanted)
    assert "old shape was read after the contract" not in shell("status", "signup")
    client.call("POST", "/eventide/v1/usage", {"client": "billing", "decoded": [{"id": 1, "count": 3}]})
    assert "FLAG  billing read records of the old shape (id 1) after the contract, last at 20" in shell("status", "signup")


def test_the_old_shape_may_come_back_by_a_migration_of_its_own(shell, client, wanted, tmp_path):
    contract(shell, client, wanted)
    back = tmp_path / "back.avsc"
    back.write_text(record(USER_ID, SIGNUP_DATE))
    shell("plan", "users-value", str(back), "--name", "back", "--rename", "created_at=signup_date", *QUICK)
    shell("confirm", "back", "--accept-guesses")
    shell("advance", "back", "--to", "expand")
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "created_at", "signup_date"]


def test_the_new_field_is_tightened_on_the_command_line(shell, client, wanted, tmp_path):
    contract(shell, client, wanted)
    assert "SHUT  all_records_have_it" in shell("status", "signup")
    events = tmp_path / "kept.ndjson"
    events.write_text('{"user_id": 1, "created_at": "2025-09-14T00:00:00Z"}\n{"user_id": 2}\n')
    all_of_it = ["check", "signup", str(events), "--everything", "--report"]
    assert "2 events after the contract, of which 1 lack created_at" in shell(*all_of_it, "--fail-on-drift", exits=1)
    assert "1 of 2 records that are kept lack created_at" in shell("tighten", "signup", "--confirm", "signup", exits=1)
    events.write_text('{"user_id": 1, "created_at": "2025-09-14T00:00:00Z"}\n')
    shell(*all_of_it)
    assert "could no longer be read. Repeat with --confirm signup" in shell("tighten", "signup", exits=1)
    for _ in range(2):
        shell("tighten", "signup", "--confirm", "signup", "--because", "seven days have passed")
    assert json.loads(client.latest("users-value").text)["fields"][1] == CREATED_AT
    assert "tighten" not in shell("status", "signup")


def test_running_a_tables_steps_in_plan_says_that_nothing_ran(shell, client, wanted, tmp_path):
    with sqlite3.connect(tmp_path / "app.db") as database:
        database.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, signup_date TEXT)")
    run = ["table", "signup", f"sqlite:///{tmp_path}/app.db", "users", "--run"]
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    said = shell(*run)
    assert "nothing ran: signup is in plan, and the next step, 'add created_at', may run from expand on" in said
    assert "Next: eventide migrate advance signup --to expand" in said
    shell("confirm", "signup")
    shell("advance", "signup", "--to", "expand")
    assert "nothing ran" not in shell(*run)
    assert "nothing ran: signup is in expand, and the next step, 'view', may run from migrate on" in shell(*run)
    shell("abort", "signup")
    assert "nothing ran: signup is aborted" in shell(*run)


@pytest.mark.parametrize("name", ["a.ndjson", "a.jsonl", "a.json", "a.csv"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_events_is_nothing_to_compare(shell, client, wanted, tmp_path, name, text):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at")
    (tmp_path / name).write_text(text)
    assert "0 events" in shell("check", "signup", str(tmp_path / name))
    assert "nothing was checked" in shell("check", "signup", str(tmp_path / name), "--fail-on-drift", exits=1)


def moments(body):
    """Every figure in an answer that is a moment."""
    if isinstance(body, list):
        return [m for each in body for m in moments(each)]
    if not isinstance(body, dict):
        return []
    named = ("_at", "_since", "_by", "_until", "last_seen", "last_seen_old", "last_seen_new", "earliest", "likely")
    own = [v for k, v in body.items() if isinstance(v, int) and k.endswith(named)]
    return [*own, *(m for each in body.values() for m in moments(each))]


def test_no_moment_that_nobody_lived_through_is_shown_in_any_phase(shell, client, wanted):
    def look():
        for command in ("status", "consumers", "can-contract"):
            shown = CliRunner().invoke(main, ["migrate", command, "signup", "--url", shell.url]).output
            assert "1970" not in shown and "1969" not in shown, shown
        assert min(moments(client.call("GET", "/eventide/v1/migrations/signup"))) > 1_600_000_000_000

    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    client.call("POST", "/eventide/v1/subjects/users-value/selected", {"client": "a stranger", "columns": ["created_at"]})
    shell("declare", "signup", "billing", "--reads", "either")
    look()
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
        look()
    report(client)
    shell("advance", "signup", "--to", "migrate")
    shell("expire", "signup", "a stranger", "--because", "it was a question asked once")
    shell("exempt", "signup", "billing", "--until", "2099-01-01", "--because", "reads a copy")
    for to in ("contract_ready", "contracted"):
        look()
        shell("advance", "signup", "--to", to, "--confirm", "signup")
    look()


def test_no_answer_is_not_no(wanted):
    nobody = Shell("http://127.0.0.1:1")
    assert "eventide registry serve" in nobody("can-contract", "signup", exits=2)
    assert "eventide registry serve" in nobody("check", "signup", wanted, "--fail-on-drift", exits=2)


def test_history_is_not_rewritten_by_a_plan_that_may_still_change(shell, client, wanted, tmp_path):
    (tmp_path / "history").mkdir()
    shell("plan", "users-value", wanted, "--name", "signup")
    for command in ("backfill", "rebuild"):
        said = shell(command, "signup", str(tmp_path / "history"), exits=1)
        assert "signup is in plan; history is rewritten from expand on" in said and "advance signup --to expand" in said
    with pytest.raises(RegistryRefused, match="history is filled from expand on"):
        client.call("POST", "/eventide/v1/migrations/signup/backfilled", {})


def test_a_rollback_that_must_wait_names_a_command_that_exists(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    shell("declare", "signup", "billing", "--reads", "new")
    assert "`eventide migrate declare signup billing --reads either`" in shell("rollback", "signup", "--to", "expand", exits=1)
    shell("declare", "signup", "billing", "--reads", "either")
    shell("rollback", "signup", "--to", "expand")


def test_after_drift_the_producer_is_mended_and_the_count_begins_anew(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    report(client, agree=9, differ=1)
    said = shell("advance", "signup", "--to", "migrate", exits=1)
    for command in ("rollback signup --to expand", "advance signup --to dual_write"):
        assert f"`eventide migrate {command}`" in said
        shell(*command.split())
    report(client, 2)
    shell("advance", "signup", "--to", "migrate")


def test_history_and_a_table_on_the_command_line(shell, client, wanted, tmp_path):
    """Filled, contracted, and the dropped field brought back: as it was recorded, and computed where it was not."""
    users = FOUR.select("user_id", "signup_date")
    for part in ("history", "now", "dual"):
        (tmp_path / part).mkdir()
    history, now, dual = (str(tmp_path / part) for part in ("history", "now", "dual"))
    users.write_parquet(f"{history}/a.parquet")
    FOUR.drop("signup_date").write_parquet(f"{now}/a.parquet")
    FOUR.filter(pl.col("user_id") == 3).write_parquet(f"{dual}/a.parquet")
    with sqlite3.connect(tmp_path / "app.db") as database:
        database.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, signup_date TEXT)")
        database.execute("INSERT INTO users VALUES (1, '2025-09-14')")
    table = ["table", "signup", f"sqlite:///{tmp_path}/app.db", "users"]

    shell(
        "plan",
        "users-value",
        wanted,
        "--name",
        "signup",
        "--rename",
        "signup_date=created_at",
        *QUICK,
        "--set",
        "backfill=true",
    )
    shell("confirm", "signup")
    assert "nothing ran" in shell(*table, "--run")
    shell("advance", "signup", "--to", "expand")
    assert "history has not been filled yet" in shell("advance", "signup", "--to", "dual_write", exits=1)
    fill = ["backfill", "signup", history, "--no-spark"]
    assert "4 rows written in 1 files or partitions, 0 were done before" in shell(*fill)
    assert "0 rows written in 0 files or partitions, 1 were done before" in shell(*fill)
    assert "ran add created_at\nran fill created_at" in shell(*table, "--run")
    assert "'view' may run from migrate on, and signup is in expand" in shell(*table, "--upto", "view", exits=1)
    shell("advance", "signup", "--to", "dual_write")
    report(client)
    for to in ("migrate", "contract_ready"):
        shell("advance", "signup", "--to", to)
    assert "'drop signup_date' may run from contracted on" in shell(*table, "--upto", "drop signup_date", exits=1)
    shell("contract", "signup", "--confirm", "signup")
    assert "ran drop signup_date" in shell(*table, "--run")
    back = ["rebuild", "signup", now, "--target", str(tmp_path / "back"), "--history", dual, "--no-spark"]
    assert "Give at least one with --key" in shell(*back, exits=1)
    assert "have the old shape again: 4 rows" in shell(*back, "--key", "user_id")
    found = pl.read_parquet(tmp_path / "back" / "a.parquet")
    assert found["signup_date"].to_list() == users["signup_date"].to_list()  # the third as recorded, which computed is the 15th


def test_a_silent_consumer_is_exempted_or_expired_on_the_command_line(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    report(client)
    shell("advance", "signup", "--to", "migrate")
    for name in ("copy", "dead"):
        shell("declare", "signup", name, "--reads", "old", "--environment", "prod")
    assert "must end in the future" in shell(
        "exempt", "signup", "copy", "--environment", "prod", "--until", "2020-01-01", "--because", "a copy", exits=1
    )
    for _ in range(2):
        shell("exempt", "signup", "copy", "--environment", "prod", "--until", "2100-01-01", "--because", "reads a copy")
        shell("expire", "signup", "dead", "--environment", "prod")
    said = shell("consumers", "signup")
    assert "exempt        copy@prod  exempt until 2100-01-01" in said and "expired       dead@prod" in said
    assert "last seen: old never, new never, at all never" in said
    shell("can-contract", "signup")
