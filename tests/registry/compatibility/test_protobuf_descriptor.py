"""`format=serialized`: the descriptor that clients get has everything that the text says, custom options too."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from eventide.registry.compatibility import InvalidSchema, parse
from eventide.registry.compatibility.protobuf.known import _CONFLUENT

TEXT = """syntax = "proto3"; package p; import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
extend google.protobuf.MessageOptions {
  int32 weight = 50001; repeated string labels = 50002; Kind kind = 50003; sint64 zigzag = 50004; double ratio = 50005;
  bool sure = 50006; fixed32 four = 50007; sfixed64 eight = 50008; Nested nested = 50009; bytes raw = 50010; float half = 50011;
}
enum Kind { NONE = 0; BIG = 7 [(confluent.enum_value_meta).doc = "large"]; }
message Nested { Kind kind = 1; repeated int64 numbers = 2; Nested more = 3; }
message M {
  option (weight) = -3; option (labels) = "a"; option (labels) = "b"; option (kind) = BIG; option (zigzag) = -5;
  option (ratio) = 1.5; option (sure) = true; option (four) = 4; option (eight) = -8; option (raw) = "r"; option (half) = 0.5;
  option (nested) = { kind: BIG, numbers: [1, -2], more: { numbers: 3 } };
  option deprecated = true; option (confluent.message_meta).doc = "of M";
  string f = 1 [(confluent.field_meta) = {tags: ["PII"], doc: "why", params: [{key: "k", value: "v"}]}, deprecated = true];
  oneof o { int32 x = 2 [(confluent.field_meta).tags = "T"]; }
}
"""


def _serialized(text: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parse("PROTOBUF", text).serialized))  # type: ignore[attr-defined]


class Understood:
    """Options read by a pool that knows the files they are defined in, as a client's pool does."""

    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        own = descriptor_pb2.FileDescriptorProto()
        descriptor_pb2.DESCRIPTOR.CopyToProto(own)
        self.pool.Add(own)
        meta = _serialized(_CONFLUENT["confluent/meta.proto"])
        meta.name = "confluent/meta.proto"
        self.pool.Add(meta)
        self.pool.Add(file)

    def __call__(self, options: Any, extension: str) -> Any:
        kind = message_factory.GetMessageClass(self.pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
        field = self.pool.FindExtensionByName(extension)
        message_factory.GetMessageClass(field.containing_type)
        return kind.FromString(options.SerializeToString()).Extensions[field]


def test_the_descriptor_keeps_options_of_fields_messages_and_constants() -> None:
    file = _serialized(TEXT)
    read = Understood(file)
    message = next(m for m in file.message_type if m.name == "M")
    assert message.options.deprecated and message.field[0].options.deprecated
    simple = {"weight": -3, "labels": ["a", "b"], "kind": 7, "zigzag": -5, "ratio": 1.5, "sure": True, "four": 4, "eight": -8,
              "raw": b"r", "half": 0.5}  # fmt: skip
    assert {name: read(message.options, f"p.{name}") for name in simple} == simple
    nested = read(message.options, "p.nested")
    assert (nested.kind, list(nested.numbers), list(nested.more.numbers)) == (7, [1, -2], [3])
    assert read(message.options, "confluent.message_meta").doc == "of M"
    meta = read(message.field[0].options, "confluent.field_meta")
    assert (list(meta.tags), meta.doc, dict(meta.params)) == (["PII"], "why", {"k": "v"})
    assert list(read(message.field[1].options, "confluent.field_meta").tags) == ["T"], "in a oneof as well"
    assert read(file.enum_type[0].value[1].options, "confluent.enum_value_meta").doc == "large"


def test_an_option_with_a_value_of_another_type_is_refused() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/descriptor.proto"; ' \
           "extend google.protobuf.MessageOptions { int32 weight = 50001; } message M { option (weight) = heavy; }"  # fmt: skip
    with pytest.raises(InvalidSchema, match="its type cannot hold"):
        _serialized(text)
