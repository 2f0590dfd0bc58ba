"""What a record carries beside its value, in every format: headers, its key, and when it arrived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.errors import DefinitionError
from eventide.registry.client import RegistryClient
from eventide.testing.broker import KafkaBroker
from tests.registry.conftest import InThread
from tests.sources.records import AVRO, BASE, Paid, as_avro, as_json, as_protobuf, new_topic, send

TRACE = [("trace", b"\x00abc"), ("region", b"south")]
PAYMENTS = [
    Paid(BASE, "a", 1, BASE + 10, TRACE),
    Paid(BASE + 100, "b", 2, BASE + 110),
    Paid(BASE + 30_000, "a", 4, BASE + 30_010, [("region", b"north"), ("region", b"again")]),
    Paid(BASE + 500, "a", 8, BASE + 30_020, TRACE),  # late: W has passed its window
    Paid(BASE + 60_000, "a", 16, BASE + 60_010),
]


def written(form: str, topic: str, registry: InThread) -> tuple[Any, list[tuple[bytes, Paid]]]:
    """How records of a form are read, and their bytes."""
    if form in ("json", "raw"):
        value = ev.raw() if form == "raw" else ev.json("at bigint, bank string, paise bigint")
        return value, [(as_json(p), p) for p in PAYMENTS]
    with RegistryClient(registry.url) as client:
        if form == "avro":
            return ev.avro(registry.url, reader=AVRO), as_avro(client, topic, PAYMENTS)
        return ev.protobuf(registry.url, "at timestamp, bank string, paise bigint"), as_protobuf(client, topic, PAYMENTS)


def from_raw(frame: Any) -> Any:
    """A user's own reading of bytes; the key says the bank."""
    return frame.selectExpr(
        "*", "cast(key as string) bank", "cast(get_json_object(cast(value as string), '$.at') as bigint) at",
        "cast(get_json_object(cast(value as string), '$.paise') as bigint) paise",
    )  # fmt: skip


def with_region(rows: pl.DataFrame) -> pl.DataFrame:
    """The first header called region, as a column."""
    regions = [
        next((h["value"].decode() for h in headers or () if h["key"] == "region"), "none")
        for headers in rows["headers"].to_list()
    ]
    return rows.with_columns(region=pl.Series(regions, dtype=pl.String))


@pytest.mark.parametrize("form", ["json", "avro", "protobuf", "raw"])
def test_headers_are_a_column_and_stay_with_late_rows(
    spark: Any, broker: KafkaBroker, registry: InThread, tmp_path: Path, form: str
) -> None:
    topic = new_topic(broker, form)
    value, bodies = written(form, topic, registry)
    send(broker.servers, topic, bodies)
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=value, event_time="at", watermark=ev.bounded("1 second"), headers=True,
    )  # fmt: skip
    if form == "raw":
        paid = paid.transform(from_raw)
    sums = paid.map(with_region).window(ev.tumbling("10 seconds"), by=["bank", "region"]).agg(total=ev.sum("paise"))
    late = tmp_path / "late"
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.divert(ev.parquet(str(late)))), state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    assert handle.rows.get("dead", 0) == 0, pipeline.dead_letters(spark).collect()
    found = {(r["bank"], r["region"]): r["total"] for r in pipeline.panes(spark).collect()}
    assert found == {("a", "south"): 1, ("b", "none"): 2, ("a", "north"): 4}
    (kept,) = pl.read_parquet(late / "totals_late").to_dicts()
    assert [(h["key"], h["value"]) for h in kept["headers"]] == TRACE
    assert (kept["paise"], kept["_offset"]) == (8, 3)


def test_a_header_can_choose_rows_in_a_transform(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "chosen")
    send(broker.servers, topic, [(as_json(p), p) for p in PAYMENTS])
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.json("at bigint, bank string, paise bigint"), event_time="at",
        watermark=ev.bounded("1 second"), headers=True,
    ).transform(lambda rows: rows.where("exists(headers, h -> h.key = 'trace')").drop("headers"))  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.divert()), state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["in"] == 2


def test_a_dead_letter_with_headers_keeps_its_bytes(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "dead")
    timeless = b'{"bank": "a", "paise": 1}'
    send(broker.servers, topic, [(as_json(PAYMENTS[0]), PAYMENTS[0]), (timeless, PAYMENTS[0]), (b"{oops", PAYMENTS[0])])
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.json("at bigint, bank string, paise bigint"), event_time="at",
        watermark=ev.bounded("1 second"), headers=True,
    )  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.divert()), state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["dead"] == 2
    assert [bytes(r["raw"]) for r in pipeline.dead_letters(spark).orderBy("offset").collect()] == [timeless, b"{oops"]


def test_raw_records_are_read_by_a_map_as_well(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "bytes")
    send(broker.servers, topic, [(f"{p.at},{p.paise}".encode(), p) for p in PAYMENTS])

    def split(rows: pl.DataFrame) -> pl.DataFrame:
        cells = rows["value"].cast(pl.String).str.split(",")
        return rows.with_columns(at=cells.list.get(0).cast(pl.Int64), paise=cells.list.get(1).cast(pl.Int64))

    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.raw(), event_time="at", time_unit="ms", watermark=ev.bounded("1 second"),
    ).map(split)  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds"), by="key").agg(total=ev.sum("paise"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.accumulate("1 hour")), state=str(tmp_path / "state"))
    pipeline.run(spark)
    last = {(bytes(r["key"]), r["window_start"]): r["total"] for r in pipeline.panes(spark).orderBy("sequence").collect()}
    assert sorted((key, total) for (key, _), total in last.items()) == [(b"a", 4), (b"a", 9), (b"b", 2)]


def test_what_a_protobuf_message_holds_becomes_columns(
    spark: Any, broker: KafkaBroker, registry: InThread, tmp_path: Path
) -> None:
    topic = new_topic(broker, "fields")
    with RegistryClient(registry.url) as client:
        good = as_protobuf(client, topic, PAYMENTS)
    send(broker.servers, topic, [*good[:2], (good[0][0][:-1], PAYMENTS[0]), (b"\x01?", PAYMENTS[0]), *good[2:]])
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, event_time="at", watermark=ev.bounded("1 second"),
        value=ev.protobuf(registry.url, "at timestamp, state string, paise bigint, tags map<string, bigint>, parts array<int>"),
    )  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds"), by="state").agg(total=ev.sum("paise"), all=ev.collect("parts"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.accumulate("1 hour")), state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    assert (handle.rows["in"], handle.rows["dead"]) == (7, 2)
    reasons = [row["reason"].partition(":")[0] for row in pipeline.dead_letters(spark).orderBy("offset").collect()]
    assert reasons == ["bad_payload", "bad_magic"]
    firsts = pipeline.panes(spark).where("sequence = 0").orderBy("window_start", "state").collect()
    assert [(r["state"], r["total"]) for r in firsts] == [("EVEN", 2), ("ODD", 1), ("EVEN", 4)]


def test_a_records_own_column_called_headers_is_not_hidden(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "clash")
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.json("at timestamp, headers string"), event_time="at",
        watermark=ev.ascending(), headers=True,
    )  # fmt: skip
    counts = paid.window(ev.tumbling("1 minute")).agg(n=ev.count())
    with pytest.raises(DefinitionError, match="a column 'headers' of their own"):
        ev.Pipeline("paid", counts.to("n", late=ev.drop()), state=str(tmp_path / "state")).run(spark)
