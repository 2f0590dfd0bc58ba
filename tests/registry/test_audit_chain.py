"""The audit log cannot be changed unseen: the database refuses what it can, and the chain shows the rest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.cli.registry import registry
from eventide.registry.audit_chain import BEGINNING, EMPTY, Head, line_hash, verify
from eventide.registry.store import open_store
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import CLASH, V1, order

Line = dict[str, object]


@pytest.fixture
def running(store_url: str) -> Iterator[InThread]:
    service = InThread(store_url)
    yield service
    service.stop()


def _verified(url: str, *more: str) -> tuple[int, str]:
    result = CliRunner().invoke(registry, ["audit", "--verify", "--url", url, *more])
    return result.exit_code, result.output


def _tamper(store_url: str, *statements: str) -> None:
    """What somebody does who owns the database: no service of ours in between, and no trigger."""
    if store_url.startswith("sqlite"):
        with sqlite3.connect(store_url.removeprefix("sqlite:///")) as connection:
            for name in ("update", "delete", "replace"):
                connection.execute(f"DROP TRIGGER audit_no_{name}")
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return
    with psycopg.connect(store_url) as postgres:
        postgres.execute("ALTER TABLE audit DISABLE TRIGGER ALL")
        for statement in statements:
            postgres.execute(statement.encode())


def _fill(ask: Ask) -> None:
    for n in range(4):
        ask.register("s", order(("id", "string"), (f"f{n}", "int", 1)))
    assert ask("POST", "/subjects/s/versions", {"schema": CLASH}).status_code == 409, "a refusal is a line as well"
    ask.ok("PUT", "/config/s", {"compatibility": "NONE"})


TAMPERING = {
    "an edited line": "UPDATE audit SET who = 'nobody' WHERE seq = 3",
    "an edited detail": "UPDATE audit SET detail = '{}' WHERE seq = 2",
    "a removed line": "DELETE FROM audit WHERE seq = 3",
    "the first line removed": "DELETE FROM audit WHERE seq = 1",
    "a log cut short": "DELETE FROM audit WHERE seq > 4",
    "a log emptied": "DELETE FROM audit",
    "a line added": "INSERT INTO audit VALUES (7, 1, 'w', 'o', 'a', 's', 'done', '', '{}', 'abc')",
    "two lines swapped": "UPDATE audit SET seq = CASE seq WHEN 2 THEN 30 ELSE seq END WHERE seq = 2",
}


@pytest.mark.parametrize("what", TAMPERING)
def test_verify_finds(what: str, store_url: str, running: InThread) -> None:
    ask = Ask(running.url)
    _fill(ask)
    code, said = _verified(running.url)
    assert code == 0 and said.startswith("6 lines, all as they were written; the log ends at 6:")
    _tamper(store_url, TAMPERING[what])
    code, said = _verified(running.url)
    assert code == 1 and "line" in said, said
    ask.register("s", V1)
    assert _verified(running.url)[0] == 1, "what is written later does not cover it up"


def test_an_end_that_was_noted_down_finds_a_log_that_was_written_anew(sqlite_url: str, service: InThread) -> None:
    ask = Ask(service.url)
    _fill(ask)
    noted = json.loads(_verified(service.url, "--json")[1])["end"]
    lines = ask.ok("GET", "/eventide/v1/audit")
    lines[2]["who"] = "nobody"
    previous, rewritten = BEGINNING, []
    for line in lines:
        previous = line_hash(previous, line)
        rewritten.append(f"UPDATE audit SET who = '{line['who']}', hash = '{previous}' WHERE seq = {line['seq']}")
    _tamper(sqlite_url, *rewritten, f"UPDATE facts SET value = '6:{previous}' WHERE name = 'audit.head'")
    assert _verified(service.url)[0] == 0, "a chain by itself cannot tell"
    code, said = _verified(service.url, "--expect", noted)
    assert code == 1 and "is not the one that was noted down" in said
    assert _verified(service.url, "--expect", "nonsense")[0] == 2


def test_the_database_refuses_what_it_can(store_url: str, running: InThread) -> None:
    Ask(running.url).register("s", V1)
    line = "(1, 1, 'w', 'o', 'a', 's', 'done', '', '{}', 'abc')"
    if store_url.startswith("sqlite"):
        statements = [f"INSERT OR REPLACE INTO audit VALUES {line}", f"REPLACE INTO audit VALUES {line}"]
    else:
        statements = ["TRUNCATE audit", "TRUNCATE audit CASCADE"]
    store = open_store(store_url)
    for statement in (*statements, "UPDATE audit SET who = 'x'", "DELETE FROM audit"):
        with pytest.raises(Exception, match="append-only"), store.write() as session:
            session._run(statement, ())
    store.close()
    assert _verified(running.url)[0] == 0


def test_services_that_share_a_store_write_one_chain(store_url: str, running: InThread) -> None:
    beside = InThread(store_url)
    for n in range(10):
        Ask((running, beside)[n % 2].url).register(f"s{n}", order((f"f{n}", "int")))
    assert _verified(beside.url)[1].startswith("10 lines, all")
    beside.stop()


def test_a_log_from_before_the_chain_is_chained_when_it_is_opened(store_url: str) -> None:
    columns = "at BIGINT NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, "
    columns += "outcome TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL"
    line = "(at, who, origin, action, subject, outcome, reason, detail) VALUES "
    line += "(1, 'w', 'o', 'register', 's', 'done', '', '{\"b\": 1, \"a\": 2}')"
    lines = [f"INSERT INTO audit {line}" for _ in range(3)]
    if store_url.startswith("sqlite"):
        with sqlite3.connect(store_url.removeprefix("sqlite:///")) as connection:
            connection.execute(f"CREATE TABLE audit (seq INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
            refuse = "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
            connection.execute(f"CREATE TRIGGER audit_no_UPDATE BEFORE UPDATE ON audit {refuse}")
            for statement in lines:
                connection.execute(statement)
        connection.close()
    else:
        with psycopg.connect(store_url) as postgres:
            postgres.execute(f"CREATE TABLE audit (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {columns})".encode())
            for statement in lines:
                postgres.execute(statement.encode())
    running = InThread(store_url)
    Ask(running.url).register("s", V1)
    assert _verified(running.url)[1].startswith("4 lines, all as they were written; the log ends at 4:")
    running.stop()


def _chain(count: int) -> list[Line]:
    lines: list[Line] = []
    previous = BEGINNING
    for seq in range(1, count + 1):
        line: Line = {"seq": seq, "at": seq, "who": "w", "origin": "o", "action": "a", "subject": f"s{seq}", "outcome": "done",
                      "reason": "", "detail": {"n": seq}}  # fmt: skip
        previous = line_hash(previous, line)
        lines.append({**line, "hash": previous})
    return lines


def _edited(column: str) -> Callable[[list[Line], int], list[Line]]:
    return lambda lines, at: [{**line, column: "other" if i == at else line[column]} for i, line in enumerate(lines)]


CHANGES: list[Callable[[list[Line], int], list[Line]]] = [
    *(_edited(column) for column in ("who", "origin", "action", "subject", "outcome", "reason", "detail", "hash", "at")),
    lambda lines, at: lines[:at] + lines[at + 1 :],
    lambda lines, at: lines[:at],
    lambda lines, at: [*lines[:at], lines[at], *lines[at:]],
]


@settings(max_examples=200, deadline=None)
@given(count=st.integers(1, 20), data=st.data())
def test_any_one_change_breaks_the_chain(count: int, data: st.DataObject) -> None:
    lines = _chain(count)
    head = Head(count, str(lines[-1]["hash"]))
    assert verify(lines, head).is_sound and verify(lines, head, Head(1, str(lines[0]["hash"]))).is_sound
    change = data.draw(st.sampled_from(CHANGES))
    assert not verify(change(lines, data.draw(st.integers(0, count - 1))), head).is_sound


def test_an_empty_log_is_sound() -> None:
    assert verify([], EMPTY).is_sound and not verify([], Head(1, "x")).is_sound
