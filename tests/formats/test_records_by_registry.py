"""Records that carry a schema id, without a server: every type comes back, and what cannot is a dead letter with its reason."""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import fastavro
import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from eventide.engine.feeds import wire
from eventide.engine.feeds.avro_kinds import avro_kinds
from eventide.engine.feeds.columnar import fitter, frame_of
from eventide.engine.feeds.protobuf import row_of
from eventide.engine.feeds.text_times import ISO
from eventide.engine.feeds.values import Misfit
from eventide.errors import DefinitionError
from eventide.kernel.columns import DEAD
from eventide.registry.wire import encode_header
from tests.formats.hostile import FLOATS, INSTANTS, SINGLES, TEXTS, TYPES, json_text, same, tried
from tests.formats.test_values_come_back import EXAMPLES, assert_back, drawn


@dataclass
class Texts:
    """A registry that knows one schema, by the id 1."""

    text: str

    def schema(self, schema_id: int) -> Any:
        return self

    def texts(self, schema: Any) -> dict[str, str]:
        return {}

    def note_decoded(self, schema_id: int) -> None:
        """Nobody asks."""


def decoded(
    kind: str, text: str, kinds: dict[str, pl.DataType], bodies: list[bytes | None], monkeypatch: Any, reader: str | None = None
) -> pl.DataFrame:
    registry = wire.Registry("http://nowhere", reader=reader, name=str(random.random()))
    monkeypatch.setattr(wire, "_client", lambda asked: Texts(text))
    values = [None if body is None else encode_header(1) + body for body in bodies]
    return wire.decode_wire(pl.Series(values, dtype=pl.Binary), kind, kinds, registry)


def avro_body(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_avro_records(name: str, data: st.DataObject) -> None:
    values, _ = drawn(data, TYPES[name])
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": ["null", TYPES[name].avro]}]}
    text = json.dumps(schema)
    kinds = avro_kinds(text, {}) if "Spark" not in name else {"c": TYPES[name].kind}
    assert kinds == {"c": TYPES[name].kind}
    with pytest.MonkeyPatch.context() as patch:
        assert_back(
            decoded("avro", text, kinds, [avro_body(schema, {"c": value}) for value in values], patch, reader=text), values
        )


@pytest.mark.parametrize("name", TYPES)
@tried(EXAMPLES)
@given(data=st.data())
def test_json_records(name: str, data: st.DataObject) -> None:
    values, rng = drawn(data, TYPES[name])
    bodies = [f'{{"c":{json_text(value, rng)}}}'.encode() for value in values]
    with pytest.MonkeyPatch.context() as patch:
        assert_back(decoded("json", "{}", {"c": TYPES[name].kind}, bodies, patch), values)


def test_records_that_are_no_records_are_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = decoded(
        "json", "{}", {"c": pl.Int64()}, [b"1", b"null", b'"x"', b"[]", b"{oops", b'{"c":"x"}', None, b'{"c":1}'], monkeypatch
    )
    assert frame["c"].to_list() == [None] * 7 + [1]
    assert frame[DEAD].null_count() == 1
    assert frame[DEAD][6] == "the value is null"


UUID_FIELD = {"type": "record", "name": "R", "fields": [{"name": "c", "type": {"type": "string", "logicalType": "uuid"}}]}


def test_avro_uuids_come_as_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = UUID(int=7)
    body = avro_body(UUID_FIELD, {"c": one})
    text = json.dumps(UUID_FIELD)
    assert decoded("avro", text, avro_kinds(text, {}), [body], monkeypatch, reader=text)["c"].to_list() == [str(one)]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}, "at most 38 digits"),
        (["null", "Row"], "holds itself"),
        ({"type": "array", "items": "Row"}, "holds itself"),
        (["string", "long"], "union of several types"),
        ("Elsewhere", "does not define"),
    ],
)
def test_avro_schemas_that_make_no_columns_are_refused_in_words(field: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        avro_kinds(json.dumps({"type": "record", "name": "Row", "fields": [{"name": "c", "type": field}]}), {})


def test_an_avro_field_that_can_only_be_null_is_no_column() -> None:
    fields = [{"name": "c", "type": "long"}, {"name": "n", "type": "null"}, {"name": "m", "type": ["null"]}]
    assert list(avro_kinds(json.dumps({"type": "record", "name": "Row", "fields": fields}), {})) == ["c"]


def test_a_logical_type_on_another_type_says_nothing() -> None:
    fields = [{"name": "c", "type": {"type": "string", "logicalType": "date"}}]
    assert avro_kinds(json.dumps({"type": "record", "name": "Row", "fields": fields}), {}) == {"c": pl.String()}


def message_kind() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="hostile", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Row")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    for number, (name, kind, label, of) in enumerate(
        [
            ("flag", kinds.TYPE_BOOL, 1, None), ("small", kinds.TYPE_INT32, 1, None), ("big", kinds.TYPE_INT64, 1, None),
            ("huge", kinds.TYPE_UINT64, 1, None), ("single", kinds.TYPE_FLOAT, 1, None), ("double", kinds.TYPE_DOUBLE, 1, None),
            ("text", kinds.TYPE_STRING, 1, None), ("raw", kinds.TYPE_BYTES, 1, None), ("at", kinds.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"),
            ("many", kinds.TYPE_INT64, 3, None), ("tags", kinds.TYPE_MESSAGE, 3, ".hostile.Row.TagsEntry"), ("self", kinds.TYPE_MESSAGE, 1, ".hostile.Row"),
        ],
        1,
    ):  # fmt: skip
        message.field.add(name=name, number=number, type=kind, label=label, type_name=of)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("hostile.Row"))


