"""Records of payments on Kafka in every format, with headers and timestamps of their own."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from eventide.registry.client import RegistryClient
from eventide.registry.serialisers import AvroSerialiser, ProtobufSerialiser
from eventide.testing.broker import KafkaBroker

BASE = 1_760_000_000_000
"""Milliseconds since 1970."""
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Payment",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "bank", "type": "string"},
            {"name": "paise", "type": "long"},
        ],
    }
)
Headers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Paid:
    """A payment, when its record was made, and the headers on it."""

    at: int
    bank: str
    paise: int
    made: int
    headers: Headers = field(default_factory=list)


def new_topic(broker: KafkaBroker, word: str, partitions: int = 1, **config: str) -> str:
    topic = f"{word}-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=partitions, **config)
    return topic


def send(servers: str, topic: str, bodies: list[tuple[bytes, Paid]], **config: Any) -> None:
    """One partition, in order."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **config})
    for body, paid in bodies:
        producer.produce(topic, body, key=paid.bank.encode(), partition=0, timestamp=paid.made, headers=paid.headers)
    assert producer.flush(30) == 0


def as_json(paid: Paid) -> bytes:
    return json.dumps({"at": paid.at * 1000, "bank": paid.bank, "paise": paid.paise}).encode()


def as_avro(client: RegistryClient, topic: str, payments: list[Paid]) -> list[tuple[bytes, Paid]]:
    write = AvroSerialiser(client, AVRO)
    return [(write({"at": p.at, "bank": p.bank, "paise": p.paise}, topic), p) for p in payments]


def as_protobuf(client: RegistryClient, topic: str, payments: list[Paid]) -> list[tuple[bytes, Paid]]:
    kind = payment_message()
    write, bodies = ProtobufSerialiser(client, kind), []
    for paid in payments:
        message = kind(bank=paid.bank, paise=paid.paise, tags={"half": paid.paise // 2}, state=paid.paise % 2, parts=[1, 2])
        message.at.FromDatetime(datetime.fromtimestamp(paid.at / 1000, UTC))
        bodies.append((write(message, topic), paid))
    return bodies


def payment_message() -> Any:
    """A generated class, made from a descriptor: an instant, a text, whole numbers, an enum, a map, a list."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="payment.proto", package="upi", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Payment")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    state = message.enum_type.add(name="State")
    state.value.add(name="EVEN", number=0)
    state.value.add(name="ODD", number=1)
    fields: list[tuple[str, Any, str]] = [
        ("at", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        ("bank", kinds.TYPE_STRING, ""),
        ("paise", kinds.TYPE_INT64, ""),
        ("state", kinds.TYPE_ENUM, ".upi.Payment.State"),
    ]
    for number, (name, kind, type_name) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL, type_name=type_name or None)
    message.field.add(
        name="tags", number=5, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".upi.Payment.TagsEntry"
    )
    message.field.add(name="parts", number=6, type=kinds.TYPE_INT32, label=kinds.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("upi.Payment"))
