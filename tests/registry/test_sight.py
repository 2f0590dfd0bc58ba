"""Nobody is told what they may not read: attempts by name, and every route for random accounts over a world of secrets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventide.migration.rollout.service import Migrations
from eventide.registry.service import Application, Options
from eventide.registry.service.auth import Accounts, Grant, Principal, Role
from eventide.registry.store import open_store

PREFIXES = ("a.", "a.b.", "b.", ":.one:a.", ":.two:b.", "c")
ALL = "all"
_TOKEN = re.compile(r"zq[a-z]\d+zq")
"""Every secret of the world looks like this, and no text that the service writes of itself does."""


class WhoTheySay(Accounts):
    """Accounts that are whoever their header says: `ROLE prefix|prefix`."""

    def __init__(self) -> None:
        super().__init__([])

    def recognise(self, header: str) -> Principal | None:
        role, _, prefixes = header.partition(" ")
        grants = [Grant("" if prefix == ALL else prefix, Role[role]) for prefix in prefixes.split("|")]
        return Principal("somebody", tuple(grants))


class Direct:
    """The application without a socket."""

    def __init__(self, path: Path) -> None:
        options = Options(accounts=WhoTheySay(), extensions=(Migrations(),))
        self.app = Application(open_store(f"sqlite:///{path}/registry.db"), options)
        self.loop = asyncio.new_event_loop()

    def __call__(self, who: str, method: str, path: str, body: Any = None, query: str = "") -> tuple[int, str]:
        content = b"" if body is None else json.dumps(body).encode()
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"authorization", who.encode()), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": method, "raw_path": path.encode(), "path": path, "query_string": query.encode(),
                 "headers": headers, "client": ("127.0.0.1", 1)}  # fmt: skip
        self.loop.run_until_complete(self.app(scope, receive, send))
        return sent[0]["status"], sent[1]["body"].decode()

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, text = self(f"ADMIN {ALL}", method, path, body)
        assert status == 200, (method, path, text)
        return json.loads(text)

    def close(self) -> None:
        self.app.close()
        self.loop.close()


class World:
    """A registry in which every subject, field, owner, hint and client has a token of its own."""

    def __init__(self, direct: Direct) -> None:
        self.direct = direct
        self.subjects: list[str] = []
        self.guids: list[str] = []
        self.last_id = 0
        self.shown_by: dict[str, set[str]] = {}
        """What whoever may read a subject may learn from it."""
        self.beside: list[tuple[str, str]] = []
        """Tokens that belong to a prefix rather than to a subject."""
        for n, prefix in enumerate(PREFIXES * 3):
            self._add(n, prefix)
        shared = {"schema": _record("zqs900zq", [("zqf900zq", "int")])}
        for subject in ("a.zqn900zq", "b.zqn901zq"):
            self._register(subject, shared, {"zqs900zq", "zqf900zq"})
        for n, prefix in enumerate(PREFIXES):
            owner, rule, client = f"zqo{n}zq", f"zqh{n}zq", f"zqc{n}zq"
            direct.ok("PUT", "/eventide/v1/owners", {"prefix": prefix, "team": owner})
            direct.ok("PUT", "/eventide/v1/naming", {"prefix": prefix, "pattern": ".*", "hint": rule})
            self.beside += [(owner, prefix), (rule, prefix)]
            first = direct.ok("GET", f"/subjects/{quote(self.subjects[n])}/versions/1")
            context = self.subjects[n][1:].split(":")[0] if self.subjects[n][0] == ":" else "."
            report = {"client": client, "decoded": [{"id": first["id"], "context": context}]}
            direct.ok("POST", "/eventide/v1/usage", report)
            self.shown_by[self.subjects[n]].add(client)
            fields = [(f"zqf{n}zq", "int")]
            wanted = _record(f"zqs{n}zq", [(f"zqw{n}zq", "int")])
            told = {"subject": self.subjects[n], "schema": wanted, "name": f"zqm{n}zq", "renames": {fields[0][0]: f"zqw{n}zq"}}
            if n % 2 == 0:  # the others refer to somebody else's, and cannot be planned alone
                direct.ok("POST", "/eventide/v1/migrations", told)
                self.shown_by[self.subjects[n]] |= {f"zqm{n}zq", f"zqw{n}zq"}
        direct.ok("PUT", "/config/a.alias", {"alias": self.subjects[2]})
        self.shown_by["a.alias"] = set(_TOKEN.findall(self.subjects[2]))

    def _add(self, n: int, prefix: str) -> None:
        """One more subject; every second one refers to an earlier one of any prefix."""
        subject, name = f"{prefix}zqn{n}zq", f"zqs{n}zq"
        body: dict[str, Any] = {"schema": _record(name, [(f"zqf{n}zq", "int")])}
        shown = {f"zqn{n}zq", name, f"zqf{n}zq"}
        if n % 2 and n > 1:
            target = self.subjects[(n * 7) % n]
            other = f"zqs{self.subjects.index(target)}zq"
            spelled = target if target.startswith(":.") else f":.:{target}"
            if not subject.startswith(":.") or target.startswith(":."):
                body = {
                    "schema": _record(name, [(f"zqf{n}zq", "int"), (f"zqg{n}zq", other)]),
                    "references": [{"name": other, "subject": spelled.removeprefix(":.:"), "version": 1}],
                }
                shown |= {f"zqg{n}zq", other, _TOKEN.findall(target)[0]}
        self._register(subject, body, shown)

    def _register(self, subject: str, body: dict[str, Any], shown: set[str]) -> None:
        found = self.direct.ok("POST", f"/subjects/{quote(subject)}/versions", body)
        self.subjects.append(subject)
        self.guids.append(found["guid"])
        self.last_id = max(self.last_id, found["id"])
        self.shown_by[subject] = shown | set(_TOKEN.findall(subject))

    def may_learn(self, principal: Principal) -> set[str]:
        """Every token that an account may come to know."""
        seen = [s for s in self.subjects if principal.may(Role.READ, s)]
        prefixes = [g.prefix for g in principal.grants]
        if principal.may(Role.READ, "a.alias"):
            seen.append("a.alias")  # its settings say what it stands for
        near = {token for token, p in self.beside if any(p.startswith(own) or own.startswith(p) for own in prefixes)}
        return near.union(*(self.shown_by[s] for s in seen)) if seen else near


def _record(name: str, fields: list[tuple[str, str]]) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    direct = Direct(tmp_path_factory.mktemp("world"))
    yield World(direct)
    direct.close()


_FLAGS = ("ruleType=JSONATA", "limit=0", "deleted=true", "verbose=true", "normalize=true", "defaultToGlobal=true", "latestOnly=true", "lookupDeletedSchema=true",
          "referenceFormat=qualified", "fetchMaxId=true", "aliases=true", "permanent=true")  # fmt: skip


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_route_tells_an_account_what_it_may_not_read(world: World, data: st.DataObject) -> None:
    prefixes = data.draw(st.lists(st.sampled_from((*PREFIXES, "a.zqn", "nothing.")), min_size=1, max_size=3, unique=True))
    who = "READ " + "|".join(prefixes)
    principal = WhoTheySay().recognise(who)
    assert principal is not None
    method, path = data.draw(st.sampled_from(world.direct.app.surface))
    subject = st.sampled_from([*world.subjects, "a.alias", "a.", ":.one:", "zqn999zq"])
    drawn = {
        "{subject}": subject,
        "{version}": st.sampled_from(("1", "2", "latest", "-1")),
        "{id}": st.integers(1, world.last_id + 1).map(str),
        "{guid}": st.sampled_from(world.guids),
        "{migration}": st.integers(0, len(PREFIXES)).map(lambda n: f"zqm{n}zq"),
    }
    for place in re.findall(r"{\w+}", path):
        path = path.replace(place, quote(data.draw(drawn.get(place, subject)), safe=""))
    if data.draw(st.booleans()) and not path.startswith("/contexts"):
        path = f"/contexts/{data.draw(st.sampled_from(('.', '.one', '.two')))}{path}"
    query = data.draw(st.lists(st.sampled_from(_FLAGS), max_size=3))
    query += ["format=" + data.draw(st.sampled_from(("", "resolved", "serialized")))]
    for name in data.draw(st.lists(st.sampled_from(("subject", "subjectPrefix", "with", "client")), max_size=2)):
        query.append(f"{name}={quote(data.draw(subject), safe='')}")
    body = None
    if method in ("POST", "PUT"):
        n = data.draw(st.integers(0, len(world.subjects) - 1))
        target, name = world.subjects[n], f"zqs{n}zq" if n < len(PREFIXES) * 3 else "zqs900zq"
        body = {"schema": _record("R", [("x", name)]), "references": [{"name": name, "subject": target, "version": 1}]}
    asked = path + "&".join(query) + json.dumps(body)
    status, text = world.direct(who, method, path, body, "&".join(query))
    assert status != 500, text
    learnt = set(_TOKEN.findall(text)) - set(_TOKEN.findall(asked))
    assert learnt <= world.may_learn(principal), (who, method, path, query, body, text)


def test_a_writer_cannot_pull_in_what_it_may_not_read(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    direct.ok("POST", "/subjects/b.priv/versions", {"schema": _record("P", [("salary", "int")])})
    refers = {"schema": _record("A", [("x", "P")]), "references": [{"name": "P", "subject": "b.priv", "version": 1}]}
    missing = {**refers, "references": [{"name": "P", "subject": "b.none", "version": 1}]}
    for path in ("/subjects/a.x/versions", "/compatibility/subjects/a.x/versions", "/subjects/a.x"):
        hidden, absent = (direct("WRITE a.", "POST", path, body, "verbose=true") for body in (refers, missing))
        assert "salary" not in hidden[1]
        told = [re.sub("guid=[^,]*", "", text.replace("b.priv", "b.none")) for _, text in (hidden, absent)]
        assert hidden[0] == absent[0] and told[0] == told[1], "as if not there"
    direct.close()


def test_what_somebody_else_wrote_out_is_not_read_through_it(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    direct.ok("POST", "/subjects/b.priv/versions", {"schema": _record("P", [("salary", "int")])})
    body = {"schema": _record("A", [("x", "P")]), "references": [{"name": "P", "subject": "b.priv", "version": 1}]}
    found = direct.ok("POST", "/subjects/a.x/versions", body)
    for _ in range(2):  # the administrator's answer is kept in memory, and must not be given to others
        for path in ("/subjects/a.x/versions/1", f"/schemas/ids/{found['id']}", f"/schemas/guids/{found['guid']}"):
            assert "salary" in direct(f"READ {ALL}", "GET", path, query="format=resolved")[1]
            assert direct("READ a.", "GET", path)[0] == 200, "the text alone says only the name"
            status, text = direct("READ a.", "GET", path, query="format=resolved")
            assert status == 403 and "'b.priv'" in text and "salary" not in text
    direct.close()


def test_ids_and_guids_are_told_under_a_subject_that_may_be_read(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    same = {"schema": _record("S", [("x", "int")])}
    for subject in ("b.x", "a.x", ":.one:b.x"):
        found = direct.ok("POST", f"/subjects/{quote(subject)}/versions", same)
    other = direct.ok("POST", "/subjects/b.y/versions", {"schema": _record("T", [("x", "int")])})
    assert json.loads(direct("READ a.", "GET", "/schemas/ids/1")[1])["subject"] == "a.x"
    assert json.loads(direct("READ a.", "GET", "/schemas/ids/1/subjects")[1]) == ["a.x"]
    assert json.loads(direct("READ a.", "GET", f"/schemas/guids/{found['guid']}/ids")[1]) == [{"context": ".", "id": 1}]
    for path in (f"/schemas/guids/{other['guid']}", f"/schemas/ids/{other['id']}", f"/schemas/ids/{other['id']}/subjects"):
        assert direct("READ a.", "GET", path)[0] == 404
    assert json.loads(direct("READ a.", "GET", "/contexts")[1]) == ["."]
    assert json.loads(direct("READ :.one:", "GET", "/contexts")[1]) == [".", ".one"]
    direct.close()


def test_a_head_request_or_another_content_type_does_not_change_what_is_kept_in_memory(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    direct.ok("POST", "/subjects/s/versions", {"schema": _record("S", [("x", "int")])})
    assert direct(f"READ {ALL}", "HEAD", "/schemas/ids/1") == (200, "")
    assert "schema" in direct(f"READ {ALL}", "GET", "/schemas/ids/1")[1]
    highest = [json.loads(direct(f"READ {ALL}", "GET", "/schemas/ids/1", query="fetchMaxId=true")[1])["maxId"]]
    direct.ok("POST", "/subjects/t/versions", {"schema": _record("T", [("x", "int")])})
    highest.append(json.loads(direct(f"READ {ALL}", "GET", "/schemas/ids/1", query="fetchMaxId=true")[1])["maxId"])
    assert highest == [1, 2]
    direct.close()


def test_a_usage_report_of_an_id_that_may_not_be_read_is_left_out_and_said_so(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    direct.ok("POST", "/subjects/b.x/versions", {"schema": _record("S", [("x", "int")])})
    status, text = direct("READ a.", "POST", "/eventide/v1/usage", {"client": "c", "decoded": [{"id": 1}]})
    assert (status, json.loads(text)) == (200, {"accepted": 0, "unseen": [{"context": ".", "id": 1}]})
    assert direct.ok("GET", "/eventide/v1/usage") == []
    direct.close()


@pytest.mark.parametrize(
    "path", ["/config/:.__GLOBAL:", "/mode/:.__GLOBAL:", "/contexts/.__GLOBAL/config", "/contexts/:.__GLOBAL:/mode"]
)
def test_who_governs_every_named_context_does_not_govern_the_registry(tmp_path: Path, path: str) -> None:
    direct = Direct(tmp_path)
    body = {"compatibility": "NONE", "mode": "READWRITE"}
    for who in ("ADMIN :.", "ADMIN :.__GLOBAL:", "WRITE all"):
        for method, sent in (("PUT", body), ("DELETE", None)):
            assert direct(who, method, path, sent)[0] == 403, (who, method)
    assert direct("ADMIN all", "PUT", path, body)[0] == 200
    assert direct("ADMIN :.", "PUT", "/config/:.own:", body)[0] == 200
    direct.close()


def test_a_context_can_be_deleted_only_by_who_governs_all_of_it(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    direct.ok("POST", "/subjects/:.c:a.x/versions", {"schema": _record("S", [("x", "int")])})
    for permanent in ("", "permanent=true"):
        direct(f"ADMIN {ALL}", "DELETE", "/subjects/:.c:a.x", query=permanent)
    for who in ("ADMIN :.c:a.", "WRITE all", "READ all", "ADMIN a."):
        assert direct(who, "DELETE", "/contexts/.c")[0] == 403
    assert json.loads(direct(f"READ {ALL}", "GET", "/contexts")[1]) == [".", ".c"]
    assert direct("ADMIN :.c:", "DELETE", "/contexts/.c")[0] == 204
    direct.close()


def test_the_name_of_a_migration_does_not_tell_whose_it_is(tmp_path: Path) -> None:
    direct = Direct(tmp_path)
    for subject in ("a.x", "b.secret"):
        direct.ok("POST", f"/subjects/{subject}/versions", {"schema": _record("S", [("old", "int")])})
    plan = {"schema": _record("S", [("new", "int")]), "name": "move", "renames": {"old": "new"}}
    direct.ok("POST", "/eventide/v1/migrations", {"subject": "b.secret", **plan})
    for method, path in direct.app.surface:
        if "{migration}" in path:
            hidden = direct("ADMIN a.", method, path.replace("{migration}", "move"), {"name": "c", "to": "expand"})
            absent = direct("ADMIN a.", method, path.replace("{migration}", "none"), {"name": "c", "to": "expand"})
            assert (hidden[0], hidden[1].replace("move", "none")) == absent and absent[0] == 404
    taken = direct("WRITE a.", "POST", "/eventide/v1/migrations", {"subject": "a.x", **plan})
    assert taken[0] == 409 and "secret" not in taken[1] and "plan" not in taken[1]
    assert direct("WRITE :.", "POST", "/eventide/v1/migrations", {"subject": ":.:b.secret", **plan})[0] == 403
    direct.close()
