"""One shape whichever the rows have: Polars, records, both directions."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

from eventide.migration.data.upcast import Upcast, upcast
from eventide.migration.plan.mapping import Change, Mapping
from eventide.migration.plan.planning import propose
from tests.migration.desk import CREATED_AT, RENAME, SIGNUP_DATE, USER_ID, record
from tests.migration.test_drift import DATES, FARES, rides

PLAN = propose("AVRO", record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), said=RENAME)


def test_rows_of_either_shape_become_the_new_one():
    frame = pl.DataFrame(
        {
            "user_id": [1, 2, 3],
            "signup_date": [date(2025, 9, 14), date(2025, 9, 15), None],
            "created_at": [None, datetime(2025, 9, 15, 8, tzinfo=UTC), datetime(2025, 9, 16, tzinfo=UTC)],
        }
    )
    found = upcast(frame, PLAN)
    assert found.columns == ["user_id", "created_at"]
    assert found["created_at"].to_list() == [
        datetime(2025, 9, 14, tzinfo=UTC),
        datetime(2025, 9, 15, 8, tzinfo=UTC),
        datetime(2025, 9, 16, tzinfo=UTC),
    ]
    back = upcast(frame, PLAN, to="old")
    assert back["signup_date"].to_list() == [date(2025, 9, 14), date(2025, 9, 15), date(2025, 9, 16)]


@pytest.mark.parametrize("shape", ["old", "both", "new"])
def test_the_columns_and_types_are_the_same_in_every_phase(shape):
    """A pipeline that names the new field has the same columns before the migration, during it and after it."""
    both = pl.DataFrame({"signup_date": [date(2025, 9, 14)], "created_at": [datetime(2025, 9, 14, tzinfo=UTC)]})
    frame = both.select({"old": ["signup_date"], "new": ["created_at"], "both": ["signup_date", "created_at"]}[shape])
    found = upcast(frame, PLAN)
    assert found.schema == {"created_at": pl.Datetime("us", "UTC")}
    assert found["created_at"].to_list() == [datetime(2025, 9, 14, tzinfo=UTC)]
    empty = upcast(frame.clear(), PLAN)
    assert empty.schema == found.schema


@pytest.mark.parametrize("shape", ["old", "both", "new"])
def test_a_nested_shape_is_put_together_and_taken_apart(shape):
    frame = {"old": rides(5).drop("pricing"), "new": rides(5).drop("fare_cents"), "both": rides(5)}[shape]
    new, old = upcast(frame, FARES), upcast(frame, FARES, to="old")
    assert new.columns == ["ride_id", "pricing"]
    total = new.select(
        pl.col("pricing").struct.field("base") + pl.col("pricing").struct.field("surge") + pl.col("pricing").struct.field("tax")
    )
    assert total.to_series().to_list() == rides(5)["fare_cents"].to_list()
    assert old.select("ride_id", "fare_cents").equals(rides(5).select("ride_id", "fare_cents"))


def test_rows_of_different_shapes_in_one_frame():
    mixed = pl.concat([rides(2).drop("pricing"), rides(4).tail(2).drop("fare_cents")], how="diagonal")
    found = upcast(mixed, FARES)["pricing"].to_list()
    assert found[0] == {"base": 540, "surge": 0, "tax": 0} and found[3] == {"base": 503, "surge": 150, "tax": 43}
    assert upcast(mixed, FARES, to="old")["fare_cents"].to_list() == rides(4)["fare_cents"].to_list()


def test_records_and_the_other_fields_stay_as_they_are():
    tricky = {"id": 1, "fare_cents": 900, "tags": ["a", {"b": None}]}
    assert upcast(tricky, FARES) == {"id": 1, "tags": ["a", {"b": None}], "pricing": {"base": 900, "surge": 0, "tax": 0}}
    assert upcast([], FARES) == []
    assert upcast({"day": 1}, DATES) == {"day": 1, "created_at": None}


def test_a_lazy_frame_stays_lazy_and_a_value_that_does_not_convert_is_null():
    ages = Mapping(Change.RETYPE, ("age",), ("age_int",), {"age_int": "CAST(age AS INT)"}, {"age": "CAST(age_int AS STRING)"})
    found = upcast(pl.LazyFrame({"age": ["7", "seven"]}), ages)
    assert isinstance(found, pl.LazyFrame)
    assert found.collect()["age_int"].to_list() == [7, None]


def test_the_adapter_says_what_it_reads_and_refuses_other_sides():
    assert Upcast.of(FARES).columns == {"fare_cents", "pricing"}
    with pytest.raises(ValueError, match='"new" or "old"'):
        upcast({}, FARES, to="newer")
