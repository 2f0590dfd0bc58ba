"""Hostile names and every type of value, in every sink."""

from __future__ import annotations

import base64
import json
import math
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import DefinitionError, SinkError, SinkRefused
from eventide.sinks import PaneShape, plain
from tests.sinks.panes import batch, delivery, pane
from tests.sinks.places import Place

HOSTILE = 'x\'; drop table "panes"; -- \\ ₹ 名前 🙂 \n\t'
NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
TYPES = PaneShape(
    keys=(("sequence", pa.string()), ("window_start", pa.string()), ("Op", pa.int32())),
    values=(
        ("paid", pa.decimal128(30, 6)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("small", pa.int16()),
        ("many", pa.list_(pa.int64())),
        ("nested", NESTED),
        ("leaders", pa.list_(pa.struct([("value", pa.string()), ("n", pa.int64())]))),
    ),
)
FULL = {
    "paid": Decimal("-123456789012345678901234.567891"),
    "at": datetime(1966, 7, 30, 14, 0, 0, 1, tzinfo=UTC),
    "local": datetime(2026, 2, 28, 23, 59, 59, 999999),  # noqa: DTZ001 (a time without a zone is the point)
    "day": date(1582, 10, 15),
    "ratio": 0.1 + 0.2,
    "ok": False,
    "raw": b"\x00'\xff",
    "small": -32768,
    "many": [1, None, 3],
    "nested": {"a": None, "b": ["it's", '"q"', HOSTILE]},
    "leaders": [{"value": HOSTILE, "n": 2**62}, {"value": None, "n": 1}],
}
EMPTY = dict.fromkeys(FULL)


def canonical(value: Any) -> Any:
    """One form for what each system gives back for the same value."""
    if isinstance(value, str) and value[:1] in "[{":
        return canonical(json.loads(value))
    if isinstance(value, datetime):
        return (
            value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
            if value.tzinfo
            else value.isoformat(timespec="microseconds")
        )
    if isinstance(value, dict):
        return {k: canonical(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    if isinstance(value, date):
        return value.isoformat()
    return value


def same(found: Any, wanted: Any) -> bool:
    found = canonical(found)
    if isinstance(wanted, Decimal):
        return Decimal(found) == wanted
    if isinstance(wanted, datetime):
        return str(found).removesuffix("Z").replace(" ", "T") == canonical(wanted)
    if isinstance(wanted, bytes):
        return found in (wanted, base64.b64encode(wanted).decode()) or bytes(found) == wanted
    return found == canonical(wanted)


def typed(window: str, values: dict[str, Any], **keys: Any) -> dict[str, Any]:
    row = pane(window, 3, **values)
    meta = {TYPES.meta(name): row.pop(name) for name in list(row) if name in ("sequence", "window_start", "op")}
    row.pop("bank")
    return {**row, **meta, "sequence": HOSTILE, "window_start": "mine", "Op": 7, **keys}


def test_every_type_comes_back_as_it_went_in(place: Place) -> None:
    if hasattr(place, "receiver"):
        place.receiver.shape = TYPES
    writer = place.sink().open(place.output, TYPES)
    for number in (0, 1):
        panes = [typed("full", FULL), typed("empty", EMPTY)]
        writer.deliver(batch(panes, TYPES), delivery(place.output, number))
    writer.close()
    rows = {row["window_id"]: row for row in place.rows(TYPES)}
    assert set(rows) == {"full", "empty"}
    for name, wanted in FULL.items():
        assert same(rows["full"][name], wanted), name
        empty = rows["empty"][name]
        # ClickHouse has no null arrays and tuples.
        allowed = [None] if place.name != "clickhouse" else [None, [], {"a": None, "b": []}]
        # Iceberg's library makes an empty list of a null one of structs; docs/sinks.md says so.
        allowed += [[]] if (place.name, name) == ("iceberg", "leaders") else []
        assert empty in allowed, name
    assert rows["full"]["sequence"] == HOSTILE
    assert (rows["full"]["window_start"], rows["full"]["Op"], rows["full"]["_sequence"]) == ("mine", 7, 3)


AWKWARD = ['"quoted"', "semi;colon", "sel ect", "ünï₹", "per%cent", "q?mark", "{brace}"]


def test_identifiers_may_hold_anything(place: Place) -> None:
    output = f"{place.output} {AWKWARD[0]}" if place.name not in ("kafka_topic", "iceberg") else place.output
    shape = PaneShape(keys=((AWKWARD[0], pa.string()),), values=tuple((name, pa.int64()) for name in AWKWARD[1:]))
    row = {**pane("w", 0), AWKWARD[0]: HOSTILE, **{name: number for number, name in enumerate(AWKWARD[1:])}}
    writer = place.sink().open(output, shape)
    writer.deliver(batch([row], shape), delivery(output, 0))
    writer.close()
    (found,) = place.rows(shape, output)
    assert found[AWKWARD[0]] == HOSTILE
    assert [found[name] for name in AWKWARD[1:]] == list(range(len(AWKWARD) - 1))


def test_window_ids_may_hold_anything(place: Place) -> None:
    ids = [HOSTILE, "", "'", '"', "\\", "%s", "?", "{}", "ﷺ"]
    shape = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()),))
    writer = place.sink().open(place.output, shape)
    for number in (0, 1):
        panes = [pane(name, number, total=number) for name in ids]
        writer.deliver(batch(panes, shape), delivery(place.output, number))
    writer.close()
    assert {row["window_id"]: row["total"] for row in place.rows(shape)} == dict.fromkeys(ids, 1)


