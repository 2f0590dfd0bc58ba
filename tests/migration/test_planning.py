"""What a plan makes of a change: additive or not, which mapping, which schemas."""

from __future__ import annotations

import json

import pytest

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.mapping import Change
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.plan import Plan
from eventide.migration.plan.planning import Additive, contracted, expanded, propose
from eventide.migration.plan.shape.language import language
from eventide.registry.compatibility import check_level, parse
from tests.migration.desk import CREATED_AT, FARE, PRICING, SIGNUP_DATE, USER_ID, field_names, record


def plan(current: str, wanted: str, kind: str = "AVRO", **more) -> Plan:
    found = propose(kind, current, wanted, **more)
    assert isinstance(found, Plan), found
    return found


def test_an_added_optional_field_needs_no_migration():
    found = propose("AVRO", record(USER_ID), record(USER_ID, {"name": "x", "type": ["null", "int"], "default": None}))
    assert isinstance(found, Additive)
    assert found.advice == "It only adds x: no migration is needed, register the schema as it is."


def test_an_added_required_field_needs_no_migration_but_a_default():
    found = propose("AVRO", record(USER_ID), record(USER_ID, {"name": "x", "type": "int"}))
    assert isinstance(found, Additive)
    assert "without a default" in found.advice


def test_a_widening_that_the_level_takes_needs_no_migration():
    narrow, wide = record({"name": "n", "type": "int"}), record({"name": "n", "type": "long"})
    assert isinstance(propose("AVRO", narrow, wide, level="BACKWARD"), Additive)
    assert plan(narrow, wide, level="FULL").mappings[0].change is Change.RETYPE


def test_the_worked_rename_is_mapped_both_ways():
    found = plan(record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), said=Said(renames={"signup_date": "created_at"}))
    [mapping] = found.mappings
    assert (mapping.change, mapping.certain) == (Change.RENAME, True)
    assert mapping.forward == {"created_at": "CAST(signup_date AS TIMESTAMP)"}
    assert mapping.backward == {"signup_date": "CAST(created_at AS DATE)"}


def test_a_rename_that_nobody_named_is_a_guess():
    [mapping] = plan(record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT)).mappings
    assert (mapping.change, mapping.certain) == (Change.RENAME, False)


def test_an_alias_in_the_schema_makes_a_rename_certain():
    aliased = {**CREATED_AT, "aliases": ["signup_date"]}
    found = plan(record(USER_ID, SIGNUP_DATE), record(USER_ID, aliased))
    assert found.mappings[0].certain
    # An alias in the expanded schema would make readers take the old value for the new one.
    assert "aliases" not in json.loads(expanded(found, record(USER_ID, SIGNUP_DATE)))["fields"][2]


def test_a_number_that_becomes_a_group_of_numbers_is_taken_as_their_sum():
    [mapping] = plan(record(USER_ID, FARE), record(USER_ID, PRICING)).mappings
    assert (mapping.change, mapping.certain) == (Change.NEST, False)
    assert mapping.forward == {"pricing.base": "fare_cents", "pricing.surge": "0", "pricing.tax": "0"}
    assert mapping.backward == {"fare_cents": "pricing.base + pricing.surge + pricing.tax"}
    [flat] = plan(record(USER_ID, PRICING), record(USER_ID, FARE)).mappings
    assert (flat.change, flat.forward) == (Change.FLATTEN, mapping.backward)


def test_names_tell_which_leaf_went_where():
    flat = record({"name": "city", "type": "string"}, {"name": "address_zip", "type": "string"})
    inner = [{"name": "zip", "type": "string"}, {"name": "city", "type": "string"}]
    nested = record({"name": "address", "type": {"type": "record", "name": "A", "fields": inner}})
    pairs = {m.old[0]: m.new[0] for m in plan(flat, nested).mappings}
    assert pairs == {"city": "address.city", "address_zip": "address.zip"}
    assert plan(nested, flat).drops == ("address",)


def test_a_retyped_field_gets_a_name_of_its_own_for_the_time_being():
    before, after = record({"name": "age", "type": "string"}), record({"name": "age", "type": "int"})
    found = plan(before, after, said=Said(names={"age": "age_years"}))
    assert (found.old, found.new, found.mappings[0].change) == (("age",), ("age_years",), Change.RETYPE)
    assert found.mappings[0].forward == {"age_years": "CAST(age AS INT)"}
    assert any("rename it in a migration of its own" in note for note in found.notes)


