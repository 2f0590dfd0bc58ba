"""The 208 requests that Confluent's service was sent, in order, with the answers it gave."""

from __future__ import annotations

import json
from typing import Any

from tests.registry.conftest import Ask
from tests.support.shared import shared_file

# Every difference that is meant, by request number, with its reason.
MEANT = {
    10: "names this registry, not the Kafka cluster of the recording",
    11: "commitId is ours; the version, which clients act on, is the same",
}
# Differs with every run, in the recording as here.
MOVING = {"ts"}


def _still(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _still(v) for k, v in value.items() if k not in MOVING}
    return [_still(v) for v in value] if isinstance(value, list) else value


def test_every_recorded_request_gets_the_recorded_answer(ask: Ask) -> None:
    recorded = json.loads(shared_file("conformance/registry/confluent_rest_transcript.json").read_text())
    wrong = []
    for case in recorded["requests"]:
        body = case["request"] if case["request_raw"] is None else case["request_raw"].encode()
        headers = {"Content-Type": case["request_content_type"]} if case["request_content_type"] else {}
        answer = ask(case["method"], case["path"], body, headers=headers)
        got = (answer.status_code, answer.headers.get("content-type"), _still(answer.json()))
        wanted = (case["status"], case["content_type"], _still(case["response"]))
        if case["n"] in MEANT:
            assert got[:2] == wanted[:2]
        elif got != wanted:
            wrong.append((case["n"], case["method"], case["path"], "got", got, "wanted", wanted))
    assert not wrong, "\n".join(map(str, wrong))
    assert len(recorded["requests"]) == 208