ROW = message_kind()
PROTOBUF: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pl.Boolean(), st.booleans()),
    "small": (pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pl.Float32(), SINGLES),
    "double": (pl.Float64(), FLOATS),
    "text": (pl.String(), TEXTS),
    "raw": (pl.Binary(), st.binary(max_size=8)),
    "many": (pl.List(pl.Int64()), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    "tags": (pl.Map(pl.String(), pl.Float64()), st.dictionaries(TEXTS, FLOATS, max_size=3)),
    "tags as entries": (
        pl.List(pl.Struct({"key": pl.String(), "value": pl.Float64()})),
        st.dictionaries(TEXTS, FLOATS, max_size=3),
    ),
}


def read_messages(kinds: dict[str, pl.DataType], messages: list[Any]) -> pl.DataFrame:
    """As the worker reads them, from their bytes."""
    read = fitter(kinds, ISO)
    rows: list[Any] = []
    reasons: list[str | None] = []
    for message in messages:
        again = ROW()
        again.ParseFromString(message.SerializeToString())
        try:
            rows.append(read(row_of(again)))
            reasons.append(None)
        except Misfit as error:
            rows.append(None)
            reasons.append(str(error))
    return frame_of(rows, kinds, reasons)


@pytest.mark.parametrize("name", PROTOBUF)
@tried(EXAMPLES)
@given(data=st.data())
def test_protobuf_messages(name: str, data: st.DataObject) -> None:
    kind, strategy = PROTOBUF[name]
    name = name.partition(" ")[0]
    values = data.draw(st.lists(strategy, max_size=5))
    frame = read_messages({name: kind}, [ROW(**{name: value}) for value in values])
    assert frame[DEAD].null_count() == len(values)
    assert all(same(f, w) for f, w in zip(frame[name].to_list(), values, strict=True))


@tried(EXAMPLES * 3)
@given(INSTANTS, st.integers(0, 999))
def test_protobuf_instants_are_exact_or_dead_letters(at: datetime, nanos: int) -> None:
    message = ROW()
    message.at.FromDatetime(at)
    message.at.nanos += nanos
    frame = read_messages({"at": pl.Datetime("us", "UTC")}, [message])
    assert frame["at"].to_list() == ([at] if nanos == 0 else [None])
    assert (frame[DEAD][0] is None) == (nanos == 0)
    parts = pl.Struct({"seconds": pl.Int64(), "nanos": pl.Int32()})
    (whole,) = read_messages({"at": parts}, [message])["at"].to_list()
    assert (whole["seconds"], whole["nanos"]) == (message.at.seconds, message.at.nanos)


def test_numbers_of_protobuf_that_do_not_fit_are_dead_letters() -> None:
    frame = read_messages({"huge": pl.Int64()}, [ROW(huge=2**63), ROW(huge=2**63 - 1)])
    assert frame["huge"].to_list() == [None, 2**63 - 1]
    assert "does not fit" in (frame[DEAD][0] or "")
