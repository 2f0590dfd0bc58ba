"""What clients rely on beyond the recorded transcript: references, ids, metadata, rules and listings."""

from __future__ import annotations

import json

import pytest

from tests.registry.conftest import Ask
from tests.registry.schemas import V1, V2, order


def _named(name: str) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]})


def _refer(*names: str) -> list[dict[str, object]]:
    return [{"name": name, "subject": f"s-{name.lower()}", "version": 1} for name in names]


def test_normalising_sorts_references_and_drops_repeated_ones(ask: Ask) -> None:
    for name in ("A", "B"):
        ask.register(f"s-{name.lower()}", _named(name))
    fields = [{"name": "a", "type": "A"}, {"name": "b", "type": "B"}]
    body = {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}
    first = ask.ok("POST", "/subjects/r/versions?normalize=true", {**body, "references": _refer("B", "A", "B")})
    assert first["references"] == _refer("A", "B")
    again = ask.ok("POST", "/subjects/r/versions?normalize=true", {**body, "references": _refer("A", "B", "A")})
    assert again["version"] == first["version"] == 1
    assert ask.ok("POST", "/subjects/r?normalize=true", {**body, "references": _refer("B", "A")})["version"] == 1
    assert ask.ok("POST", "/subjects/plain/versions", {**body, "references": _refer("B", "A")})["references"] == _refer(
        "B", "A"
    )


def test_a_named_type_in_the_place_of_a_type_is_that_type(ask: Ask) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [{"name": "a", "type": enum}, {"name": "b", "type": {"type": "E"}}]
    schema = {"type": "record", "name": "R", "namespace": "n", "fields": fields}
    ask.register("s", schema)
    stored = json.loads(ask.ok("GET", "/subjects/s/versions/1")["schema"])
    assert [field["type"] for field in stored["fields"]] == [enum, "E"]
    fields[1] = {"name": "b", "type": {"type": "n.Unknown"}}
    assert ask("POST", "/subjects/s/versions", {"schema": json.dumps(schema)}).json()["error_code"] == 42201


def test_the_largest_id_can_be_imported_and_the_next_one_still_fits_32_bits(ask: Ask) -> None:
    ask.register("before", V1)
    ask.ok("PUT", "/mode/imported?force=true", {"mode": "IMPORT"})
    assert ask.register("imported", V2, id=2147483647, version=1)["id"] == 2147483647
    assert ask.ok("GET", "/schemas/ids/2147483647")["schema"]
    assert ask.register("after", order(("z", "int")))["id"] == 2
    ask.ok("PUT", "/mode/:.c:imported?force=true", {"mode": "IMPORT"})
    assert ask.register(":.c:imported", V2, id=2147483647, version=1)["id"] == 2147483647
    assert ask.register(":.c:after", order(("z", "int")))["id"] == 1
    ask.ok("PUT", "/mode/low?force=true", {"mode": "IMPORT"})
    assert ask.register("low", order(("y", "int")), id=1_000, version=1)["id"] == 1_000
    assert ask.register("later", order(("w", "int")))["id"] == 1_001, "other imports move the counter as ever"


def test_a_counter_that_stands_at_the_end_gives_ids_that_are_free(ask: Ask, service) -> None:
    ask.register("s", V1)
    with service.app._store.write() as session:
        session._run("UPDATE counters SET last_id = 2147483647 WHERE context = '.'", ())
    assert ask.register("t", V2)["id"] == 2


def test_empty_metadata_makes_no_new_version(ask: Ask) -> None:
    ask.register("s", V1)
    assert ask.register("s", V1, metadata={})["version"] == 1
    assert ask.register("s", V1, metadata={"properties": {}, "tags": {}})["version"] == 1
    assert ask.register("t", V1, metadata={})["id"] == 1
    assert ask.ok("POST", "/subjects/s", {"schema": V1, "metadata": {}})["version"] == 1


def test_a_look_up_with_a_reference_that_leads_nowhere_finds_nothing(ask: Ask) -> None:
    ask.register("s", V1)
    body = {"schema": V1, "references": [{"name": "x", "subject": "none", "version": 1}]}
    found = ask("POST", "/subjects/s", body)
    assert (found.status_code, found.json()["error_code"]) == (404, 40403)
    assert ask("POST", "/subjects/none", body).json()["error_code"] == 40401
    assert ask("POST", "/subjects/s/versions", body).json()["error_code"] == 42201, "registering it says why"
    assert ask("POST", "/subjects/s", {"schema": "{"}).json()["error_code"] == 42201


RULE = {"name": "r", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "JSONATA", "expr": "$"}


@pytest.mark.parametrize(
    ("family", "change", "code", "said"),
    [
        ("migrationRules", {"mode": "READ"}, 42210, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
        ("migrationRules", {"mode": None}, 42210, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
        ("domainRules", {}, 42210, "Domain rules can only be WRITE, READ, WRITEREAD"),
        ("encodingRules", {}, 42210, "Encoding rules can only be WRITE, READ, WRITEREAD"),
        ("migrationRules", {"kind": "NOPE"}, 400, "[CONDITION, TRANSFORM]"),
        ("migrationRules", {"mode": "NOPE"}, 400, "UPGRADE"),
        ("migrationRules", {"type": None}, 42210, "Missing rule type"),
        ("migrationRules", {"name": None}, 42210, "Missing rule name"),
        ("migrationRules", {"name": "1a"}, 42210, "Illegal character in rule name: 1a"),
    ],
)
def test_a_rule_set_that_makes_no_sense_is_refused(ask: Ask, family: str, change: dict, code: int, said: str) -> None:
    rules = {family: [{**RULE, **change}]}
    refused = ask("POST", "/subjects/s/versions", {"schema": V1, "ruleSet": rules}).json()
    assert refused["error_code"] == code and said in refused["message"]
    assert ask("PUT", "/config/s", {"defaultRuleSet": rules}).json()["error_code"] == code
    twice = {"migrationRules": [RULE], "domainRules": [{**RULE, "mode": "READ"}]}
    assert "duplicate name 'r'" in ask("POST", "/subjects/s/versions", {"schema": V1, "ruleSet": twice}).json()["message"]
    assert ask.register("s", V1, ruleSet={"migrationRules": [RULE]})["ruleSet"] == {"migrationRules": [RULE]}


def test_schemas_without_a_prefix_are_those_of_the_default_context(ask: Ask) -> None:
    ask.register("here", V1)
    ask.register(":.c:there", V2)
    assert [e["subject"] for e in ask.ok("GET", "/schemas")] == ["here"]
    assert [e["subject"] for e in ask.ok("GET", "/schemas?subjectPrefix=:.c:")] == [":.c:there"]
    assert [e["subject"] for e in ask.ok("GET", "/schemas?subjectPrefix=:*:")] == [":.c:there", "here"]
