"""Fifty clients, and a SIGKILL in the middle: nothing acknowledged is lost, no id given twice, no version skipped."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from tests.registry.conftest import Ask, Process, wait_until
from tests.registry.schemas import order

CLIENTS = 50
SHARED_SUBJECTS = 5


def _schema(client: int, step: int) -> tuple[str, str]:
    """Half of the requests are of one client alone, half are the same schema that others register at that moment."""
    if step % 2:
        return f"own-{client}", order(("id", "string"), (f"c{client}s{step}", "int", 0))
    return f"shared-{step % SHARED_SUBJECTS}", order(("id", "string"), (f"s{step}", "int", 0))


def _hammer(url: str, client: int, acknowledged: list[tuple[str, str, Any]], stop: threading.Event) -> None:
    with httpx.Client(base_url=url, timeout=30) as http:
        step = 0
        while not stop.is_set():
            step += 1
            subject, schema = _schema(client, step)
            try:
                answer = http.post(f"/subjects/{subject}/versions", json={"schema": schema})
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            acknowledged.append((subject, schema, answer.json()))


def _run_until_killed(url: str, process: Process, acknowledged: list[tuple[str, str, Any]], enough: int) -> None:
    stop = threading.Event()
    clients = [threading.Thread(target=_hammer, args=(url, i, acknowledged, stop)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    wait_until(lambda: len(acknowledged) >= enough, seconds=60)
    process.kill()
    stop.set()
    for client in clients:
        client.join(timeout=30)


@pytest.mark.timeout(180)
def test_a_kill_in_the_middle_loses_nothing_that_was_acknowledged(store_url: str) -> None:
    acknowledged: list[tuple[str, str, Any]] = []
    for _ in range(2):  # the second round starts from what the first one left
        process = Process(store_url)
        _run_until_killed(process.url, process, acknowledged, len(acknowledged) + 300)

    process = Process(store_url)
    ask = Ask(process.url)
    guids: dict[int, set[str]] = {}
    for subject in ask.ok("GET", "/subjects"):
        versions = ask.ok("GET", f"/subjects/{subject}/versions")
        assert versions == list(range(1, len(versions) + 1)), (subject, versions)
    stored = []
    while page := ask.ok("GET", f"/schemas?limit=1000&offset={len(stored)}"):
        stored += page
    for entry in stored:
        guids.setdefault(entry["id"], set()).add(entry["guid"])
    assert all(len(same) == 1 for same in guids.values()), "one id, two schemas"
    assert len({next(iter(same)) for same in guids.values()}) == len(guids), "one schema, two ids"
    by_place = {(entry["subject"], entry["version"]): entry["id"] for entry in stored}
    for subject, _, answer in acknowledged:
        assert by_place[subject, answer["version"]] == answer["id"], (subject, answer)
    for subject, schema, answer in acknowledged[-100:]:
        assert ask.register(subject, schema)["id"] == answer["id"]
    audited = ask.ok("GET", "/eventide/v1/audit?action=register&limit=10000")
    assert len(audited) == len(stored), "the audit log and the schemas stand or fall together"
    process.stop()


def test_fifty_clients_that_register_the_same_schema_get_one_id(store_url: str) -> None:
    process = Process(store_url)
    answers: list[Any] = []
    gate = threading.Barrier(CLIENTS)

    def once() -> None:
        with httpx.Client(base_url=process.url, timeout=60) as http:
            gate.wait()
            answers.append(http.post("/subjects/s/versions", json={"schema": order(("id", "string"))}).json())

    clients = [threading.Thread(target=once) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert len(answers) == CLIENTS and all(answer == answers[0] for answer in answers)
    assert Ask(process.url).ok("GET", "/subjects/s/versions") == [1]
    process.stop()
