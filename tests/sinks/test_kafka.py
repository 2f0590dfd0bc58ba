"""The changelog: its words, its markers, its bytes, and the consumer's side."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from eventide.errors import DefinitionError, SinkRefused
from eventide.sinks import CurrentRows, Deduplicator, PaneShape, kafka_topic
from eventide.sinks.kinds.kafka import _typed
from eventide.sinks.kinds.kafka_avro import Encoder, schema_of
from tests.sinks.panes import BASE, MINUTE, SHAPE, batch, delivery, pane
from tests.sinks.places import Kafka, World

V = {"total": 1, "n": 1}
LOG = [
    pane("a", 0, **V),
    pane("a", 0, "retract", **V),
    pane("a", 1, **V),
    pane("session", 0, **V),
    pane("session", 0, "retract", **V),
]


@pytest.fixture
def place(broker: Any) -> Kafka:
    return Kafka(World(None, broker=broker))


def test_changes_are_called_what_consumers_call_them(place: Kafka) -> None:
    writer = place.sink().open(place.output, SHAPE)
    writer.deliver(batch(LOG), delivery(place.output, 0))
    writer.close()
    ops: dict[str, list[str]] = {}
    for message in place.messages():
        ops.setdefault(message.key().decode(), []).append(json.loads(message.value())["op"])
    assert ops == {"a": ["+I", "-U", "+U"], "session": ["+I", "-D"]}


def test_markers_reach_every_partition_after_the_panes(place: Kafka) -> None:
    writer = place.sink(markers=True, partitions=3).open(place.output, SHAPE)
    many = [pane(f"w{i}", 0, slot=i, **V) for i in range(50)]
    writer.deliver(batch(many), delivery(place.output, 0, watermark=BASE + 50 * MINUTE))
    writer.deliver([], delivery(place.output, 1, watermark=BASE + 51 * MINUTE))
    writer.close()
    lanes: dict[int, list[dict[str, Any]]] = {}
    for message in place.messages():
        lanes.setdefault(message.partition(), []).append(json.loads(message.value()))
    assert set(lanes) == {0, 1, 2}
    for records in lanes.values():
        *panes, first, second = records
        assert all(record["op"] == "+I" for record in panes)
        assert (first["op"], first["watermark"]) == ("W", "2025-06-15T15:56:40.000000Z")
        assert second["watermark"] == "2025-06-15T15:57:40.000000Z"
    assert len(place.rows(SHAPE)) == 50


def test_the_end_of_the_input_is_a_marker_too(place: Kafka) -> None:
    writer = place.sink(markers=True, partitions=1).open(place.output, SHAPE)
    writer.deliver([], delivery(place.output, 0, watermark=2**63 - 1))
    writer.close()
    assert place.records()[0]["watermark"] == "9999-12-31T23:59:59.999999Z"


def test_no_watermark_makes_no_marker(place: Kafka) -> None:
    writer = place.sink(markers=True).open(place.output, SHAPE)
    writer.deliver(batch(LOG[:1]), delivery(place.output, 0))
    writer.close()
    assert len(place.messages()) == 1


@pytest.mark.parametrize("markers", [False, True])
def test_avro_is_read_by_its_schema(place: Kafka, markers: bool) -> None:
    writer = place.sink(format="avro", markers=markers).open(place.output, SHAPE)
    writer.deliver(batch(LOG), delivery(place.output, 0, watermark=BASE))
    writer.close()
    schema = writer._encode.schema
    fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    records = []
    for message in place.messages():
        assert message.value()[:10] == b"\xc3\x01" + bytes.fromhex(fingerprint)
        records.append(fastavro.schemaless_reader(io.BytesIO(message.value()[10:]), schema))
    assert sorted(r["op"] for r in records if r["op"] != "W") == ["+I", "+I", "+U", "-D", "-U"]
    assert sum(r["op"] == "W" for r in records) == (2 if markers else 0)
    assert {r["total"] for r in records if r["op"] != "W"} == {1}


NOON = dt.time(12, 0, 0, 1)
KINDS: list[tuple[pa.DataType, Any, Any]] = [
    (pa.time64("us"), NOON, NOON),
    (pa.binary(2), b"\0\xff", b"\0\xff"),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}),
    (pa.map_(pa.int64(), pa.string()), [(7, None)], {"7": None}),
    (pa.list_(pa.map_(pa.string(), pa.int64())), [[("a", 1)], None], [{"a": 1}, None]),
    (pa.struct([("inner", pa.map_(pa.string(), pa.int64()))]), {"inner": [("a", 1)]}, {"inner": {"a": 1}}),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), KINDS, ids=lambda one: str(one)[:40])
def test_avro_holds_every_kind_of_value(kind: pa.DataType, value: Any, wanted: Any) -> None:
    table = pa.table({"v": pa.array([value, None], kind)})
    encode = Encoder(table.schema, "t-value", None)
    read = [fastavro.schemaless_reader(io.BytesIO(body[10:]), encode.schema)["v"] for body in encode(_typed(table))]
    assert read == [wanted, None]


def test_avro_refuses_what_it_cannot_hold_by_name() -> None:
    with pytest.raises(SinkRefused, match="no span of time"):
        Encoder(pa.schema([("gap", pa.duration("us"))]), "t-value", None)
    with pytest.raises(SinkRefused, match="does not fit the Avro schema"):
        list(Encoder(pa.schema([("n", pa.int64())]), "t-value", None)([{"n": 2**63}]))


def test_avro_refuses_a_name_it_cannot_have() -> None:
    with pytest.raises(SinkRefused, match="letters, digits"):
        schema_of(pa.schema([("per cent", pa.int64())]), "x")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'json' or 'avro'"):
        kafka_topic("x:1", "t", format="xml")


def test_secrets_of_the_configuration_are_not_shown() -> None:
    assert "hush" not in repr(kafka_topic("x:1", "t", config={"sasl.password": "hush"}))


def test_a_setting_that_kafka_does_not_know_is_refused(place: Kafka) -> None:
    with pytest.raises(SinkRefused, match=r"no\.such\.setting"):
        place.sink(config={"no.such.setting": "1"}).open(place.output, SHAPE)


def test_a_table_over_deltas_keeps_all_of_them_or_refuses_them() -> None:
    """The last one alone would pass for the whole."""
    delta = {"window_id": "w", "generation": 0, "sequence": 0, "op": "+I", "n": 5}
    table, whole = CurrentRows(), CurrentRows(deltas=True)
    assert table.apply(delta)
    with pytest.raises(DefinitionError, match=r"'w' with sequence 1 is what came since.*CurrentRows\(deltas=True\)"):
        table.apply({**delta, "sequence": 1, "n": 7})
    for record in (delta, {**delta, "sequence": 1, "n": 7}, delta, {**delta, "sequence": 1, "n": 7}):
        whole.apply(record)
    assert sorted(row["n"] for row in whole) == [5, 7]


def test_deltas_are_each_let_through_once() -> None:
    news = Deduplicator(PaneShape(keys=(), values=(), accumulation="discarding"))
    delta = {"window_id": "w", "generation": 0, "sequence": 1, "op": "+U", "window_end": "2025-01-01T00:00:00Z"}
    assert news.accept(delta)
    assert news.accept({**delta, "sequence": 0})
    assert not news.accept(delta)
    assert news.forget("2025-01-01T00:00:01Z") == 2
    assert news.accept(delta)
