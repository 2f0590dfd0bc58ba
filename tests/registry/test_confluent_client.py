"""confluent-kafka's own client and serialisers, unmodified, against the service."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.registry.conftest import InThread
from tests.registry.schemas import CLASH, V1, V2

VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def client(service: InThread) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": service.url})


def test_the_client_does_its_whole_round(client: SchemaRegistryClient) -> None:
    schema = Schema(V1, "AVRO")
    assert client.register_schema("s", schema) == 1
    assert client.register_schema("s", schema, normalize_schemas=True) == 1
    assert client.get_schema(1).schema_str == V1.replace(": ", ":").replace(", ", ",")
    assert client.lookup_schema("s", schema).version == 1
    assert client.test_compatibility("s", Schema(V2, "AVRO"))
    assert not client.test_compatibility("s", Schema(CLASH, "AVRO"))
    assert client.register_schema("s", Schema(V2, "AVRO")) == 2
    assert client.get_versions("s") == [1, 2]
    assert client.get_latest_version("s").schema_id == 2
    assert client.get_version("s", 1).schema_id == 1
    assert client.get_subjects() == ["s"]
    assert client.get_subjects_by_schema_id(1) == ["s"]
    assert [v.version for v in client.get_schema_versions(2)] == [2]
    assert client.set_compatibility("s", "FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility("s") == "FULL"
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.update_mode("s", "READONLY") == "READONLY"
    assert client.get_mode("s") == "READONLY"
    assert client.delete_mode("s") == "READONLY"
    assert client.get_contexts() == ["."]
    assert client.get_referenced_by("s", 1) == []
    assert client.delete_version("s", 2) == 2
    assert client.delete_subject("s") == [1]
    assert client.get_subjects(deleted=True) == ["s"]
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version("none")
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)


def test_by_guid(client: SchemaRegistryClient) -> None:
    registered = client.register_schema_full_response("s", Schema(V1, "AVRO"))
    assert registered.guid is not None
    assert client.get_schema_by_guid(registered.guid).schema_str == registered.schema.schema_str


def test_avro_round_trip(client: SchemaRegistryClient) -> None:
    record = {"id": "a-1", "qty": 3}
    data = AvroSerializer(client, V2)(record, VALUE)
    assert data is not None and data[:5] == b"\0\0\0\0\1"
    assert AvroDeserializer(client)(data, VALUE) == record
    assert AvroDeserializer(client, V1)(data, VALUE) == {"id": "a-1"}
    assert client.get_subjects() == ["orders-value"]


def test_avro_with_references(client: SchemaRegistryClient) -> None:
    address = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
    client.register_schema("address", Schema(address, "AVRO"))
    customer = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"at","type":"shop.Address"}]}'
    schema = Schema(customer, "AVRO", [SchemaReference("shop.Address", "address", 1)])
    data = AvroSerializer(client, schema)({"at": {"city": "Porto"}}, VALUE)
    assert AvroDeserializer(client)(data, VALUE) == {"at": {"city": "Porto"}}
    assert client.get_referenced_by("address", 1) == [2]


def test_json_round_trip(client: SchemaRegistryClient) -> None:
    schema = '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object",' \
             '"properties":{"id":{"type":"string"}},"required":["id"]}'  # fmt: skip
    data = JSONSerializer(schema, client)({"id": "a-1"}, VALUE)
    assert JSONDeserializer(schema, schema_registry_client=client)(data, VALUE) == {"id": "a-1"}
    assert JSONDeserializer(None, schema_registry_client=client)(data, VALUE) == {"id": "a-1"}


@pytest.fixture(scope="module")
def order_messages() -> dict[str, Any]:
    """Generated classes, made from a descriptor: a nested message, an enum, a map, a oneof, a timestamp."""
    from google.protobuf import timestamp_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    first = file.message_type.add(name="Header")
    first.field.add(name="source", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    line = message.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="lines", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".shop.Order.Line")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    message.field.add(
        name="tags", number=3, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".shop.Order.TagsEntry"
    )
    state = message.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    message.field.add(name="state", number=4, type=kinds.TYPE_ENUM, label=kinds.LABEL_OPTIONAL, type_name=".shop.Order.State")
    message.oneof_decl.add(name="payment")
    message.field.add(name="card", number=5, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL, oneof_index=0)
    message.field.add(name="cash", number=6, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL, oneof_index=0)
    message.field.add(
        name="at", number=7, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return dict(message_factory.GetMessages([file], pool=pool))


def test_protobuf_round_trip(client: SchemaRegistryClient, service: InThread, order_messages: dict[str, Any]) -> None:
    # A client of its own, as a consumer has: one that has just registered remembers the text that the service answered,
    # and takes it for the descriptor that its deserialiser asks for. It would do so with Confluent's service as well.
    consumer = SchemaRegistryClient({"url": service.url})
    made = order_messages["shop.Order"](id="a-1", tags={"k": 7}, state=1, cash=5)
    made.lines.add(sku="x")
    made.at.FromSeconds(1_700_000_000)
    config = {"use.deprecated.format": False}
    data = ProtobufSerializer(order_messages["shop.Order"], client, config)(made, VALUE)
    assert data is not None
    back = ProtobufDeserializer(order_messages["shop.Order"], config, consumer)(data, VALUE)
    assert back is not None and back.SerializeToString() == made.SerializeToString()
    stored = client.get_latest_version("orders-value").schema
    assert stored.schema_type == "PROTOBUF"
    assert "map<string, int64> tags = 3;" in (stored.schema_str or "")
    assert client.get_subjects() == ["orders-value"]