def test_a_key_of_ten_kilobytes_is_a_row_or_refused_with_what_to_do(place: Place) -> None:
    key = "".join(random.Random(3).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=10_000))
    shape = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()),))
    writer = place.sink().open(place.output, shape)
    try:
        writer.deliver(batch([{**pane(key, 0, total=1), "bank": key}], shape), delivery(place.output, 0))
    except SinkRefused as error:
        assert place.name in ("postgres", "merge_sql") and "index row" in str(error)
        assert place.name == "merge_sql" or "Shorten them in a .map(…)" in str(error)
        return
    writer.close()
    assert [(row["window_id"], row["bank"]) for row in place.rows(shape)] == [(key, key)]


RATIOS = PaneShape(keys=(("bank", pa.string()),), values=(("ratio", pa.float64()), ("single", pa.float32())))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_that_are_no_finite_numbers_survive(place: Place, value: float) -> None:
    writer = place.sink().open(place.output, RATIOS)
    panes = [pane("w", 0, ratio=value, single=value), pane("none", 0, ratio=None, single=None)]
    writer.deliver(batch(panes, RATIOS), delivery(place.output, 0))
    writer.close()
    found = {row["window_id"]: (row["ratio"], row["single"]) for row in place.rows(RATIOS)}
    assert found["none"] == (None, None)
    assert all(str(float(number)) == str(value) for number in found["w"])


def test_deltas_of_floats_add_up_as_the_rows_themselves_would(place: Place) -> None:
    """A sum with NaN in it is none, and so is one of both infinities; the least and the greatest value are numbers where there is one."""
    values = tuple((name, pa.float64()) for name in ("total", "least", "most"))
    shape = PaneShape(RATIOS.keys, values, "discarding", additive=(("least", "min"), ("most", "max")))
    if not place.sink().capabilities.generations:
        pytest.skip("its reader adds")
    inf, nan = math.inf, math.nan
    parts = {"mixed": (1.5, nan, 2.0), "none": (nan, nan), "both": (inf, -inf), "plain": (1.5, None, 2.0), "null": (None, None)}
    writer = place.sink().open(place.output, shape)
    for window, numbers in parts.items():
        panes = [pane(window, n, total=value, least=value, most=value) for n, value in enumerate(numbers)]
        writer.deliver(batch(panes, shape), delivery(place.output, len(window)))
    writer.close()
    found = {r["window_id"]: tuple(_number(r[name]) for name in shape.value_names) for r in place.rows(shape)}
    assert found == {
        "mixed": ("nan", "1.5", "2.0"), "none": ("nan", "nan", "nan"), "both": ("nan", "-inf", "inf"), "plain": ("3.5", "1.5", "2.0"),
        "null": ("None", "None", "None"),
    }  # fmt: skip


def _number(value: Any) -> str:
    return str(None if value is None else float(value))


