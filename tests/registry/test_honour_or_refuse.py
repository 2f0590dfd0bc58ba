"""Nothing is accepted and ignored: a setting, parameter or route of Confluent's has its effect, or is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.registry.conftest import Ask
from tests.registry.schemas import V1, V2, order


def _json(properties: dict[str, Any], **more: Any) -> dict[str, str]:
    return {"schema": json.dumps({"type": "object", "properties": properties, **more}), "schemaType": "JSON"}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CLOSED = {"additionalProperties": False}
PARTLY = {"additionalProperties": TEXT}
ANY_OBJECT = {"type": "object"}
WITH_TEXT = {"type": "object", "properties": {"b": TEXT}}
FORGIVEN = [
    (_json({"a": TEXT}), _json({"a": TEXT, "b": TEXT})),
    (_json({"a": TEXT}), _json({"a": TEXT, "b": {**TEXT, "default": ""}}, required=["b"])),
    (_json({"a": TEXT, "b": TEXT}, **CLOSED), _json({"a": TEXT}, **CLOSED)),
    (_json({"a": TEXT}), _json({"a": TEXT}, **CLOSED)),
    (_json({"a": TEXT}), _json({"a": TEXT}, **PARTLY)),
    (_json({}, additionalProperties=ANY_OBJECT), _json({"b": WITH_TEXT}, additionalProperties=ANY_OBJECT)),
    (_json({"o": ANY_OBJECT}), _json({"o": WITH_TEXT})),
]
NOT_FORGIVEN = [
    (_json({"a": TEXT}), _json({"a": NUMBER})),
    (_json({"a": TEXT}, **PARTLY), _json({"a": TEXT, "b": NUMBER}, **PARTLY)),
    (_json({"a": TEXT, "b": NUMBER}, **PARTLY), _json({"a": TEXT}, **PARTLY)),
    (_json({"a": TEXT}), _json({"a": TEXT, "b": TEXT}, required=["b"])),
    (_json({"a": {"type": "array", "items": TEXT}}), _json({"a": {"type": "array", "items": NUMBER}})),
]


@pytest.mark.parametrize(("old", "new"), FORGIVEN)
def test_lenient_lets_names_come_and_go_and_strict_does_not(ask: Ask, old: dict[str, str], new: dict[str, str]) -> None:
    ask.ok("POST", "/subjects/s/versions", old)
    checked = ("POST", "/compatibility/subjects/s/versions/latest", new)
    assert ask.ok(*checked) == {"is_compatible": False}
    ask.ok("PUT", "/config/s", {"compatibilityPolicy": "lenient"})
    assert ask.ok("GET", "/config/s")["compatibilityPolicy"] == "LENIENT"
    assert ask.ok(*checked) == {"is_compatible": True}
    assert ask.ok("POST", "/eventide/v1/compatibility/subjects/s/versions", new)["is_compatible"]
    assert ask.ok("POST", "/subjects/s/versions", new)["version"] == 2
    ask.ok("PUT", "/config/s", {"compatibilityPolicy": None})
    assert "compatibilityPolicy" not in ask.ok("GET", "/config/s")


@pytest.mark.parametrize(("old", "new"), NOT_FORGIVEN)
def test_lenient_does_not_forgive_the_rest(ask: Ask, old: dict[str, str], new: dict[str, str]) -> None:
    ask.ok("PUT", "/config", {"compatibilityPolicy": "LENIENT"})
    ask.ok("POST", "/subjects/s/versions", old)
    assert ask("POST", "/subjects/s/versions", new).json()["error_code"] == 40901


def test_lenient_leaves_the_other_kinds_alone(ask: Ask) -> None:
    ask.ok("PUT", "/config", {"compatibilityPolicy": "LENIENT"})
    ask.register("s", V1)
    without_default = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}],
    }
    assert ask("POST", "/subjects/s/versions", {"schema": json.dumps(without_default)}).json()["error_code"] == 40901


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"compatibilityPolicy": "LOGICAL"}, "compatibilityPolicy LOGICAL"),
        ({"compatibilityPolicy": "LOOSE"}, "LOOSE"),
        ({"aliasForDeks": "x"}, "aliasForDeks"),
        ({"validateRules": False}, "validateRules"),
    ],
)
def test_a_setting_without_effect_is_refused_by_name(ask: Ask, setting: dict[str, Any], named: str) -> None:
    for path in ("/config", "/config/s"):
        before = ask("GET", path).text
        refused = ask("PUT", path, {"compatibility": "NONE", **setting})
        assert refused.status_code == 422 and named in refused.json()["message"]
        assert ask("GET", path).text == before, "and nothing of it was kept"


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "old", "type": "int", "default": 0}],
}
PROTO = 'syntax = "proto3"; message M { string id = 1; oneof u { int32 old = 2; } }'
KINDS = [
    {"schema": json.dumps(AVRO)},
    _json({"id": TEXT, "old": NUMBER}, **CLOSED),
    {"schema": PROTO, "schemaType": "PROTOBUF"},
]


@pytest.mark.parametrize("body", KINDS)
@pytest.mark.parametrize("level", ["NONE", "BACKWARD", "FULL_TRANSITIVE"])
def test_reserved_fields_are_kept_free_where_fields_are_validated(ask: Ask, body: dict[str, Any], level: str) -> None:
    ask.ok("PUT", "/config/s", {"compatibility": level})
    marked = {**body, "metadata": {"properties": {"confluent:reserved": "gone , old"}}}
    ask.ok("POST", "/subjects/free/versions", marked)  # where nobody asked for it, the property says nothing
    ask.ok("PUT", "/config/s", {"validateFields": True})
    refused = ask("POST", "/subjects/s/versions", marked).json()
    assert refused["error_code"] == 40901
    assert "The new schema has field that conflicts with the reserved field old." in refused["message"]
    assert f"{{validateFields: 'true', compatibility: '{level}'}}" in refused["message"]
    checked = ask.ok("POST", "/compatibility/subjects/s/versions?verbose=true", marked)
    assert not checked["is_compatible"] and "reserved field old" in checked["messages"][0]
    explained = ask.ok("POST", "/eventide/v1/compatibility/subjects/s/versions", marked)
    assert [reason["kind"] for reason in explained["reasons"]] == ["RESERVED_FIELD_USED"]


def test_a_reserved_field_stays_reserved(ask: Ask) -> None:
    ask.ok("PUT", "/config/s", {"validateFields": True})
    ask.register("s", V1, metadata={"properties": {"confluent:reserved": "a,b"}})
    refused = ask(
        "POST", "/subjects/s/versions", {"schema": V2, "metadata": {"properties": {"confluent:reserved": "b"}}}
    ).json()
    assert "reserved field a removed from its metadata" in refused["message"]
    assert ask.register("s", V2)["metadata"]["properties"]["confluent:reserved"] == "a,b", "metadata is handed on"


def test_names_with_two_dollars_are_refused_where_fields_are_validated(ask: Ask) -> None:
    body = _json({"$$x": TEXT})
    ask.ok("POST", "/subjects/free/versions", body)
    ask.ok("PUT", "/config/s", {"validateFields": True})
    refused = ask("POST", "/subjects/s/versions", body).json()
    assert refused["error_code"] == 42201 and "Field names cannot start with $$ prefix" in refused["message"]


def test_the_compatibility_route_validates_as_the_registration_would(ask: Ask) -> None:
    bad_default = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]})
    path = "/compatibility/subjects/s/versions"
    assert ask("POST", path, {"schema": bad_default}).json()["error_code"] == 42201
    ask.ok("PUT", "/config/s", {"validateNewSchemas": False})
    assert ask.ok("POST", path, {"schema": bad_default}) == {"is_compatible": True}
    assert ask.ok("POST", "/eventide/v1" + path, {"schema": bad_default})["is_compatible"]
    ask.register("s", bad_default)


@pytest.mark.parametrize(
    ("method", "path", "more", "named"),
    [
        ("POST", "/subjects/s/versions", {"schemaTagsToAdd": [{"schemaEntity": {}, "tags": ["PII"]}]}, "schemaTagsToAdd"),
        ("POST", "/subjects/s/versions", {"schemaTagsToRemove": [{"tags": ["PII"]}]}, "schemaTagsToRemove"),
        ("POST", "/subjects/s/versions", {"propagateSchemaTags": True}, "propagateSchemaTags"),
        ("POST", "/compatibility/subjects/s/versions", {"schemaTagsToAdd": [{"tags": ["PII"]}]}, "schemaTagsToAdd"),
        ("POST", "/subjects/s", {"schemaTagsToAdd": [{"tags": ["PII"]}]}, "schemaTagsToAdd"),
        ("POST", "/subjects/s/versions?force=true", {}, "force"),
        ("POST", "/subjects/s/versions/1/tags", {"tagsToAdd": []}, "/tags"),
        ("GET", "/subjects/s/versions/1?findTags=PII", None, "findTags"),
        ("GET", "/schemas/ids/1?findTags=PII", None, "findTags"),
        ("GET", "/subjects/p/versions/1?format=ignore_extensions", None, "ignore_extensions"),
    ],
)
def test_what_is_not_built_is_refused_by_name(ask: Ask, method: str, path: str, more: Any, named: str) -> None:
    ask.register("s", V1)
    ask.register("p", PROTO, schemaType="PROTOBUF")
    refused = ask(method, path, None if more is None else {"schema": V2, **more})
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42250)
    assert named in refused.json()["message"]
    assert ask.ok("GET", "/subjects/s/versions") == [1]
    if more and more != {"tagsToAdd": []} and "force" not in path:
        empty = {name: type(value)() for name, value in more.items()}
        assert ask(method, path, {"schema": V1, **empty}).status_code == 200, "an empty one asks for nothing"


def test_an_empty_context_can_be_deleted_and_its_ids_stay_used_up(ask: Ask) -> None:
    ask.register(":.c:s", V1)
    ask.register(":.c:s", V2)
    refused = ask("DELETE", "/contexts/.c")
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42211)
    ask.ok("DELETE", "/subjects/:.c:s")
    assert ask("DELETE", "/contexts/.c").json()["error_code"] == 42211, "what is soft deleted is still there"
    ask.ok("DELETE", "/subjects/:.c:s?permanent=true")
    assert ask.ok("GET", "/contexts") == [".", ".c"]
    gone = ask("DELETE", "/contexts/c")  # with or without its dot and colons
    assert (gone.status_code, gone.content) == (204, b"")
    assert ask.ok("GET", "/contexts") == ["."]
    assert ask("DELETE", "/contexts/:.c:").status_code == 204, "again changes nothing"
    assert [line["subject"] for line in ask.ok("GET", "/eventide/v1/audit?action=delete_context")] == [":.c:"]
    assert ask.register(":.c:s", V1)["id"] == 3
    assert ask.ok("GET", "/contexts") == [".", ".c"]
    assert ask("DELETE", "/contexts/:.:").status_code == 204 and ask("DELETE", "/contexts/a:b").status_code == 400


def test_schemas_are_listed_with_their_aliases_and_by_the_type_of_their_rules(ask: Ask) -> None:
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "JSONATA", "expr": "$"}
    ask.register("real", V1)
    ask.register("real", V2, ruleSet={"migrationRules": [rule]})
    ask.register("other", order(("z", "int")))
    ask.ok("PUT", "/config/short", {"alias": "real"})
    ask.ok("PUT", "/config/brief", {"alias": "real"})
    plain = ask.ok("GET", "/schemas")
    assert all("aliases" not in line for line in plain)
    listed = ask.ok("GET", "/schemas?aliases=true")
    assert [(line["subject"], line["version"], line.get("aliases")) for line in listed] == [
        ("other", 1, None), ("real", 1, ["brief", "short"]), ("real", 2, ["brief", "short"]),
    ]  # fmt: skip
    under = ask.ok("GET", "/schemas?aliases=true&subjectPrefix=sho&latestOnly=true")
    assert [(line["subject"], line["version"], line["aliases"]) for line in under] == [("real", 2, ["short"])]
    assert ask.ok("GET", "/schemas?subjectPrefix=sho") == []
    assert [(line["subject"], line["version"]) for line in ask.ok("GET", "/schemas?ruleType=JSONATA")] == [("real", 2)]
    assert ask.ok("GET", "/schemas?ruleType=CEL") == []
    assert len(ask.ok("GET", "/schemas?aliases=true&offset=1&limit=1")) == 1


def test_schemas_of_associations_are_none_for_there_are_no_associations(ask: Ask) -> None:
    ask.register("s", V1)
    assert ask.ok("GET", "/schemas?resourceType=topic") == ask.ok("GET", "/schemas?lifecycle=STRONG") == []
    assert len(ask.ok("GET", "/schemas?lifecycle=NONE")) == 1


def test_the_deployment_is_told(ask: Ask) -> None:
    assert ask.ok("GET", "/v1/metadata/deployment") == {"attributes": []}
