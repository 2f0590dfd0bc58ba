"""The last step, for who wants it: the new field becomes required, once nothing that is kept lacks it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from eventide.migration.data.lacking import Lacking
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.plan import Plan
from eventide.migration.plan.planning import propose
from eventide.migration.rollout.tightening import tighten
from eventide.registry.faults import Fault
from tests.migration.desk import CREATED_AT, FARE, PRICING, SIGNUP_DATE, USER_ID, Desk, record
from tests.migration.test_json_schemas import AT, CLOSED, DAY, ID, OPEN, schema
from tests.migration.test_phases import CLEAN, QUICK, go


def contracted(desk: Desk, current: str, wanted: str, kind: str = "AVRO", **said) -> None:
    desk.register("users", current, kind)
    desk.do(lambda r: r.plan("users", wanted, said=Said(**said), policy=QUICK, name="m"))
    desk.do(lambda r: r.confirm("m", accept_guesses=True))
    for step in ("expand", "dual_write"):
        go(desk, step)
    desk.do(lambda r: r.report_drift("m", "p", 1, CLEAN, []))
    for step in ("migrate", "contract_ready"):
        go(desk, step)
    go(desk, "contracted", confirmation="m")
    desk.now += 1


def refused(desk: Desk, confirmation: str | None = "m") -> str:
    with pytest.raises(Fault) as error:
        desk.do(lambda r: tighten(r, "m", confirmation))
    assert error.value.status == 409
    return error.value.message


def test_a_contracted_avro_field_becomes_required_once_all_that_is_kept_has_it(desk):
    contracted(desk, record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), renames={"signup_date": "created_at"})
    assert desk.latest("users")["fields"][1]["type"][0] == "null"
    assert "nobody has read all that is kept since the contract" in refused(desk)
    desk.do(lambda r: r.scanned("m", 10, 3))
    assert "3 of 10 records that are kept lack created_at" in refused(desk)
    desk.do(lambda r: r.scanned("m", 0, 0))  # an empty topic is no proof
    assert "3 of 10 records" in refused(desk)
    desk.now += 5
    desk.do(lambda r: r.scanned("m", 10, 0))
    assert "Repeat with --confirm m" in refused(desk, None)
    desk.do(lambda r: tighten(r, "m", "m"))
    assert desk.latest("users")["fields"][1] == CREATED_AT
    again = desk.do(lambda r: tighten(r, "m", "m"))
    assert again.outcome.value == "already"
    assert [line["outcome"] for line in desk.audit() if line["action"] == "tighten_migration"] == ["done"]


def test_before_the_contract_nothing_is_tightened(desk):
    desk.planned(policy=QUICK)
    go(desk, "expand")
    assert "is in expand; a field is tightened after the contract" in refused(desk)


def test_where_the_wanted_field_is_optional_there_is_nothing_to_tighten(desk):
    loose = {**CREATED_AT, "type": ["null", CREATED_AT["type"]], "default": None}
    contracted(desk, record(USER_ID, SIGNUP_DATE), record(USER_ID, loose), renames={"signup_date": "created_at"})
    assert "there is nothing to tighten" in refused(desk)


@pytest.mark.parametrize("level", ["BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"])
def test_a_level_that_looks_at_every_version_does_not_let_it(desk, level):
    contracted(desk, record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), renames={"signup_date": "created_at"})
    with desk.store.write() as session:
        session.put_config("users", {"compatibilityLevel": level})
    desk.do(lambda r: r.scanned("m", 10, 0))
    assert f"{level} compares every later version with those from before the migration" in refused(desk)


def test_a_later_version_can_follow_the_tightened_one_and_a_looser_one_is_not_given_out_again(desk):
    contracted(desk, record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), renames={"signup_date": "created_at"})
    looser = json.dumps(desk.latest("users"))
    desk.do(lambda r: r.scanned("m", 10, 0))
    assert desk.register("users", looser)
    desk.do(lambda r: tighten(r, "m", "m"))
    with pytest.raises(Fault, match="created_at is required since migration 'm' was tightened"):
        desk.register("users", looser)
    desk.register("users", record(USER_ID, CREATED_AT, {"name": "x", "type": "int", "default": 0}))


def test_an_inner_field_of_a_new_group_is_tightened_with_its_group(desk):
    contracted(desk, record(USER_ID, FARE), record(USER_ID, PRICING))
    desk.do(lambda r: r.scanned("m", 10, 0))
    desk.do(lambda r: tighten(r, "m", "m"))
    assert desk.latest("users")["fields"][1] == PRICING


@pytest.mark.parametrize("content", [OPEN, CLOSED], ids=["open", "closed"])
def test_a_json_property_gets_its_type_and_is_required(desk, content):
    contracted(desk, schema(content, id=ID, day=DAY), schema(content, id=ID, at=AT), "JSON", renames={"day": "at"})
    desk.do(lambda r: r.scanned("m", 10, 0))
    desk.do(lambda r: tighten(r, "m", "m"))
    found = desk.latest("users")
    assert (found["properties"]["at"], sorted(found["required"])) == (AT, ["at", "id"])


def test_what_lacks_the_field_is_found_in_every_record(desk):
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    whole = {"base": 1, "surge": 0, "tax": 0}
    rows = [whole, {**whole, "tax": None}, None]
    frame = pl.DataFrame({"user_id": [1, 2, 3], "pricing": rows})
    lacking = Lacking(plan)
    assert lacking(frame) == 2
    assert lacking(frame.drop("pricing")) == 3


def test_a_json_value_of_another_type_counts_as_lacking_its_type():
    plan = propose("JSON", schema(id=ID, old=ID), schema(id=ID, new=ID), said=Said(renames={"old": "new"}))
    assert Lacking(plan)(pl.DataFrame({"id": [1, 2], "new": ["x", "7"]})) == 2
    assert Lacking(plan)(pl.DataFrame({"id": [1, 2], "new": [7, None]})) == 1


def test_a_plan_keeps_what_is_to_be_tightened():
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    assert plan.tight and Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    before = plan.as_json()
    for key in ("tight", "required", "retired"):
        del before[key]  # as an earlier release wrote it
    assert Plan.from_json(before).tight == ()
