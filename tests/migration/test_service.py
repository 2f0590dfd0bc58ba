"""The rollout from outside: REST and the command line against a running service."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from eventide.cli.main import main
from eventide.migration.service import Migrations
from eventide.registry.client import RegistryClient, RegistryRefused
from eventide.registry.service import Options
from eventide.registry.service.auth import Accounts, hashed
from tests.migration.desk import CREATED_AT, SIGNUP_DATE, USER_ID, field_names, record
from tests.registry.conftest import InThread

QUICK = ["--set", "hold_dual_write=0 s", "--set", "drift_free=0 s", "--set", "retention=0 s"]


class Shell:
    """The command line against one service."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: str, exits: int = 0) -> str:
        ran = CliRunner().invoke(main, ["migrate", *arguments, "--url", self.url])
        assert ran.exit_code == exits, (arguments, ran.exit_code, ran.output, ran.exception)
        return ran.output

    def quiet(self, *arguments: str) -> int:
        """Only the exit status."""
        return CliRunner().invoke(main, ["migrate", *arguments, "--url", self.url]).exit_code


@pytest.fixture
def service(swift_path):
    running = InThread(f"sqlite:///{swift_path}/registry.db", Options(extensions=(Migrations(),)))
    yield running
    running.stop()


@pytest.fixture
def shell(service):
    return Shell(service.url)


@pytest.fixture
def client(service):
    with RegistryClient(service.url, name="tests") as made:
        made.register("users-value", record(USER_ID, SIGNUP_DATE))
        yield made


@pytest.fixture
def wanted(tmp_path):
    path = tmp_path / "wanted.avsc"
    path.write_text(record(USER_ID, CREATED_AT))
    return str(path)


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
    assert (refusal.value.status, refusal.value.code) == (409, 40961)

    shell("advance", "signup")
    assert "SHUT  events_checked" in shell("status", "signup")
    report(client)
    shell("advance", "signup")
    shell("declare", "signup", "billing", "--reads", "old", "--owner", "team money", "--expected-by", "2030-01-01")
    assert "waiting       billing  owned by team money  reads the old shape" in shell("consumers", "signup")
    assert "no: signup cannot go from migrate to contract_ready" in shell("can-contract", "signup", exits=1)
    shell("declare", "signup", "billing", "--reads", "new")
    client.call("POST", "/eventide/v1/subjects/users-value/selected", {"client": "billing", "columns": ["created_at"]})
    assert shell("can-contract", "signup").endswith("yes\n")
    shell("advance", "signup")
    assert "cannot be undone" in shell("contract", "signup", exits=1)
    shell("contract", "signup", "--confirm", "signup")
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "created_at"]
    assert shell("list") == ""
    assert "signup  contracted  users-value  signup_date -> created_at" in shell("list", "--all")
    assert "contracted and stays so" in shell("abort", "signup", exits=1)

    log = client.call("GET", "/eventide/v1/audit", subjectPrefix="users-value")
    moved = [(line["outcome"], line["detail"].get("to"), line["reason"]) for line in log if line["action"] == "move_migration"]
    assert ("done", "expand", "the sprint begins") in moved
    assert [m[1] for m in moved if m[0] == "done"] == ["expand", "dual_write", "migrate", "contract_ready", "contracted"]
    assert ("refused", None, "") in moved
    assert any(line["action"] == "register" and line["outcome"] == "refused" for line in log)


def test_rollback_one_step_and_abort(shell, client, wanted):
    shell("plan", "users-value", wanted, "--name", "signup", "--rename", "signup_date=created_at", *QUICK)
    shell("confirm", "signup")
    for to in ("expand", "dual_write"):
        shell("advance", "signup", "--to", to)
    report(client)
    shell("advance", "signup", "--to", "migrate")
    assert "goes from migrate to dual_write" in shell("rollback", "signup")
    assert "goes from dual_write to plan" in shell("rollback", "signup", "--to", "plan", "--withdraw")
    assert field_names(json.loads(client.latest("users-value").text)) == ["user_id", "signup_date"]
    assert "there is nothing to go back to" in shell("rollback", "signup", exits=1)
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
