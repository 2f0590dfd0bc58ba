"""`eventide registry` and `eventide migrate` asked wrongly, or at a place that is none: one paragraph, the exit code that says so, no secrets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import V1

from eventide.cli.main import main

SECRET = "hunter2secret"
NOBODY = "http://127.0.0.1:1"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'


def told(code: int, *arguments: str) -> str:
    """What a command says that ends so: its last paragraph."""
    ran = CliRunner().invoke(main, list(arguments))
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    assert ran.exit_code == code and "Traceback" not in ran.output, ran.output
    assert SECRET not in ran.output, ran.output
    return " ".join(ran.output.split())


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, body in {
        "s.avsc": AVRO.encode(), "list.json": b"[]", "number.json": b"1", "object.json": b"{}", "bytes": b"\xff\xfe\x00", "cut.json": b'[{"a":1',
        "latin.json": b'[{"a": "\xff"}]', "cut.parquet": b"PAR1xxxx", "nothing.json": b"",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(body)


ADDRESSES = ["nonsense", "", "ftp://registry", "http://[::1", "http://127.0.0.1:1/\x00", f"http://me:{SECRET}@[::1"]


@pytest.mark.parametrize("command", [("registry", "list"), ("migrate", "status", "x"), ("registry", "check", "s", "s.avsc")])
def test_an_address_or_a_token_that_cannot_be_one_is_refused(command: tuple[str, ...]) -> None:
    for url in ADDRESSES:
        assert "is no address of a schema registry" in told(2, *command, "--url", url)
    for token, place in ((f"{SECRET}\n", 14), (f"{SECRET}\u00e9", 14), (f"me {SECRET}", 3)):
        assert f"as character {place} of" in told(2, *command, "--url", NOBODY, "--token", token)
    assert "the token for the registry is empty" in told(2, *command, "--url", NOBODY, "--token", "")
    assert "Connection refused" in told(3, *command, "--url", NOBODY.replace("//", f"//me:{SECRET}@"))


def test_who_answers_by_the_exit_code_says_that_nobody_could() -> None:
    assert "Connection refused" in told(2, "migrate", "can-contract", "x", "--url", NOBODY)
    assert "Connection refused" in told(2, "migrate", "check", "x", "list.json", "--url", NOBODY)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (["serve", "--store", f"mysql://me:{SECRET}@db/x"], 2, "'mysql://me:***@db/x' is no store"),
        (["serve", "--store", f"postgresql://me:{SECRET}@127.0.0.1:1/x"], 3, "postgresql://me:***@127.0.0.1:1/x: connection failed"),
        (["serve", "--store", f"postgresql://me:{SECRET}@db/x?nonsense=1"], 2, 'invalid URI query parameter: "nonsense"'),
        (["serve", "--port", "99999"], 2, "99999 is not in the range"),
        (["serve", "--port", "-1"], 2, "-1 is not in the range"),
        (["serve", "--tls-client-ca", "s.avsc"], 2, "need --tls-cert"),
        (["serve", "--tls-key", "s.avsc"], 2, "need --tls-cert"),
        (["serve", "--accounts", "object.json"], 2, "object.json is no accounts file"),
        (["serve", "--accounts", "bytes"], 2, "bytes is no accounts file"),
        (["serve", "--port-file", "nowhere/port", "--port", "0"], 2, "nowhere"),
        (["account", "me", "--file", "nowhere/a.json"], 2, "there is no directory nowhere"),
        (["account", "me", "--file", "folder"], 2, "it is a directory"),
        (["account", "me", "--file", "a.json", "--password", ""], 2, "it is empty"),
        (["account", "", "--file", "a.json"], 2, "is not empty"),
        (["account", "me", "--file", "object.json"], 2, "It stays as it is"),
        (["register", "s", "s.avsc", "--reference", "x=y:²"], 2, "is not NAME=SUBJECT:VERSION"),
        (["audit", "--limit", "-1"], 2, "-1 is not in the range"),
        (["audit", "--after", "-1"], 2, "-1 is not in the range"),
        (["inventory", "nothing.json"], 1, "no schema was found"),
        (["inventory", "cut.parquet"], 1, "no schema was found"),
        (["contract", "export", "s", "--out", "nowhere/c.yaml"], 2, "there is no directory nowhere"),
        (["contract", "export", "s", "--out", "folder"], 2, "it is a directory"),
        (["contract", "export", "s", "--completeness", "nan"], 2, "nan is no share"),
    ],
)  # fmt: skip
def test_what_the_registry_commands_are_asked_wrongly(asked: list[str], code: int, says: str) -> None:
    assert says in told(code, "registry", *asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["check", "x", "s.avsc", "--plan", "list.json"], "list.json is no migration"),
        (["check", "x", "s.avsc", "--plan", "number.json"], "number.json is no migration"),
        (["check", "x", "s.avsc", "--plan", "object.json"], "object.json is no migration"),
        (["check", "x", "s.avsc", "--plan", "folder"], "'folder' is a directory"),
        (["check", "x", "s.avsc", "--budget", "nan"], "nan is no share"),
        (["check", "x", "s.avsc", "--budget", "2"], "2.0 is not in the range"),
        (["check", "x", "--topic", "t", "--most", "0"], "0 is not in the range"),
        (["status", ""], "it is empty"),
        (["advance", " "], "it is empty"),
    ],
)
def test_what_the_migration_commands_are_asked_wrongly(asked: list[str], says: str) -> None:
    assert says in told(2, "migrate", *asked, "--url", NOBODY)


class Odd(BaseHTTPRequestHandler):
    """A web server of another kind."""

    body: ClassVar[bytes] = b""
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(Odd.status)
        self.send_header("Content-Length", str(len(Odd.body)))
        self.end_headers()
        self.wfile.write(Odd.body)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


COMMANDS = [
    ["registry", "list"], ["registry", "owners"], ["registry", "audit"], ["registry", "audit", "--verify"], ["registry", "diff", "s"],
    ["registry", "check", "s", "s.avsc"], ["registry", "register", "s", "s.avsc"], ["registry", "contract", "export", "s"], ["migrate", "list"],
    ["migrate", "status", "x"], ["migrate", "consumers", "x"], ["migrate", "advance", "x", "--to", "expand"], ["migrate", "can-contract", "x"],
    ["migrate", "check", "x", "s.avsc"], ["migrate", "backfill", "x", "folder"],
]  # fmt: skip


@pytest.mark.parametrize("body", [b"null", b'"x"', b"[1, 2]", b"{}", b"<html>", b""])
def test_a_place_that_is_no_registry_is_told_by_its_address(odd: str, body: bytes) -> None:
    Odd.body, Odd.status = body, 200
    for command in COMMANDS:
        asks = command[1] in ("can-contract", "check") and command[0] == "migrate"  # whose exit codes are answers
        said = told(2 if asks else 3, *command, "--url", odd)
        assert "none of a registry's answers" in said or "a body that is no JSON" in said


def test_an_error_of_another_kind_is_told_as_it_was_said(odd: str) -> None:
    for body, says in (
        (b'{"error_code": "gone", "message": "no such page"}', "no such page (error 404)"),
        (b"[1]", "Not Found (error 404)"),
    ):
        Odd.body, Odd.status = body, 404
        assert says in told(1, "registry", "list", "--url", odd)


def test_a_server_that_says_the_token_again_is_not_repeated(odd: str) -> None:
    Odd.body, Odd.status = json.dumps({"message": f"Bearer {SECRET} is unknown"}).encode(), 401
    assert "Bearer *** is unknown" in told(1, "registry", "list", "--url", odd, "--token", SECRET)


def test_events_that_cannot_be_read_are_told_with_their_file(ask: Ask, service: InThread) -> None:
    from tests.migration.desk import CREATED_AT, RENAME, SIGNUP_DATE, USER_ID, record

    from eventide.migration.plan.planning import expanded, propose
    from eventide.migration.rollout.migration import Migration

    current = record(USER_ID, SIGNUP_DATE)
    plan = propose("AVRO", current, record(USER_ID, CREATED_AT), said=RENAME)
    body = {**Migration("signup", "users-value", plan, 0).as_json(), "schemas": {"expanded": expanded(plan, current)}}
    Path("plan.json").write_text(json.dumps(body))
    for name in ("cut.json", "latin.json", "cut.parquet"):
        assert f"{name} cannot be read" in told(2, "migrate", "check", "signup", name, "--plan", "plan.json", "--fail-on-drift")
    ask.register("s", V1)
    assert "is not a valid version id" in told(
        1, "registry", "contract", "export", "s", "--version", "../..", "--url", service.url
    )
    assert "--freshness is 'soon'" in told(
        2, "registry", "contract", "export", "s", "--freshness", "soon", "--url", service.url
    )
