"""Protobuf: the text that Confluent stores, and every change that its rules tell apart."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from eventide.registry.compatibility import InvalidSchema, check, parse


def proto(body: str, syntax: str = "proto3", **references: str) -> Any:
    return parse("PROTOBUF", f'syntax = "{syntax}"; {body}', {f"{name}.proto": text for name, text in references.items()})


def kinds(old: str, new: str, syntax: str = "proto3") -> list[str]:
    """What stands in the way of the new schema reading what the old one wrote; both are the inside of a message."""
    before, after = (proto(f"message M {{ {body} }}", syntax) for body in (old, new))
    return [f"{reason.kind} {reason.path}" for reason in check(after, before)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("string a = 1;", "string a = 1; int32 b = 2;", []),
        ("string a = 1; int32 b = 2;", "string a = 1;", []),
        ("string a = 1;", "string b = 1;", []),
        ("string a = 1;", "bytes a = 1;", []),
        ("int32 a = 1;", "uint64 a = 1;", []),
        ("int32 a = 1;", "bool a = 1;", []),
        ("int32 a = 1;", "sint32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        ("fixed32 a = 1;", "sfixed32 a = 1;", []),
        ("fixed32 a = 1;", "fixed64 a = 1;", ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        ("float a = 1;", "double a = 1;", ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        ("int32 a = 1;", "E a = 1; enum E { A = 0; }", []),
        ("N a = 1; message N {}", "int32 a = 1; message N {}", ["FIELD_KIND_CHANGED #/M/1"]),
        ("N a = 1; message N {}", "O a = 1; message N {} message O {}", ["FIELD_NAMED_TYPE_CHANGED #/M/1"]),
        ("N a = 1; message N {}", "M.N a = 1; message N {}", []),
        ("message N {}", "", ["MESSAGE_REMOVED #/M/N"]),
        ("enum E { A = 0; }", "", []),
        ("enum E { A = 0; }", "enum E { B = 0; C = 1; }", []),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;", ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        ("map<string, int32> a = 1;", "string a = 1;", ["FIELD_KIND_CHANGED #/M/1"]),
        ("optional int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
        ("optional string a = 1;", "repeated string a = 1;", []),
        ("int32 a = 1;", "repeated int32 a = 1;", []),
        ("string a = 1;", "oneof o { string a = 1; }", []),
        (
            "string a = 1; string b = 2;",
            "oneof o { string a = 1; string b = 2; }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
        ),
        (
            "string a = 1; oneof o { string b = 2; }",
            "oneof o { string a = 1; string b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
        ),
        (
            "oneof o { string a = 1; string b = 2; }",
            "oneof o { string a = 1; }",
            ["ONEOF_FIELD_REMOVED #/M/o/2"],
        ),
        ("oneof o { string a = 1; }", "", []),
        ("oneof o { string a = 1; }", "string a = 1;", []),
        ("oneof o { string a = 1; }", "oneof p { string a = 1; }", []),
        ("oneof o { string a = 1; }", "oneof o { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED #/M/o/1"]),
    ],
)
def test_rules_of_confluent(old: str, new: str, expected: list[str]) -> None:
    assert kinds(old, new) == expected


def test_required_fields_neither_come_nor_go() -> None:
    assert kinds("", "required string a = 1;", "proto2") == ["REQUIRED_FIELD_ADDED #/M/1"]
    assert kinds("required string a = 1;", "", "proto2") == ["REQUIRED_FIELD_REMOVED #/M/1"]


def test_package_counts_and_order_does_not() -> None:
    assert [reason.kind for reason in check(proto("package a; message M {}"), proto("package b; message M {}"))] == [
        "PACKAGE_CHANGED"
    ]
    assert check(proto("message A {} message B {}"), proto("message B {} message A {}")) == []


def test_imported_messages_are_compared_too() -> None:
    def order(kind: str) -> Any:
        imported = f'syntax = "proto3"; package x; message Item {{ {kind} id = 1; }}'
        return proto('import "item.proto"; message Order { x.Item item = 1; }', item=imported)

    assert check(order("int64"), order("int32")) == []
    assert [f"{reason.kind} {reason.path}" for reason in check(order("string"), order("int32"))] == [
        "FIELD_SCALAR_KIND_CHANGED #/Item/1",
        "FIELD_NAMED_TYPE_CHANGED #/Order/1",
    ]


def test_the_line_is_the_one_that_confluent_prints() -> None:
    reason = check(proto("message M { int32 a = 1; }"), proto("message M { string a = 1; }"))[0]
    assert reason.verbose == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/M/1\' in the new '
        'schema does not match its kind in the old schema"}'
    )


LONG = """// dropped
syntax = "proto3"; package my.shop; import public "b.proto"; import "google/protobuf/timestamp.proto";
option java_multiple_files = true; option (mine).deep.er = 0x10; enum Status { ACTIVE = 1; NONE = 0; reserved 5 to max;
} message Order { map<string,Item> items=2; google.protobuf.Timestamp at = 1 [deprecated=true, json_name="AT"];
 oneof pay { string card = 4; int32 cash = 3; }
 message Item { repeated int32 n = 1 [packed = false]; enum E { Z = 0; } }
 reserved "x", 'y'; reserved 9 to 11, 20; }
