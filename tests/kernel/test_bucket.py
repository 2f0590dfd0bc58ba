"""Which bucket a key is in is written into state directories: it stays what it was in every version, and spreads the keys."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from eventide.kernel.bucket import bucket_of

KEYS: dict[str, list[Any]] = {
    "text": ["", "a", "ab", "ba", "Köln", None, "a" * 40],
    "whole": [0, 1, -1, 2**62, None, 255, 256],
    "small": [0, 1, -1, 7, None, 5, 6],
    "float": [0.0, 1.5, -2.25, 1e300, None, 3.0, 4.0],
    "flag": [True, False, None, True, False, None, True],
    "day": [date(2026, 1, 1), None, date(1969, 12, 31), date(2000, 2, 29), None, None, None],
    "instant": [datetime(2026, 1, 1, tzinfo=UTC), None, None, None, None, None, datetime(1970, 1, 1, tzinfo=UTC)],
    "money": [Decimal("1.10"), Decimal("-2.35"), None, None, None, None, Decimal("0.00")],
    "bytes": [b"", b"a", b"\x00", b"\xff\xfe", None, b"ab", b"ba"],
    "list": [[1], [1, 2], [], None, [2, 1], [3], [4]],
    "span": [timedelta(microseconds=n) for n in (0, 1, -1, 2**50)] + [None, timedelta(0), timedelta(days=1)],
}


def frame(*names: str) -> pl.DataFrame:
    return pl.DataFrame({n: pl.Series(KEYS[n], dtype=pl.Int32 if n == "small" else None) for n in names})


def buckets(*names: str, count: int = 1000) -> list[int]:
    return bucket_of(frame(*names), names, count).to_list()


GOLDEN: dict[tuple[str, ...], list[int]] = {
    ("text",): [61, 167, 313, 272, 278, 934, 523],
    ("whole",): [608, 838, 40, 593, 40, 112, 813],
    ("small",): [608, 838, 40, 769, 40, 312, 329],
    ("float",): [724, 335, 563, 277, 934, 778, 974],
    ("flag",): [670, 214, 934, 670, 214, 934, 670],
    ("day",): [13, 934, 679, 320, 934, 934, 934],
    ("instant",): [383, 934, 934, 934, 934, 934, 502],
    ("money",): [572, 112, 934, 934, 934, 934, 508],
    ("bytes",): [61, 950, 531, 996, 934, 749, 770],
    ("list",): [219, 274, 628, 659, 233, 93, 643],
    ("span",): [608, 838, 40, 488, 40, 608, 23],
    ("text", "whole"): [686, 196, 829, 351, 286, 286, 770],
    ("whole", "text"): [579, 57, 91, 129, 330, 104, 265],
}


@pytest.mark.parametrize("names", [(n,) for n in KEYS] + [("text", "whole"), ("whole", "text")], ids=str)
def test_a_key_stays_in_its_bucket_across_versions(names: tuple[str, ...]) -> None:
    assert buckets(*names) == GOLDEN[names]


def test_a_part_of_a_frame_has_the_buckets_of_the_whole() -> None:
    assert bucket_of(frame("text")[2:], ["text"], 1000).to_list() == buckets("text")[2:]


def test_one_bucket_or_no_key_is_bucket_zero() -> None:
    assert buckets("text", count=1) == [0] * 7 == bucket_of(pl.DataFrame({"x": range(7)}), [], 8).to_list()
    assert set(buckets("text", count=2)) == {0, 1}


def spread(values: list[Any]) -> Counter[int]:
    return Counter(bucket_of(pl.DataFrame({"k": values}), ["k"], 8).to_list())


def test_keys_spread_evenly() -> None:
    for found in (
        spread(list(range(8_000))),
        spread([f"user-{i}" for i in range(8_000)]),
        spread([i * 8 for i in range(8_000)]),
    ):
        assert set(found) == set(range(8)) and max(found.values()) < 1_200
