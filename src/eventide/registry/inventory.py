"""What is already in flight: the schemas behind records in files or a topic, and the level they would have passed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

from eventide.registry.client import RegistryClient, RegistryRefused, RegistryUnavailable
from eventide.registry.compatibility import LEVELS, InvalidSchema, ParsedSchema, check_level, parse
from eventide.registry.wire import WireError, decode_header

_STRICTEST_FIRST = ("FULL_TRANSITIVE", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL", "BACKWARD", "FORWARD")
_JSON_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(slots=True)
class Seen:
    """One schema that records were found to have."""

    kind: str
    text: str
    origin: str
    records: int = 0
    schema_id: int | None = None


@dataclass(slots=True)
class Inventory:
    """The schemas seen, in the order they were first met, and what could not be read."""

    seen: list[Seen] = field(default_factory=list)
    unreadable: dict[str, int] = field(default_factory=dict)

    def levels(self) -> dict[str, list[str]]:
        """For every level the reasons why this history would not have passed it; none means that it would."""
        parsed: list[ParsedSchema] = []
        broken: list[str] = []
        for each in self.seen:
            try:
                parsed.append(parse(each.kind, each.text, {}))
            except InvalidSchema as error:
                broken.append(f"{each.origin}: {error}")
        verdicts: dict[str, list[str]] = {}
        for level in LEVELS:
            reasons = list(broken) if level != "NONE" else []
            for i, new in enumerate(parsed):
                reasons += [reason.message for reason in check_level(level, new, parsed[:i])]
            verdicts[level] = reasons
        return verdicts

    def advice(self) -> str:
        """The strictest level that everything seen would have passed."""
        verdicts = self.levels()
        return next((level for level in _STRICTEST_FIRST if not verdicts[level]), "NONE")

    def note_unreadable(self, reason: str) -> None:
        """Count a record that could not be read."""
        self.unreadable[reason] = self.unreadable.get(reason, 0) + 1


def of_files(paths: Sequence[Path]) -> Inventory:
    """The schemas of Avro container files, and those inferred from JSON lines, file by file in the order given."""
    inventory = Inventory()
    for path in paths:
        if path.suffix.lower() == ".avro":
            _add_avro_file(inventory, path)
        else:
            _add_json_file(inventory, path)
    return inventory


def of_records(records: Iterable[bytes], client: RegistryClient | None, origin: str) -> Inventory:
    """The schemas of records from a topic: by the id they carry, or inferred if they are bare JSON."""
    inventory = Inventory()
    by_id: dict[int, Seen] = {}
    by_text: dict[str, Seen] = {}
    for record in records:
        try:
            schema_id, _ = decode_header(record)
        except WireError as error:
            inferred = _infer_record(record)
            if inferred is None:
                inventory.note_unreadable(error.kind)
                continue
            _count(inventory, by_text, inferred, origin)
            continue
        if schema_id not in by_id:
            found = _fetched(client, schema_id, origin)
            if found is None:
                inventory.note_unreadable(f"unknown_id {schema_id}")
                continue
            by_id[schema_id] = found
            inventory.seen.append(found)
        by_id[schema_id].records += 1
    # Partitions are read side by side; ids were given in the order of registration.
    inventory.seen.sort(key=lambda seen: (seen.schema_id is None, seen.schema_id or 0))
    return inventory


def topic_records(bootstrap: str, topic: str, *, most: int = 10_000, patience: float = 30.0) -> Iterator[bytes]:
    """The values of a topic from its beginning to where it ends just now, at most so many."""
    return (value for _, value in dated_records(bootstrap, topic, most=most, patience=patience))


def dated_records(bootstrap: str, topic: str, *, most: int = 10_000, patience: float = 30.0) -> Iterator[tuple[int, bytes]]:
    """The values of a topic from its beginning to where it ends just now, each with when it was written, in ms since 1970.

    Raises:
        RegistryUnavailable: there is no such topic, or the brokers say nothing for as long as the patience lasts.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "eventide-inventory",  # demanded by the client; nothing is ever committed under it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,  # a server that is away is told once, in our words
            "reconnect.backoff.max.ms": 1000,
        }
    )
    try:
        try:
            known = consumer.list_topics(topic, timeout=patience).topics[topic]
        except KafkaException as error:
            raise RegistryUnavailable(f"the brokers at {bootstrap} do not answer: {error}") from error
        if known.error is not None:
            raise RegistryUnavailable(f"the topic {topic} cannot be read: {known.error}")
        unfinished = set(known.partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unfinished])
        read = 0
        while unfinished and read < most:
            message = consumer.poll(patience)
            if message is None:
                raise RegistryUnavailable(f"the brokers at {bootstrap} said nothing for {patience:g} s")
            trouble = message.error()
            if trouble is not None:
                if trouble.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                continue
            value = message.value()
            if value is not None:
                read += 1
                yield int(message.timestamp()[1]), value
    finally:
        consumer.close()