NOON = time(12, 0, 0, 1)
MOMENTS = PaneShape(keys=(("opens", pa.time64("us")),), values=(("at", pa.time64("us")), ("fine", pa.time64("ns"))))


def test_times_of_day_come_back_or_are_refused_by_name(place: Place) -> None:
    try:
        writer = place.sink().open(place.output, MOMENTS)
    except (DefinitionError, SinkError) as error:
        assert "time64" in str(error)
        return
    row = {**pane("w", 0, at=NOON, fine=NOON), "opens": time(0, 0)}
    row.pop("bank")
    writer.deliver(batch([row, {**row, "window_id": "empty", "at": None, "fine": None}], MOMENTS), delivery(place.output, 0))
    writer.close()
    found = {r["window_id"]: [_moment(r[name]) for name in ("opens", "at", "fine")] for r in place.rows(MOMENTS)}
    assert found == {"w": [time(0, 0), NOON, NOON], "empty": [time(0, 0), None, None]}


MAPS = PaneShape(
    keys=(("bank", pa.string()),),
    values=(
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("counted", pa.map_(pa.int64(), pa.string())),
        ("raw", pa.map_(pa.binary(), pa.int64())),
        ("many", pa.list_(pa.map_(pa.string(), pa.int64()))),
        ("within", pa.struct([("inner", pa.map_(pa.string(), pa.int64()))])),
    ),
)
MAPPED = {
    "tags": {"a": 1, "b": None}, "counted": {1: "x", -2: None}, "raw": {b"\xff\x00": 1}, "many": [{"a": 1}, None, {"b": 2}], "within": {"inner": {"a": 1}},
}  # fmt: skip


def test_maps_at_any_depth_are_objects_and_their_keys_are_written_as_values_are(place: Place) -> None:
    if place.name == "clickhouse":
        pytest.skip("a map is a map there, and it has no null ones")
    writer = place.sink().open(place.output, MAPS)
    writer.deliver(batch([pane("full", 0, **MAPPED)], MAPS), delivery(place.output, 0))
    writer.close()
    (found,) = place.rows(MAPS)
    assert {name: _entries(found[name]) for name in MAPPED} == {name: _entries(value) for name, value in MAPPED.items()}


def _entries(value: Any) -> Any:
    """A map as each system gives it back: an object, a dict or a list of pairs; bytes in base64."""
    if isinstance(value, str) and value[:1] in "[{":
        return _entries(json.loads(value))
    if isinstance(value, list) and value and all(isinstance(part, tuple) for part in value):
        return _entries(dict(value))
    if isinstance(value, dict):
        return {base64.b64encode(k).decode() if isinstance(k, bytes) else str(k): _entries(part) for k, part in value.items()}
    return [_entries(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (pa.map_(pa.string(), pa.int64()), [("a", 1), ("a", 2)], "a map has a key twice"),
        (pa.duration("us"), timedelta(days=200_000, microseconds=1), "cannot be said in seconds to the microsecond"),
        (pa.time64("ns"), 1, "a value of type time64"),
    ],
)
def test_what_json_cannot_say_is_refused_by_name(kind: pa.DataType, value: Any, why: str) -> None:
    with pytest.raises(SinkRefused, match=why):
        plain.rows(pa.table({"v": pa.array([value], kind)}))


SPAN = timedelta(days=1, microseconds=1)


def test_spans_of_time_come_back_or_are_refused_by_name(place: Place) -> None:
    shape = PaneShape(keys=(("bank", pa.string()),), values=(("gap", pa.duration("us")),))
    try:
        writer = place.sink().open(place.output, shape)
        writer.deliver(batch([pane("w", 0, gap=SPAN)], shape), delivery(place.output, 0))
    except (DefinitionError, SinkError) as error:
        assert "duration" in str(error) or "timedelta" in str(error)
        return
    writer.close()
    (found,) = place.rows(shape)
    assert found["gap"] in (
        SPAN,
        SPAN.total_seconds(),
        "24:00:00.000001",
        "1 day 00:00:00.000001",
        "1 day, 0:00:00.000001",
        "1 day 00:00:00.000001",
    )


def _moment(value: Any) -> time | None:
    return value if value is None or isinstance(value, time) else time.fromisoformat(str(value))
