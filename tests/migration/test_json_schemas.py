"""JSON Schemas under the default level: open, closed and partly open objects go the whole way, or the plan says why not."""

from __future__ import annotations

import json

import pytest

from eventide.migration.plan.pairing import Said
from eventide.migration.plan.planning import contracted, expanded, propose
from eventide.migration.plan.shape import language
from eventide.migration.rollout.status import status
from tests.migration.desk import Desk
from tests.migration.test_phases import CLEAN, QUICK, go

ID = {"type": "integer"}
DAY = {"type": "string", "format": "date"}
AT = {"type": "string", "format": "date-time"}
PRICING = {"type": "object", "properties": {"base": ID, "tax": ID}, "required": ["base", "tax"]}
OPEN, CLOSED = {}, {"additionalProperties": False}
TEXTS, COVERED = {"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"type": "string"}}
DRAFTS = [
    {},
    {"$schema": "http://json-schema.org/draft-07/schema#"},
    {"$schema": "https://json-schema.org/draft/2020-12/schema"},
]


def schema(content=OPEN, **properties) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": list(properties), **content})


def leaves(text: str) -> list[str]:
    return sorted(language("JSON").leaves(text))


def started(desk: Desk, current: str, wanted: str, level: str | None = None, **said) -> dict:
    desk.register("users", current, "JSON")
    if level is not None:
        with desk.store.write() as session:
            session.put_config("users", {"compatibilityLevel": level})
    desk.do(lambda r: r.plan("users", wanted, said=Said(**said), policy=QUICK, name="m"))
    return shown(desk)


def shown(desk: Desk) -> dict:
    return desk.do(lambda r: status(r.catalog, r, r.find("m")))


@pytest.mark.parametrize("content", [OPEN, CLOSED, TEXTS, COVERED], ids=["open", "closed", "integers", "texts"])
@pytest.mark.parametrize("draft", DRAFTS, ids=["none", "draft-07", "2020-12"])
def test_a_json_schema_goes_the_whole_way_under_backward(desk, content, draft):
    content = {**content, **draft}
    said = started(desk, schema(content, id=ID, day=DAY), schema(content, id=ID, at=AT), renames={"day": "at"})
    assert said["obstacles"] == []
    desk.do(lambda r: r.confirm("m"))
    go(desk, "expand")
    assert leaves(json.dumps(desk.latest("users"))) == ["at", "day", "id"]
    go(desk, "dual_write")
    desk.do(lambda r: r.report_drift("m", "p", 1, CLEAN, []))
    for step in ("migrate", "contract_ready"):
        go(desk, step)
    go(desk, "contracted", confirmation="m")
    assert leaves(json.dumps(desk.latest("users"))) == ["at", "id"]
    assert desk.latest("users")["required"] == ["id"]


@pytest.mark.parametrize("content", [OPEN, CLOSED], ids=["open", "closed"])
def test_a_group_of_fields_is_added_and_a_group_goes_under_backward(desk, content):
    flat, nested = schema(content, id=ID, fare=ID), schema(content, id=ID, pricing={**PRICING, **content})
    for current, wanted, gone in ((flat, nested, ["fare"]), (nested, flat, ["pricing.base", "pricing.tax"])):
        plan = propose("JSON", current, wanted)
        both = expanded(plan, current)
        assert leaves(both) == ["fare", "id", "pricing.base", "pricing.tax"]
        assert [p for p in leaves(both) if p not in leaves(contracted(plan, both))] == gone
        assert plan.leaves["pricing.base"].type == "long"


def test_what_an_open_object_cannot_take_yet_is_said_in_the_plan(desk):
    said = started(desk, schema(id=ID, day=DAY), schema(id=ID, at=AT), renames={"day": "at"})
    assert any("at stands in the schema without its type" in note for note in said["plan"]["notes"])
    assert json.loads(said["schemas"]["expanded"])["properties"]["at"] == {"x-eventide-wanted": AT}
    assert "day" not in json.loads(said["schemas"]["contracted"])["properties"]


def test_what_a_closed_object_must_still_tolerate_is_said_in_the_plan(desk):
    said = started(desk, schema(CLOSED, id=ID, day=DAY), schema(CLOSED, id=ID, at=AT), renames={"day": "at"})
    assert any("day stays as a name that may hold anything" in note for note in said["plan"]["notes"])
    assert json.loads(said["schemas"]["expanded"])["properties"]["at"] == AT
    gone = json.loads(said["schemas"]["contracted"])
    assert gone["properties"]["day"] == {"deprecated": True, "x-eventide-gone": True}
    assert "day" not in leaves(json.dumps(gone))


@pytest.mark.parametrize(
    ("level", "content", "gate"),
    [
        ("FORWARD", OPEN, "contracted_accepted"),
        ("FULL", OPEN, "contracted_accepted"),
        ("FORWARD", CLOSED, "expanded_accepted"),
        ("FULL", CLOSED, "expanded_accepted"),
    ],
)
def test_a_level_under_which_it_cannot_end_is_named_before_it_begins(desk, level, content, gate):
    said = started(desk, schema(content, id=ID, day=DAY), schema(content, id=ID, at=AT), level, renames={"day": "at"})
    assert gate in [obstacle["gate"] for obstacle in said["obstacles"]]
    for obstacle in said["obstacles"]:
        assert "does not pass" in obstacle["found"] and "level" in obstacle["remedy"]


def test_a_property_that_is_gone_can_come_back_as_a_new_one(desk):
    current = json.dumps(
        {"type": "object", "properties": {"id": ID, "day": {"deprecated": True, "x-eventide-gone": True}}, **CLOSED}
    )
    plan = propose("JSON", current, schema(CLOSED, day=DAY), level="NONE", said=Said(renames={"id": "day"}))
    assert leaves(expanded(plan, current)) == ["day", "id"]