def test_a_change_of_meaning_is_seen_in_a_unit_or_said():
    gross, net = {"name": "revenue", "type": "long", "unit": "gross"}, {"name": "revenue", "type": "long", "unit": "net"}
    found = plan(record(gross), record(net))
    assert (found.mappings[0].change, found.new, found.mappings[0].certain) == (Change.MEANING, ("revenue_v2",), False)
    told = plan(record(FARE), record(FARE), said=Said(meaning={"fare_cents": "fare_net"}))
    assert (told.mappings[0].change, told.new) == (Change.MEANING, ("fare_net",))


def test_a_field_without_successor_is_dropped_and_that_is_a_guess():
    [mapping] = plan(record(USER_ID, FARE), record(USER_ID)).mappings
    assert (mapping.change, mapping.new, mapping.certain) == (Change.DROP, (), False)


@pytest.mark.parametrize("level", ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FULL", "FULL_TRANSITIVE"])
def test_the_expanded_schema_passes_every_level(level):
    for before, after in [((USER_ID, SIGNUP_DATE), (USER_ID, CREATED_AT)), ((USER_ID, FARE), (USER_ID, PRICING))]:
        current = record(*before)
        both = expanded(plan(current, record(*after)), current)
        assert check_level(level, parse("AVRO", both), [parse("AVRO", current)]) == []


def test_the_contracted_schema_is_the_expanded_one_without_the_old_fields():
    current = record(USER_ID, SIGNUP_DATE)
    found = plan(current, record(USER_ID, CREATED_AT))
    both = expanded(found, current)
    assert field_names(json.loads(both)) == ["user_id", "signup_date", "created_at"]
    assert field_names(json.loads(contracted(found, both))) == ["user_id", "created_at"]


def test_a_field_inside_a_record_is_renamed_there():
    def address(name):
        return {
            "name": "address",
            "type": {
                "type": "record",
                "name": "A",
                "fields": [{"name": "street", "type": "string"}, {"name": name, "type": "string"}],
            },
        }

    current = record(USER_ID, address("zip"))
    found = plan(current, record(USER_ID, address("postcode")))
    both = json.loads(expanded(found, current))
    assert (found.old, found.new, found.drops) == (("address.zip",), ("address.postcode",), ("address.zip",))
    assert field_names(both["fields"][1]["type"]) == ["street", "zip", "postcode"]
    assert field_names(json.loads(contracted(found, json.dumps(both)))["fields"][1]["type"]) == ["street", "postcode"]


def test_json_schemas_are_planned_too():
    def schema(**properties):
        return json.dumps(
            {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        )

    old = schema(id={"type": "integer"}, day={"type": "string", "format": "date"})
    new = schema(id={"type": "integer"}, at={"type": "string", "format": "date-time"})
    found = plan(old, new, "JSON", said=Said(renames={"day": "at"}), level="NONE")
    assert found.mappings[0].forward == {"at": "CAST(day AS TIMESTAMP)"}
    both = json.loads(expanded(found, old))
    assert (sorted(both["properties"]), both["required"]) == (["at", "day", "id"], ["id", "day"])
    gone = json.loads(contracted(found, json.dumps(both)))
    assert (sorted(gone["properties"]), gone["required"]) == (["at", "id"], ["id"])


def test_a_json_schema_that_requires_nothing_any_more_has_no_empty_list():
    text = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
    assert "required" not in json.loads(language("JSON").loosened(text, ["id"]))


def test_an_expression_must_parse_and_read_what_is_there():
    current, wanted = record(USER_ID, FARE), record(USER_ID, PRICING)
    with pytest.raises(PlanRefused, match=r"reads pricing\.bas, which is not among"):
        plan(
            current,
            wanted,
            said=Said(backward={"fare_cents": "pricing.bas + pricing.tax"}, forward={"pricing.base": "fare_cents"}),
        )
    with pytest.raises(PlanRefused, match="is no SQL expression"):
        plan(current, wanted, said=Said(backward={"fare_cents": "pricing.base +"}))
    with pytest.raises(PlanRefused, match="'fare' is no field of the current schema; it has user_id, fare_cents"):
        plan(current, wanted, said=Said(renames={"fare": "pricing.base"}))


def test_a_plan_survives_being_written_down():
    found = plan(record(USER_ID, FARE), record(USER_ID, PRICING))
    assert Plan.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_other_kinds_and_roots_are_refused_with_what_can_be_done():
    with pytest.raises(PlanRefused, match="AVRO, JSON and PROTOBUF can be planned"):
        propose("THRIFT", "{}", "{}")
    with pytest.raises(PlanRefused, match="a message can be migrated"):
        propose("PROTOBUF", 'syntax = "proto3";', 'syntax = "proto3";')
    with pytest.raises(PlanRefused, match="root is a record"):
        propose("AVRO", '"string"', '"int"')
