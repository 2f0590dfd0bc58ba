"""The wire format, and our own client and serialisers, which must agree with everybody else's."""

from __future__ import annotations

import json
import pickle

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from eventide.registry.client import RegistryClient, RegistryRefused, RegistryUnavailable
from eventide.registry.serialisers import (  # fmt: skip
    AvroDeserialiser,
    AvroSerialiser,
    JsonDeserialiser,
    JsonSerialiser,
    ProtobufDeserialiser,
    ProtobufSerialiser,
)
from eventide.registry.wire import (
    BadMagic,
    BadPayload,
    Truncated,
    UnknownId,
    WireError,
    decode_header,
    decode_indexes,
    encode_header,
    encode_indexes,
)
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import CLASH, V1, V2

VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def client(service: InThread) -> RegistryClient:
    return RegistryClient(service.url, name="billing")


@given(st.integers(0, 2**32 - 1), st.binary(max_size=50))
def test_what_is_encoded_is_decoded(schema_id: int, payload: bytes) -> None:
    assert decode_header(encode_header(schema_id) + payload) == (schema_id, payload)


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=20), st.binary(max_size=20))
def test_indexes_too(indexes: list[int], message: bytes) -> None:
    assert decode_indexes(encode_indexes(indexes) + message) == (indexes, message)


@given(st.binary(max_size=40))
def test_garbage_is_a_typed_error_or_a_record(record: bytes) -> None:
    try:
        _, payload = decode_header(record)
        decode_indexes(payload)
    except WireError as error:
        assert error.kind in ("truncated", "bad_magic", "bad_payload")
        pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("record", "error"),
    [(b"", Truncated), (b"\0\0\0\1", Truncated), (b"{}", BadMagic), (b"\1\0\0\0\1x", BadMagic)],
)
def test_each_fault_has_its_name(record: bytes, error: type[WireError]) -> None:
    with pytest.raises(error):
        decode_header(record)


def test_an_unknown_id_survives_the_way_between_processes() -> None:
    assert pickle.loads(pickle.dumps(UnknownId(7))).schema_id == 7


def test_avro_with_the_other_client_in_both_directions(client: RegistryClient, service: InThread) -> None:
    theirs = SchemaRegistryClient({"url": service.url})
    record = {"id": "a", "qty": 2}
    ours = AvroSerialiser(client, V2)(record, "orders")
    assert AvroDeserializer(theirs)(ours, VALUE) == record
    assert AvroSerializer(theirs, V2)(record, VALUE) == ours
    assert AvroDeserialiser(client)(ours) == record
    assert AvroDeserialiser(client, V1)(ours) == {"id": "a"}


def test_a_record_that_is_not_what_it_says(client: RegistryClient) -> None:
    data = AvroSerialiser(client, V2)({"id": "abc", "qty": 2}, "orders")
    read = AvroDeserialiser(client)
    with pytest.raises(BadPayload):
        read(data[:-2])
    with pytest.raises(BadPayload):
        read(data + b"more")
    with pytest.raises(UnknownId):
        read(encode_header(99) + b"x")
    with pytest.raises(BadMagic):
        read(b"plain text")


def test_json(client: RegistryClient) -> None:
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})
    write, read = JsonSerialiser(client, schema), JsonDeserialiser(client)
    assert read(write({"id": "a"}, "orders")) == {"id": "a"}
    header = write({"id": "a"}, "orders")[:5]
    for payload in (b"{}", b"{", b'{"id":1}'):
        with pytest.raises(BadPayload):
            read(header + payload)


def test_protobuf(client: RegistryClient) -> None:
    from google.protobuf.timestamp_pb2 import Timestamp
    from google.protobuf.type_pb2 import Field

    write, read = ProtobufSerialiser(client, Timestamp), ProtobufDeserialiser(client, Timestamp)
    assert read(write(Timestamp(seconds=5), "times")) == Timestamp(seconds=5)
    nested = ProtobufSerialiser(client, Field)(Field(name="f"), "fields")
    assert nested[5:].startswith(encode_indexes([1]))


def test_the_client_says_why(client: RegistryClient) -> None:
    client.register("s", V1)
    with pytest.raises(RegistryRefused) as refused:
        client.register("s", CLASH)
    assert refused.value.code == 40901
    (reason,) = client.incompatibilities("s", CLASH)
    assert reason["path"] == "/fields/0/type" and "reader" in reason["message"] and reason["fix"]
    with pytest.raises(RegistryUnavailable):
        RegistryClient("http://127.0.0.1:1", tries=1).subjects()


def test_usage_is_reported_and_found_again(client: RegistryClient, ask: Ask) -> None:
    data = AvroSerialiser(client, V1)({"id": "a"}, "orders")
    read = AvroDeserialiser(client)
    for _ in range(3):
        read(data)
    assert client.report_usage("prod") == 1
    assert client.report_usage("prod") == 0
    (line,) = ask.ok("GET", "/eventide/v1/usage?subject=orders-value")
    assert (line["client"], line["environment"], line["id"], line["decoded"]) == ("billing", "prod", 1, 3)
    assert ask.ok("GET", f"/eventide/v1/usage?id=1&since={line['last_seen'] + 1}") == []
