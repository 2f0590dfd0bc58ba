"""How columns and texts say times: exactly, in their zone, in their form, or not at all."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventide as ev
from eventide.engine.batch.bucket_task import late_rows
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.event_times import micros
from eventide.engine.feeds.file_chunks import chunks_of
from eventide.engine.feeds.landed import LandedFile
from eventide.engine.feeds.text_times import ISO, Times
from eventide.errors import DefinitionError
from eventide.kernel.columns import ARRIVAL, DEAD, OFFSET, RAW, TIME
from eventide.model.watermark import Ascending


@pytest.mark.parametrize(
    ("values", "kind", "unit", "wanted"),
    [
        ([288230377851711744, 1, -1, None], pl.Int64(), "s", [None, 1_000_000, -1_000_000, None]),
        ([2**63 - 1, -(2**63)], pl.Int64(), "ms", [None, None]),
        ([2**64 - 1, 1], pl.UInt64(), "us", [None, 1]),
        ([1.5, math.nan, math.inf, 1e300, -0.25], pl.Float64(), "s", [1_500_000, None, None, None, -250_000]),
        ([Decimal("1.000001"), Decimal("1.0000001")], pl.Decimal(38, 7), "s", [1_000_001, None]),
        (["1970-01-01T00:00:01Z", "soon", "1", "01/02/2026", None], pl.String(), "us", [1_000_000, None, None, None, None]),
    ],
)
def test_a_column_says_times_exactly_or_not_at_all(values: list[Any], kind: pl.DataType, unit: str, wanted: list[Any]) -> None:
    assert micros(pl.Series(values, dtype=kind), unit, ISO).to_list() == wanted


def test_a_row_whose_time_cannot_be_read_is_a_dead_letter_with_the_value() -> None:
    reading = Reading(0, "s", {"at": pl.Float64()}, "at", Ascending(), time_unit="s")
    ready = reading.prepare(pl.DataFrame({ARRIVAL: [0, 0], OFFSET: [0, 1], "at": [math.nan, 1.0]}))
    assert ready[TIME].to_list() == [None, 1_000_000]
    assert ready[DEAD].to_list() == ["the event time NaN is no time", None]


@pytest.mark.parametrize("offset", ["+05:30", "+05:59", "+05:60", "+05:75", "-00:99", "+23:59", "+24:00", "+99:00", "Z"])
def test_a_text_alone_says_what_it_says_in_a_column(offset: str) -> None:
    text = f"2026-01-01T00:00:00{offset}"
    assert ISO.instant(text) == ISO.instants(pl.Series([text])).dt.epoch("us")[0]


def test_days_are_in_the_zone_of_the_source() -> None:
    days = pl.Series([date(2026, 1, 1), None])
    assert micros(days, "us", Times("Asia/Kolkata")).to_list() == [1_767_205_800_000_000, None]
    assert micros(days, "us", ISO).to_list() == [1_767_225_600_000_000, None]


def test_times_without_a_zone_are_in_the_zone_of_the_source() -> None:
    texts = pl.Series(["2026-01-01T05:30:00", "2026-01-01T00:00:00Z", "2026-01-01"])
    assert Times("Asia/Kolkata").instants(texts).dt.epoch("s").to_list() == [1767225600, 1767225600, 1767205800]
    doubtful = pl.Series(["2026-10-25T02:30:00", "2026-03-29T02:30:00", "2026-10-25T02:30:00+01:00"])
    assert Times("Europe/Berlin").instants(doubtful).is_null().to_list() == [True, True, False]


def test_a_form_is_taken_at_its_word() -> None:
    found = Times("UTC", "%d/%m/%Y %H:%M").instants(pl.Series(["01/02/2026 10:00", "2026-02-01T10:00:00Z"]))
    assert found.to_list() == [datetime(2026, 2, 1, 10, tzinfo=UTC), None]


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        ("%Y-%m-%d %H:%M:%S.%f", "2026-01-01 00:00:00.5", "2026-01-01T00:00:00.500000"),
        ("%Y-%m-%d %H:%M:%S.%f", "2026-01-01 00:00:00.000007000", "2026-01-01T00:00:00.000007"),
        ("%Y-%m-%d %H:%M:%S.%f", "2026-01-01 00:00:00.1234567", None),
        ("%Y-%m-%d %H:%M:%S%.f", "2026-01-01 00:00:00.1234567", None),
        ("%Y-%m-%d %H:%M:%S%.f", "2026-01-01 00:00:5", "2026-01-01T00:00:05"),
        ("%Y-%m-%d %H:%M:%S.%3f", "2026-01-01 00:00:00.12", None),
        ("%Y%m%d%H%M%S%3f", "20260101000000125", "2026-01-01T00:00:00.125000"),
        ("%Y-%m-%d %H:%M:%S", "2026-01-01 00:00:60", None),
        ("%Y-%m-%d", "2026-02-30", None),
        ("%Y-%m-%d", "0000-01-01", None),
        ("%Y%m%d", "2026113", None),
        ("%d.%m.%y", "1.2.69", "1969-02-01T00:00:00"),
        ("%d.%m.%y", "1.2.68", "2068-02-01T00:00:00"),
        ("%Y-%j", "2024-366", "2024-12-31T00:00:00"),
        ("%Y-%j", "2026-366", None),
        ("%d %b %Y %I:%M %p", "1 feb 2026 12:00 AM", "2026-02-01T00:00:00"),
        ("%d %B %Y %I:%M %p", "1 February 2026 12:30 pm", "2026-02-01T12:30:00"),
        ("%d %b %Y %I:%M %p", "1 feb 2026 13:00 AM", None),
        ("%a %d %b %Y", "Sun 1 Feb 2026", "2026-02-01T00:00:00"),
        ("%a %d %b %Y", "Mon 1 Feb 2026", None),
        ("%FT%T%z", "2026-02-01T10:00:00+0530", "2026-02-01T04:30:00"),
        ("%FT%T%z", "2026-02-01T10:00:00Z", "2026-02-01T10:00:00"),
        ("%FT%T%z", "2026-02-01T10:00:00+2561", None),
        ("%F %T UTC", "2026-02-01 10:00:00 UTC", "2026-02-01T10:00:00"),
        ("%F %T UTC", "2026-02-01 10:00:00 EST", None),
        ("%s", "-1", "1969-12-31T23:59:59"),
        ("%s.%f", "1.5", "1970-01-01T00:00:01.500000"),
        ("%s.%f", "-1.5", None),
        ("%s", "999999999999999999", None),
        ("%Y-%m-%d", "٢٠٢٦-٠١-٠١", None),
        ("%Y-%m-%d", "2026-01-01\n", None),
    ],
)
def test_a_text_of_a_form_is_the_time_that_it_says_or_none(form: str, text: str, wanted: str | None) -> None:
    times = Times("UTC", form)
    said = None if wanted is None else datetime.fromisoformat(wanted).replace(tzinfo=UTC)
    assert times.instants(pl.Series([text, None, text])).to_list() == [said, None, said]
    assert times.instant(text) == (None if said is None else int(said.timestamp() * 1_000_000))


def test_a_form_reads_in_the_zone_of_the_source() -> None:
    found = Times("Europe/Berlin", "%d.%m.%Y %H:%M").instants(
        pl.Series(["01.07.2026 02:00", "25.10.2026 02:30", "29.03.2026 02:30"])
    )
    assert found.to_list() == [datetime(2026, 7, 1, tzinfo=UTC), None, None]


@pytest.mark.parametrize(
    "form", ["%F %T %Z", "%H:%M", "%m-%d", "%F %I:%M", "%F %p", "%F %F", "%Y %y-%m-%d", "%c", "%Q", "%F %", "%s %H", "%Y-%U-%w"]
)
def test_a_form_that_says_no_time_for_certain_is_refused(form: str) -> None:
    with pytest.raises(DefinitionError, match="time_format is"):
        ev.files("s", "/nowhere", event_time="at", watermark=ev.ascending(), time_format=form)


@pytest.mark.parametrize("more", [{"time_zone": "Mars/Olympus"}, {"time_zone": 3}, {"time_format": "day"}, {"time_format": 3}])
def test_zones_and_forms_that_are_none_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=r"time_(zone|format) is"):
        ev.files("s", "/nowhere", event_time="at", watermark=ev.ascending(), **more)


def test_nanoseconds_of_parquet_are_kept_or_named(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": pl.Series([1_000, 1_001, None]).cast(pl.Datetime("ns"))})
    frame.write_parquet(tmp_path / "1.parquet")
    reading = Reading(0, "s", {"at": pl.Datetime("us", "UTC")}, "at", Ascending())
    rows = pl.concat(chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0))
    assert rows[TIME].to_list() == [1, None, None]
    assert [reason is not None for reason in rows[DEAD]] == [False, True, False]


FAR = [
    (pa.array([2**62, 1], pa.timestamp("ms")), [None, 1_000]),
    (pa.array([2**62, 1], pa.timestamp("ms", "UTC")), [None, 1_000]),
    (pa.array([2**63 - 1, 1], pa.timestamp("us")), [None, 1]),
    (pa.array([-(2**63), 1_000], pa.timestamp("ns")), [None, 1]),
    (pa.array([2**31 - 1, 1], pa.date32()), [None, 86_400_000_000]),
    (pa.array([-(2**31), 1], pa.date32()), [None, 86_400_000_000]),
]


@pytest.mark.parametrize(("column", "wanted"), FAR)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_one_time_beyond_all_years_is_one_dead_letter(tmp_path: Path, column: Any, wanted: list[Any], zone: str) -> None:
    at = pa.table({"at": column, "n": [1, 2]})
    pq.write_table(at, tmp_path / "1.parquet")
    shift = 0 if zone == "UTC" or at["at"].type == pa.timestamp("ms", "UTC") else 19_800_000_000
    kinds: list[pl.DataType] = [pl.Datetime("us", "UTC")]
    if pa.types.is_date(column.type):
        kinds.append(pl.Date())
    for kind in kinds:
        reading = Reading(0, "s", {"at": kind, "n": pl.Int64()}, "at", Ascending(), times=Times(zone))
        rows = pl.concat(chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0))
        assert rows[TIME].to_list() == [time if time is None else time - shift for time in wanted]
        assert [reason is not None for reason in rows[DEAD]] == [True, False] and b'"n":1' in rows[RAW][0]


@pytest.mark.parametrize("column", [column for column, _ in FAR])
def test_times_beyond_all_years_are_dead_letters_at_any_depth(tmp_path: Path, column: Any) -> None:
    inner = pa.ListArray.from_arrays([0, 1, 2], pa.StructArray.from_arrays([column], ["t"]))
    pq.write_table(pa.table({"at": [0, 1], "c": inner}), tmp_path / "1.parquet")
    kind = pl.List(pl.Struct({"t": pl.Date() if pa.types.is_date(column.type) else pl.Datetime("us", "UTC")}))
    for kinds in ({"at": pl.Int64(), "c": kind}, {"at": pl.Int64()}):
        reading = Reading(0, "s", kinds, "at", Ascending(), declared={"at": pl.Int64(), "c": kind})
        rows = pl.concat(chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0))
        assert [reason is not None for reason in rows[DEAD]] == [True, False]


def test_nested_times_without_a_zone_are_in_the_zone_of_the_source(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "c": pa.array([[0, None]], pa.list_(pa.timestamp("us")))}), tmp_path / "1.parquet")
    kinds: dict[str, pl.DataType] = {"at": pl.Int64(), "c": pl.List(pl.Datetime("us", "UTC"))}
    reading = Reading(0, "s", kinds, "at", Ascending(), times=Times("Asia/Kolkata"))
    (rows,) = chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0)
    assert rows["c"].to_list() == [[datetime(1969, 12, 31, 18, 30, tzinfo=UTC), None]]


def test_rows_that_come_in_the_zone_of_a_session_are_the_same_instants() -> None:
    """As Spark hands them over where its session is not in UTC."""
    there = pl.Datetime("us", "Asia/Kolkata")
    at = pl.Series([0, 1]).cast(pl.Datetime("us", "UTC")).cast(there)
    kinds: dict[str, pl.DataType] = {"at": pl.Datetime("us", "UTC"), "all": pl.List(pl.Datetime("us", "UTC"))}
    given = pl.DataFrame({ARRIVAL: [0, 0], OFFSET: [0, 1], "at": at, "all": pl.Series([[at[0]], [None]], dtype=pl.List(there))})
    ready = Reading(0, "s", kinds, "at", Ascending()).prepare(given)
    assert (ready[TIME].to_list(), ready[DEAD].null_count()) == ([0, 1], 2)
    assert {name: ready.schema[name] for name in kinds} == kinds


def test_columns_of_ours_step_aside_in_late_rows() -> None:
    """The late rows of one pipeline are rows for another."""
    own = {"_offset": [7], "_lane": ["mine"], "missed_first_end": ["x"], "_Source": ["s"]}
    places = {"__arrival": [0], "__source": [0], "__lane": ["0"], "__offset": [3], "__time": [0], "__w": [5]}
    table = late_rows(pl.DataFrame({**own, **places, "__missed_first_end": [1], "__missed_last_end": [2]}), 0)
    (row,) = table.to_dicts()
    assert (row["_offset"], row["__offset"], row["_lane"], row["__lane"], row["missed_first_end"]) == (7, 3, "mine", "0", "x")
    assert (row["_Source"], row["__source"]) == ("s", 0)


def test_whether_a_row_fits_does_not_hang_on_the_columns_that_are_needed(tmp_path: Path) -> None:
    """A column that nobody asks for is looked at where its type is not the declared one."""
    pl.DataFrame({"at": [1, 2], "n": [1.0, 1.5]}).write_parquet(tmp_path / "1.parquet")
    whole: dict[str, pl.DataType] = {"at": pl.Int64(), "n": pl.Int64()}
    for kinds in (whole, {"at": pl.Int64()}):
        reading = Reading(0, "s", kinds, "at", Ascending(), declared=whole)
        (rows,) = chunks_of([LandedFile(str(tmp_path / "1.parquet"), 0, "0")], "parquet", reading, 0)
        assert [reason is not None for reason in rows[DEAD]] == [False, True]
