"""Protobuf schemas go the whole way: new numbers for new fields, old ones reserved, records of either shape told apart."""

from __future__ import annotations

import base64

import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from eventide.migration import upcast
from eventide.migration.data.drift import DriftCheck
from eventide.migration.data.events import from_records
from eventide.migration.faults import PlanRefused
from eventide.migration.plan.mapping import Change
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.planning import contracted, expanded, propose
from eventide.migration.plan.policy import Policy
from eventide.migration.plan.shape import language
from eventide.migration.rollout.status import status
from eventide.registry.compatibility import parse
from eventide.registry.faults import Fault
from eventide.registry.wire import encode_header, encode_indexes
from tests.migration.test_phases import CLEAN, QUICK, go

PROTO = language("PROTOBUF")


def proto(body: str, head: str = "package shop;", after: str = "") -> str:
    return f'syntax = "proto3"; {head} message User {{ {body} }} {after}'


OLD = proto("int64 user_id = 1; string signup = 2; string name = 5;")
NEW = proto("int64 user_id = 1; string created = 2; string name = 5;")
FLAT = proto("int64 id = 1; int64 fare_cents = 2;")
NESTED = proto(
    "int64 id = 1; Pricing pricing = 3;",
    after="message Pricing { int64 base = 1; int64 tax = 2; Kind kind = 3; } enum Kind { A = 0; }",
)


def plan(current: str, wanted: str, **more):
    found = propose("PROTOBUF", current, wanted, **more)
    both = expanded(found, current)
    return found, both, contracted(found, both)


def test_a_rename_gets_a_number_of_its_own_and_the_old_one_is_reserved():
    found, both, gone = plan(OLD, NEW, said=Said(renames={"signup": "created"}))
    assert [str(m) for m in found.mappings] == ["rename signup -> created"]
    assert "optional string created = 6;" in both and "string signup = 2;" in both
    assert "signup = 2" not in gone and "reserved 2;" in gone and 'reserved "signup";' in gone
    assert any("created gets the number 6: 2 is taken" in note for note in found.notes)
    for text in (both, gone):
        parse("PROTOBUF", text)


def test_a_group_brings_its_types_and_a_free_number_is_kept():
    found, both, gone = plan(FLAT, NESTED)
    assert (found.mappings[0].change, found.mappings[0].new) == (Change.NEST, ("pricing.base", "pricing.tax"))
    assert "Pricing pricing = 3;" in both and "message Pricing {" in both and "enum Kind {" in both
    assert sorted(PROTO.leaves(gone)) == ["id", "pricing.base", "pricing.kind", "pricing.tax"]
    back, again, flat = plan(
        gone, proto("int64 id = 1; int64 fare_cents = 2;", after="message Pricing { int64 base = 1; int64 tax = 2; }")
    )
    assert back.mappings[0].change is Change.FLATTEN
    assert "optional int64 fare_cents = 4;" in again, "the number 2 is reserved: records that are kept have it"
    assert "message Pricing {" in flat, "a type stays: the level does not let it go"


def test_a_field_inside_a_message_is_changed_where_it_is():
    def address(*fields):
        return proto("Address address = 1;", after=f"message Address {{ {' '.join(fields)} }}")

    found, both, gone = plan(
        address("string street = 1;", "string zip = 2;"),
        address("string street = 1;", "string postcode = 3;"),
    )
    assert (found.old, found.new, found.drops) == (("address.zip",), ("address.postcode",), ("address.zip",))
    assert sorted(PROTO.leaves(both)) == ["address.postcode", "address.street", "address.zip"]
    assert sorted(PROTO.leaves(gone)) == ["address.postcode", "address.street"]


def test_a_type_is_changed_under_another_name_unless_the_wire_is_the_same():
    found, both, _ = plan(proto("int64 id = 1; string age = 2;"), proto("int64 id = 1; int32 age = 2;"))
    assert [str(m) for m in found.mappings] == ["retype age -> age_int"]
    assert "optional int32 age_int = 3;" in both
    wider = propose("PROTOBUF", proto("int32 id = 1;"), proto("int64 id = 1;"))
    assert "no migration is needed" in wider.advice
    moved, _, _ = plan(proto("int64 id = 1; int64 a = 2;"), proto("int64 id = 1; int64 a = 3;"))
    assert [m.change for m in moved.mappings] == [Change.RETYPE], "the same name under another number is another field"


