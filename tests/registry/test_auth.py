"""Who is let in, and what they may do."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.registry.service import Options
from eventide.registry.service.auth import Accounts, hashed, matches
from eventide.registry.service.server import is_loopback
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import V1, V2


@pytest.fixture(scope="module")
def accounts() -> Accounts:
    return Accounts(
        [
            {"name": "root", "secret": hashed("r"), "grants": [{"prefix": "", "role": "admin"}]},
            {"name": "writer", "secret": hashed("w"), "grants": [{"prefix": "orders.", "role": "write"}]},
            {"name": "reader", "secret": hashed("s"), "grants": [{"prefix": "orders.", "role": "read"}]},
        ]
    )


@pytest.fixture
def guarded(sqlite_url: str, accounts: Accounts) -> Iterator[InThread]:
    running = InThread(sqlite_url, Options(accounts=accounts))
    yield running
    running.stop()


def _basic(name: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def test_secrets_are_kept_as_salted_hashes() -> None:
    one, other = hashed("s3cret"), hashed("s3cret")
    assert one != other and "s3cret" not in one
    assert matches("s3cret", one) and not matches("S3cret", one) and not matches("s3cret", "nonsense")


def test_nobody_gets_in_without_credentials(guarded: InThread) -> None:
    tokens = ("Bearer root.wrong", "Bearer", "Basic !!!", "Digest x")
    refused = [{}, _basic("root", "wrong"), _basic("nobody", "x"), *({"Authorization": token} for token in tokens)]
    for headers in refused:
        answer = Ask(guarded.url, headers)("GET", "/subjects")
        assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
        assert "www-authenticate" in answer.headers


def test_roles_hold_per_prefix(guarded: InThread) -> None:
    root = Ask(guarded.url, _basic("root", "r"))
    writer = Ask(guarded.url, {"Authorization": "Bearer writer.w"})
    reader = Ask(guarded.url, _basic("reader", "s"))
    assert writer.register("orders.a", V1)["id"] == 1
    root.register("private.b", V2)
    for ask, path in ((writer, "/subjects/private.b/versions"), (reader, "/subjects/orders.a/versions")):
        answer = ask("POST", path, {"schema": V2})
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
    assert reader.ok("GET", "/subjects") == ["orders.a"]
    assert [e["subject"] for e in reader.ok("GET", "/schemas")] == ["orders.a"]
    assert [e["subject"] for e in reader.ok("GET", "/eventide/v1/subjects")] == ["orders.a"]
    assert reader.ok("GET", "/subjects/orders.a/versions/1")["id"] == 1
    for _ in range(2):  # the second one would come from memory
        assert root.ok("GET", "/schemas/ids/2")["subject"] == "private.b"
        assert reader("GET", "/schemas/ids/2").status_code == 404
        assert reader.ok("GET", "/schemas/ids/1")["subject"] == "orders.a"
        assert Ask(guarded.url)("GET", "/schemas/ids/1").status_code == 401
    for path in ("/config", "/mode", "/config/orders.a", "/mode/orders.a"):
        body = {"mode": "READONLY"} if "mode" in path else {"compatibility": "NONE"}
        assert writer("PUT", path, body).status_code == 403
    for path in ("/eventide/v1/audit", "/eventide/v1/audit?subjectPrefix=orders."):
        assert writer("GET", path).status_code == 403
    assert writer("PUT", "/eventide/v1/owners", {"prefix": "orders.", "team": "x"}).status_code == 403
    assert writer("PUT", "/eventide/v1/policy", {"require_owner": True}).status_code == 403
    assert writer.ok("DELETE", "/subjects/orders.a") == [1]
    assert writer("DELETE", "/subjects/orders.a?permanent=true").status_code == 403
    assert root.ok("DELETE", "/subjects/orders.a?permanent=true") == [1]
    assert {line["who"] for line in root.ok("GET", "/eventide/v1/audit")} == {"root", "writer"}


def test_an_alias_does_not_open_a_door(guarded: InThread) -> None:
    root, reader = Ask(guarded.url, _basic("root", "r")), Ask(guarded.url, _basic("reader", "s"))
    root.register("private.b", V2)
    root.ok("PUT", "/config/orders.alias", {"alias": "private.b"})
    assert reader("GET", "/subjects/orders.alias/versions/latest").status_code == 403


def test_an_accounts_file_that_is_none_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"name": "x"}]')
    with pytest.raises(ValueError, match="eventide registry account"):
        Accounts.load(tmp_path / "a.json")


def test_a_warning_where_anybody_could_write(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
                                             tmp_path: Path, accounts: Accounts) -> None:  # fmt: skip
    from eventide.registry.service import server

    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: sockets[0].close())
    with caplog.at_level(logging.WARNING):
        server.serve(f"sqlite:///{tmp_path}/a.db", host="127.0.0.1", port=0)
        assert not caplog.records
        server.serve(f"sqlite:///{tmp_path}/a.db", host="0.0.0.0", port=0)
        assert "without authentication" in caplog.text
        caplog.clear()
        server.serve(f"sqlite:///{tmp_path}/a.db", host="0.0.0.0", port=0, options=Options(accounts=accounts))
        assert "unencrypted" in caplog.text
    assert is_loopback("localhost") and is_loopback("::1") and not is_loopback("example.org")
