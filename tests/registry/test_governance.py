"""Owners, naming rules, the audit log, diffs, bulk listing: what registries lack."""

from __future__ import annotations

from tests.registry.conftest import Ask
from tests.registry.schemas import CLASH, V1, V2

OWNER = {"prefix": "orders.", "team": "checkout", "domain": "sales", "contact": "c@example.org", "on_call": "+1"}


def test_the_longest_prefix_owns(ask: Ask) -> None:
    ask.ok("PUT", "/eventide/v1/owners", {"prefix": "", "team": "platform"})
    ask.ok("PUT", "/eventide/v1/owners", OWNER)
    assert ask.ok("GET", "/eventide/v1/owners?subject=orders.paid-value") == OWNER
    assert ask.ok("GET", "/eventide/v1/owners?subject=other")["team"] == "platform"
    assert [o["prefix"] for o in ask.ok("GET", "/eventide/v1/owners")] == ["", "orders."]
    ask.ok("DELETE", "/eventide/v1/owners?prefix=")
    assert ask("GET", "/eventide/v1/owners?subject=other").status_code == 404
    assert ask("PUT", "/eventide/v1/owners", {"prefix": "x"}).status_code == 422


def test_an_owner_can_be_required(ask: Ask) -> None:
    ask.register("before", V1)
    ask.ok("PUT", "/eventide/v1/policy", {"require_owner": True})
    refused = ask("POST", "/subjects/orders.paid/versions", {"schema": V1})
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42251)
    assert ask.register("before", V1)["version"] == 1, "what is there stays readable"
    assert ask.register("with-metadata", V1, metadata={"properties": {"owner": "me"}})["version"] == 1
    ask.ok("PUT", "/eventide/v1/owners", OWNER)
    assert ask.register("orders.paid", V1)["version"] == 1
    assert ask.ok("GET", "/eventide/v1/policy") == {"require_owner": True}


def test_names_follow_the_rule_of_their_prefix(ask: Ask) -> None:
    rule = {"prefix": "orders.", "pattern": r"orders\.[a-z]+-(key|value)", "hint": "Use orders.<name>-value."}
    ask.ok("PUT", "/eventide/v1/naming", rule)
    refused = ask("POST", "/subjects/orders.Paid/versions", {"schema": V1}).json()
    assert refused["error_code"] == 42252 and "Use orders.<name>-value." in refused["message"]
    assert ask.register("orders.paid-value", V1)["version"] == 1
    assert ask.register("elsewhere", V1)["version"] == 1
    assert ask("PUT", "/eventide/v1/naming", {"prefix": "x", "pattern": "("}).status_code == 422
    ask.ok("DELETE", "/eventide/v1/naming?prefix=orders.")
    assert ask.register("orders.Paid", V1)["version"] == 1


def test_the_audit_log_says_who_when_what_why_and_from_where(ask: Ask) -> None:
    because = {"X-Eventide-Reason": "ticket 7", "User-Agent": "deploy/1"}
    ask("POST", "/subjects/s/versions", {"schema": V1}, headers=because)
    ask("POST", "/subjects/s/versions", {"schema": V1}, headers=because)  # nothing changes, nothing to note
    ask("POST", "/subjects/s/versions", {"schema": CLASH})
    ask.ok("PUT", "/config/s?reason=loosen", {"compatibility": "NONE"})
    ask.ok("DELETE", "/subjects/s")
    lines = ask.ok("GET", "/eventide/v1/audit")
    assert [(line["action"], line["outcome"]) for line in lines] == [
        ("register", "done"), ("register", "refused"), ("update_config", "done"), ("delete_subject", "done"),
    ]  # fmt: skip
    first = lines[0]
    assert (first["who"], first["reason"], first["subject"]) == ("anonymous", "ticket 7", "s")
    assert first["origin"] == "127.0.0.1 deploy/1" and first["at"] > 1_600_000_000_000
    assert first["detail"]["version"] == 1
    assert lines[1]["detail"]["error_code"] == 40901
    assert lines[2]["reason"] == "loosen"
    assert ask.ok("GET", f"/eventide/v1/audit?after={lines[1]['seq']}&action=delete_subject") == lines[3:]
    assert ask.ok("GET", "/eventide/v1/audit?subjectPrefix=x") == []


def test_a_diff_of_any_two_versions(ask: Ask) -> None:
    ask.register("s", V1)
    ask.register("s", V2)
    ask.register("t", CLASH)
    found = ask.ok("GET", "/eventide/v1/subjects/s/diff?from=1&to=2")
    assert found["changes"] == [
        {"path": "/fields/qty", "change": "added", "after": {"name": "qty", "type": "int", "default": 1}}
    ]
    assert found["backward"] == [] and found["forward"] == []
    assert '+      "name": "qty",' in found["text"]
    across = ask.ok("GET", "/eventide/v1/subjects/s/diff?from=1&to=1&with=t")
    assert across["changes"] == [{"path": "/fields/id/type", "change": "changed", "before": "string", "after": "int"}]
    assert across["backward"][0]["kind"] == "TYPE_MISMATCH"
    assert ask("GET", "/eventide/v1/subjects/s/diff?from=9").status_code == 404


def test_the_whole_registry_in_one_answer(ask: Ask) -> None:
    for i in range(5):
        ask.register(f"s{i}", V1)
    ask.register("s0", V2)
    ask.ok("PUT", "/config/s1", {"compatibility": "FULL"})
    ask.ok("PUT", "/mode/s2", {"mode": "READONLY"})
    ask.ok("PUT", "/eventide/v1/owners", {"prefix": "s3", "team": "t"})
    lines = {line["subject"]: line for line in ask.ok("GET", "/eventide/v1/subjects")}
    assert list(lines) == ["s0", "s1", "s2", "s3", "s4"]
    assert (lines["s0"]["version"], lines["s0"]["versions"], lines["s0"]["id"]) == (2, 2, 2)
    assert lines["s1"]["compatibilityLevel"] == "FULL" and lines["s4"]["compatibilityLevel"] == "BACKWARD"
    assert lines["s2"]["mode"] == "READONLY" and lines["s3"]["owner"]["team"] == "t" and lines["s4"]["owner"] is None
    assert [line["subject"] for line in ask.ok("GET", "/eventide/v1/subjects?offset=1&limit=2")] == ["s1", "s2"]
    assert ask.ok("GET", "/eventide/v1/health")["status"] == "ok"


def test_usage_says_who_still_reads_the_old_shape(ask: Ask) -> None:
    ask.register("s", V1)
    report = {"client": "billing", "environment": "prod", "decoded": [{"id": 1, "count": 5}, {"id": 7}]}
    assert ask.ok("POST", "/eventide/v1/usage", report) == {"accepted": 2}
    ask.ok("POST", "/eventide/v1/usage", {"client": "billing", "environment": "prod", "decoded": [{"id": 1, "at": 1000}]})
    (line,) = ask.ok("GET", "/eventide/v1/usage?id=1")
    assert (line["decoded"], line["first_seen"]) == (6, 1000) and line["last_seen"] > 1000
    assert len(ask.ok("GET", "/eventide/v1/usage?client=billing")) == 2
    assert len(ask.ok("GET", "/eventide/v1/usage?subject=s")) == 1
    for wrong in ({}, {"client": "x"}, {"client": "x", "decoded": [{}]}, {"client": "x", "decoded": 7}):
        assert ask("POST", "/eventide/v1/usage", wrong).status_code == 422