def test_what_cannot_be_planned_is_said():
    with pytest.raises(PlanRefused, match="leave the setting `rules` off for PROTOBUF"):
        propose("PROTOBUF", OLD, NEW, said=Said(renames={"signup": "created"}), policy=Policy(rules=True))
    ring = proto("Node node = 1;", after="message Node { Other other = 1; int64 a = 2; } message Other { Node node = 1; }")
    assert list(PROTO.leaves(ring)) == ["node.other.node", "node.a"]


def test_numbers_avoid_what_is_reserved_extended_or_kept_back():
    text = proto("int64 a = 1; reserved 2 to 7; reserved 18999; oneof o { int64 b = 8; }")
    addition = PROTO.missing(text, proto("int64 z = 4;"))[0]
    assert "optional int64 z = 20000;" in PROTO.with_added(text, [addition])


def test_a_protobuf_migration_goes_the_whole_way_under_backward(desk):
    desk.register("users", OLD, "PROTOBUF")
    desk.do(lambda r: r.plan("users", NEW, said=Said(renames={"signup": "created"}), policy=QUICK, name="m"))
    assert desk.do(lambda r: status(r.catalog, r, r.find("m")))["obstacles"] == []
    desk.do(lambda r: r.confirm("m"))
    go(desk, "expand")
    with pytest.raises(Fault, match="drops signup, the old shape"):
        desk.register("users", NEW, "PROTOBUF")
    go(desk, "dual_write")
    desk.do(lambda r: r.report_drift("m", "p", 1, CLEAN, []))
    for step in ("migrate", "contract_ready"):
        go(desk, step)
    go(desk, "contracted", confirmation="m")
    with desk.store.read() as session:
        latest = session.latest("users").text
    assert sorted(PROTO.leaves(latest)) == ["created", "name", "user_id"] and "reserved 2;" in latest
    with pytest.raises(Fault, match="has contracted"):
        desk.register("users", OLD, "PROTOBUF")


def test_dropping_one_of_a_oneof_is_named_before_it_begins(desk):
    desk.register("users", proto("int64 id = 1; oneof way { string mail = 2; string phone = 3; }"), "PROTOBUF")
    wanted = proto("int64 id = 1; oneof way { string phone = 3; } string email = 4;")
    desk.do(lambda r: r.plan("users", wanted, said=Said(renames={"mail": "email"}), policy=QUICK, name="m"))
    (obstacle,) = desk.do(lambda r: status(r.catalog, r, r.find("m")))["obstacles"]
    assert obstacle["gate"] == "contracted_accepted"


class Served:
    """A registry that knows one schema."""

    def __init__(self, text: str) -> None:
        self.kind, self.text = "PROTOBUF", text

    def schema(self, schema_id: int):
        return self

    def texts(self, schema):
        return {}

    def note_decoded(self, schema_id: int) -> None:
        pass


def records(text: str, *rows: dict):
    parsed = parse("PROTOBUF", text)
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.serialized))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.User"))
    return [(0, encode_header(1) + encode_indexes([0]) + made(**row).SerializeToString()) for row in rows]


def test_records_of_either_shape_are_told_apart_and_read_as_one():
    found, both, _ = plan(OLD, NEW, said=Said(renames={"signup": "created"}))
    rows = (
        {"user_id": 1, "signup": "a", "created": "a"},
        {"user_id": 2, "signup": "a", "created": "b"},
        {"user_id": 3, "signup": "a"},
    )
    ((_, frame),) = from_records(iter(records(both, *rows)), Served(both), None)
    report = DriftCheck(found.mappings, found.leaves, ("user_id",))(frame)
    assert {k: v for k, v in report.counts.items() if v} == {"agree": 1, "differ": 1, "old_only": 1}
    assert upcast(frame, found)["created"].to_list() == ["a", "b", "a"]
    assert isinstance(frame, pl.DataFrame)