def infer(value: Any) -> dict[str, Any]:
    """The JSON schema of one value: its types and, for objects, which properties it has."""
    if value is None:
        return {"type": "null"}
    if isinstance(value, dict):
        properties = {k: infer(v) for k, v in sorted(value.items())}
        return {"type": "object", "properties": properties, "required": sorted(value)}
    if isinstance(value, list):
        merged: dict[str, Any] | None = None
        for each in value:
            merged = infer(each) if merged is None else merge(merged, infer(each))
        return {"type": "array"} if merged is None else {"type": "array", "items": merged}
    return {"type": _JSON_TYPES.get(type(value), "string")}


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema that takes what either of two inferred ones takes."""
    if one == other:
        return one
    if one.get("type") == other.get("type") == "object":
        properties = dict(one["properties"])
        for name, schema in other["properties"].items():
            properties[name] = merge(properties[name], schema) if name in properties else schema
        required = sorted(set(one["required"]) & set(other["required"]))
        return {"type": "object", "properties": dict(sorted(properties.items())), "required": required}
    if one.get("type") == other.get("type") == "array":
        items = [s["items"] for s in (one, other) if "items" in s]
        return {"type": "array", "items": merge(items[0], items[-1])}
    if {one.get("type"), other.get("type")} == {"integer", "number"}:
        return {"type": "number"}
    branches = [*one.get("anyOf", [one]), *(b for b in other.get("anyOf", [other]) if b not in one.get("anyOf", [one]))]
    return {"anyOf": branches}


def _add_avro_file(inventory: Inventory, path: Path) -> None:
    try:
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            text = json.dumps(reader.metadata and json.loads(reader.metadata["avro.schema"]))
            count = sum(1 for _ in reader)
    except (ValueError, EOFError, KeyError, IndexError) as error:
        inventory.note_unreadable(f"{path.name}: {error}")
        return
    for seen in inventory.seen:
        if seen.kind == "AVRO" and seen.text == text:
            seen.records += count
            return
    inventory.seen.append(Seen("AVRO", text, path.name, count))


def _add_json_file(inventory: Inventory, path: Path) -> None:
    schema: dict[str, Any] | None = None
    count = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                found = infer(json.loads(line))
            except (ValueError, RecursionError):
                inventory.note_unreadable(f"{path.name}: not JSON")
                continue
            schema = found if schema is None else merge(schema, found)
            count += 1
    if schema is not None:
        inventory.seen.append(Seen("JSON", json.dumps(schema), path.name, count))


def _infer_record(record: bytes) -> str | None:
    try:
        return json.dumps(infer(json.loads(record)))
    except (ValueError, RecursionError):
        return None


def _count(inventory: Inventory, by_text: dict[str, Seen], text: str, origin: str) -> None:
    if text not in by_text:
        by_text[text] = Seen("JSON", text, origin)
        inventory.seen.append(by_text[text])
    by_text[text].records += 1


def _fetched(client: RegistryClient | None, schema_id: int, origin: str) -> Seen | None:
    if client is None:
        return None
    try:
        schema = client.schema(schema_id)
    except (WireError, RegistryRefused):
        return None
    return Seen(schema.kind, schema.text, origin, schema_id=schema_id)
