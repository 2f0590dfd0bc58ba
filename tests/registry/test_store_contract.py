"""One contract for every store: the same story, told by each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from eventide.registry.service import Options
from eventide.registry.store import StoreUnavailable, open_store
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import CLASH, V1, V2, V3, order
from tests.registry.test_transcript import MEANT, _still
from tests.support.shared import shared_file


@pytest.fixture
def running(store_url: str) -> Iterator[InThread]:
    service = InThread(store_url)
    yield service
    service.stop()


@pytest.fixture
def ask(running: InThread) -> Ask:
    return Ask(running.url)


def test_the_transcript_replays(ask: Ask) -> None:
    recorded = json.loads(shared_file("conformance/registry/confluent_rest_transcript.json").read_text())
    for case in recorded["requests"]:
        body = case["request"] if case["request_raw"] is None else case["request_raw"].encode()
        headers = {"Content-Type": case["request_content_type"]} if case["request_content_type"] else {}
        answer = ask(case["method"], case["path"], body, headers=headers)
        assert answer.status_code == case["status"], case
        if case["n"] not in MEANT:
            assert _still(answer.json()) == _still(case["response"]), case


def test_what_was_stored_is_there_after_a_restart(store_url: str) -> None:
    first = InThread(store_url)
    ask = Ask(first.url)
    registered = [ask.register("a", V1), ask.register("a", V2), ask.register("b%2F%C3%BC", V1)]
    ask.ok("PUT", "/config/a", {"compatibility": "FULL"})
    ask.ok("PUT", "/mode/q", {"mode": "READONLY"})
    first.stop()
    second = InThread(store_url)
    ask = Ask(second.url)
    assert ask.register("a", V1) == registered[0]
    assert ask.register("a", V2) == registered[1]
    assert ask.ok("GET", "/subjects") == ["a", "b/ü"]
    assert ask.ok("GET", "/config/a") == {"compatibilityLevel": "FULL"}
    assert ask.ok("GET", "/mode/q") == {"mode": "READONLY"}
    assert ask.register("c", V3)["id"] == 3
    second.stop()


def test_two_services_share_a_store(store_url: str, running: InThread) -> None:
    beside = InThread(store_url)
    one, other = Ask(running.url), Ask(beside.url)
    ids = [(one, other)[i % 2].register(f"s{i}", order((f"f{i}", "int")))["id"] for i in range(20)]
    assert sorted(ids) == list(range(1, 21))
    assert one.ok("GET", "/subjects") == other.ok("GET", "/subjects")
    beside.stop()


def test_a_delete_by_another_service_shows_in_answers_by_id(store_url: str, running: InThread) -> None:
    beside = InThread(store_url)
    one, other = Ask(running.url), Ask(beside.url)
    one.register("s", V1)
    for _ in range(3):
        assert one.ok("GET", "/schemas/ids/1")["deleted"] is False
    other.ok("DELETE", "/subjects/s")
    other.ok("DELETE", "/subjects/s?permanent=true")
    from tests.registry.conftest import wait_until

    wait_until(lambda: one("GET", "/schemas/ids/1").status_code == 404, seconds=5)
    beside.stop()


def test_the_audit_log_cannot_be_rewritten(store_url: str, ask: Ask) -> None:
    ask.register("s", V1)
    store = open_store(store_url)
    for statement in ("UPDATE audit SET who = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(Exception, match="append-only"), store.write() as session:
            session._run(statement, ())
    store.close()
    assert [line["action"] for line in ask.ok("GET", "/eventide/v1/audit")] == ["register"]


def test_a_refused_change_takes_nothing_of_the_others_with_it(ask: Ask) -> None:
    ask.register("s", V2)
    assert ask("POST", "/subjects/s/versions", {"schema": CLASH}).status_code == 409
    assert ask.register("s", V3)["version"] == 2


def test_a_store_that_is_down_is_an_error_and_not_an_answer(tmp_path) -> None:
    with pytest.raises((StoreUnavailable, OSError)):
        open_store("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")
    with pytest.raises(ValueError, match="no store"):
        open_store("mysql://x")


def test_a_body_above_the_limit_is_refused(store_url: str) -> None:
    small = InThread(store_url, Options(body_limit=2_000))
    ask = Ask(small.url)
    assert ask("POST", "/subjects/s/versions", {"schema": "x" * 3_000}).status_code == 413
    assert ask.register("s", V1)["id"] == 1
    small.stop()