service Shop { rpc Buy (Order) returns (stream Order) { option deprecated = true; } }"""
CANONICAL = """syntax = "proto3";
package my.shop;

import "google/protobuf/timestamp.proto";
import public "b.proto";

option java_multiple_files = true;
option (mine).deep.er = 0x10;

message Order {
  reserved "x", "y";
  reserved 9 to 11, 20;

  map<string, Item> items = 2;
  google.protobuf.Timestamp at = 1 [
    deprecated = true,
    json_name = "AT"
  ];

  oneof pay {
    string card = 4;
    int32 cash = 3;
  }

  message Item {
    repeated int32 n = 1 [packed = false];
  \

    enum E {
      Z = 0;
    }
  }
}
enum Status {
  reserved 5 to max;
  ACTIVE = 1;
  NONE = 0;
}

service Shop {
  rpc Buy (Order) returns (stream Order) {
    option deprecated = true;
  };
}
"""


def test_text_is_laid_out_as_confluent_does() -> None:
    assert proto("message M { string a = 1; }").canonical == 'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n}\n'
    assert parse("PROTOBUF", LONG).canonical == CANONICAL
    assert parse("PROTOBUF", CANONICAL).canonical == CANONICAL


def test_normalised_text_has_full_names_and_numbers_in_order() -> None:
    text = parse("PROTOBUF", LONG).normalized
    assert "  .google.protobuf.Timestamp at = 1 [" in text
    assert "map<string, .my.shop.Order.Item> items = 2;" in text
    assert text.index("at = 1") < text.index("items = 2") < text.index("cash = 3") < text.index("card = 4")
    assert text.index("NONE = 0") < text.index("ACTIVE = 1")
    assert parse("PROTOBUF", text).normalized == text


def test_descriptors_are_read_and_made() -> None:
    text = """syntax = "proto3"; package p; message M { N n = 1; map<string, N> m = 2; optional int32 o = 3; E e = 4;
      oneof x { string a = 5; } message N { repeated double d = 1 [packed = true]; } enum E { A = 0; } }"""
    parsed: Any = parse("PROTOBUF", text)
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.serialized))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    assert pool.FindMessageTypeByName("p.M").fields_by_name["m"].message_type is not None
    again: Any = parse("PROTOBUF", parsed.serialized)
    assert check(again, parsed) == [] and check(parsed, again) == []
    assert again.normalized == parsed.normalized


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("message", "Syntax error in :1:8: expected a word"),
        ("message M {\n  string a = ; }", "Syntax error in :2:14: expected a word but was ';'"),
        ("message M { string a = 1; string b = 1; }", "the number 1 is used twice in M"),
        ("message M { string a = 1; string a = 2; }", "the field a is defined twice in M"),
        ("message M {} message M {}", "M is defined twice"),
        ("message M { Nothing a = 1; }", "Could not resolve type: Nothing"),
        ("message M { string a = 0; }", "the field number 0 is not between 1 and 536870911"),
        ('syntax = "proto9";', "unexpected syntax: proto9"),
        ("message M { § }", "unexpected '§'"),
    ],
)
def test_what_is_no_proto_file_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse("PROTOBUF", text)
    assert complaint in str(refused.value)
