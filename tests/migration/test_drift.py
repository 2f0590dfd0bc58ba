"""The drift check: the four rows, a million events, both engines, and what a build is told."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

from eventide.migration.data.drift import NOTHING, DriftCheck
from eventide.migration.plan.mapping import Change, Mapping
from eventide.migration.plan.planning import expanded, propose
from eventide.migration.plan.shape import Leaf, language
from tests.migration.desk import CREATED_AT, FARE, PRICING, RENAME, SIGNUP_DATE, USER_ID, record

DATES = Mapping(
    Change.RENAME,
    ("signup_date",),
    ("created_at",),
    {"created_at": "CAST(signup_date AS TIMESTAMP)"},
    {"signup_date": "CAST(created_at AS DATE)"},
)
FARES = Mapping(
    Change.NEST,
    ("fare_cents",),
    ("pricing.base", "pricing.surge", "pricing.tax"),
    {"pricing.base": "fare_cents", "pricing.surge": "0", "pricing.tax": "0"},
    {"fare_cents": "pricing.base + pricing.surge + pricing.tax"},
)
FOUR = pl.DataFrame(
    {
        "user_id": [1, 2, 3, 4],
        "signup_date": [date(2025, 9, day) for day in (14, 15, 16, 17)],
        "created_at": [datetime(2025, 9, day, hour, tzinfo=UTC) for day, hour in ((14, 0), (15, 0), (15, 23), (17, 0))],
    }
)


def rides(count: int) -> pl.DataFrame:
    numbers = pl.int_range(count, eager=True)
    base, surge, tax = 500 + numbers % 4_000, numbers % 7 * 50, 40 + numbers % 90
    frame = pl.DataFrame({"ride_id": numbers, "fare_cents": base + surge + tax, "base": base, "surge": surge, "tax": tax})
    return frame.with_columns(pricing=pl.struct("base", "surge", "tax")).drop("base", "surge", "tax")


def test_of_the_four_rows_the_third_drifts():
    found = DriftCheck((DATES,), key=("user_id",))(FOUR)
    assert found.counts == {"neither": 0, "agree": 3, "new_only": 0, "old_only": 0, "differ": 1}
    [example] = found.examples
    assert (example["user_id"], example["signup_date"], example["created_at"]) == (3, "2025-09-16", "2025-09-15 23:00:00")
    assert example["expected signup_date"] == "2025-09-15"


def test_a_tenth_of_a_percent_in_a_million_is_counted_exactly_by_kind():
    drifting = pl.col("ride_id") % 1_000 == 17
    kind = pl.col("ride_id") // 1_000 % 4
    frame = rides(1_000_000).with_columns(
        pl.when(drifting & (kind == 0)).then(None).otherwise("fare_cents").alias("fare_cents"),
        pl.when(drifting & (kind == 1)).then(None).otherwise("pricing").alias("pricing"),
    )
    frame = frame.with_columns(
        pl.when(drifting & (kind > 1)).then(pl.col("fare_cents") + 1).otherwise("fare_cents").alias("fare_cents")
    )
    found = DriftCheck((FARES,), key=("ride_id",), most=5)(frame)
    assert found.counts == {"neither": 0, "agree": 999_000, "new_only": 250, "old_only": 250, "differ": 500}
    assert [e["ride_id"] for e in found.examples] == [17, 1_017, 2_017, 3_017, 4_017]
    assert (found.within(0.001), found.within(0.000999)) == (True, False)


def test_a_frame_that_has_only_one_shape_is_all_drift():
    assert DriftCheck((FARES,))(rides(3).drop("pricing")).counts["old_only"] == 3
    assert DriftCheck((FARES,))(rides(3).drop("fare_cents")).counts["new_only"] == 3
    assert DriftCheck((FARES,))(rides(3).select("ride_id")).counts["neither"] == 3


def test_an_event_with_several_mappings_counts_once_as_the_worst():
    frame = pl.concat([FOUR, rides(4).drop("ride_id")], how="horizontal").with_columns(
        pl.when(pl.col("user_id") > 2).then(None).otherwise("pricing").alias("pricing")
    )
    found = DriftCheck((DATES, FARES))(frame)
    assert (found.counts["agree"], found.counts["old_only"], found.counts["differ"]) == (2, 1, 1)


@pytest.mark.parametrize("as_schema_says", [True, False])
def test_dates_that_came_as_text_are_compared_as_dates(as_schema_says):
    leaves = {"signup_date": Leaf("signup_date", "date", None), "created_at": Leaf("created_at", "timestamp", None)}
    frame = pl.DataFrame(
        {
            "signup_date": ["2025-09-14"] * 5,
            "created_at": ["2025-09-14T00:00:00Z", "2025-09-14T23:30:00-01:00", "2025-09-14 10:00:00", "nonsense", None],
        }
    )
    if not as_schema_says:
        frame = frame.with_columns(pl.col("signup_date").str.to_date())
        leaves = {}
    found = DriftCheck((DATES,), leaves)(frame)
    drifted = [1, 3, 4]  # the second is the 15th in UTC
    assert [e["row"] for e in found.examples] == drifted


def test_reports_add_up_and_keep_the_first_examples():
    check = DriftCheck((DATES,), key=("user_id",))
    both = check(FOUR).plus(check(FOUR.with_columns(user_id=pl.col("user_id") + 10)), most=1)
    assert (both.checked, both.drifted, [e["user_id"] for e in both.examples]) == (8, 2, [3])
    assert NOTHING.plus(check(FOUR)) == check(FOUR)


def test_the_types_of_the_schema_are_used_for_events_as_avro_encodes_them(tmp_path):
    current = record(USER_ID, SIGNUP_DATE)
    plan = propose("AVRO", current, record(USER_ID, CREATED_AT), said=RENAME)
    leaves = language("AVRO").leaves(expanded(plan, current))
    day = 20_345
    raw = pl.DataFrame({"signup_date": [day, day], "created_at": [day * 86_400_000_000, (day + 1) * 86_400_000_000]})
    assert DriftCheck(plan.mappings, leaves)(raw).counts["differ"] == 1


def test_nested_plans_are_checked_from_the_schema_on(tmp_path):
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    assert DriftCheck(plan.mappings)(rides(1_000)).counts["agree"] == 1_000
