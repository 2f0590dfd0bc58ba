"""The files that every schema may import without naming them as references: google/protobuf, google/type, confluent."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from eventide.registry.compatibility.protobuf.element import File

_OPTIONS = ("File", "Message", "Field", "Enum", "EnumValue")
_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        """
    + "".join(
        f"extend google.protobuf.{kind}Options {{ Meta {name}_meta = 1088; }}\n"
        for kind, name in zip(_OPTIONS, ("file", "message", "field", "enum", "enum_value"), strict=True)
    ),
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
        """,
    "confluent/type/variant.proto": """
        syntax = "proto3"; package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
        """,
}

_GOOGLE = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type"),
    "wrappers",
)
_TYPES = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval"),
    *("latlng", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday"),
)
KNOWN = (
    *_CONFLUENT,
    *(f"google/protobuf/{name}.proto" for name in _GOOGLE),
    *(f"google/type/{name}.proto" for name in _TYPES),
)
"""The names of those files. What google/type defines is known where the package googleapis-common-protos is."""


@lru_cache(maxsize=64)
def known_file(name: str) -> File | None:
    """The file of that name, None if it is not one of those."""
    from eventide.registry.compatibility.protobuf.descriptor import from_descriptor
    from eventide.registry.compatibility.protobuf.parser import read

    if name in _CONFLUENT:
        return read(_CONFLUENT[name])
    if name not in KNOWN:
        return None
    try:
        descriptor = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    except ImportError:
        return None
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(found)
    return from_descriptor(found)
