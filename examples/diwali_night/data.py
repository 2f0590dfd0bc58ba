"""An hour of UPI payments on the night of Diwali: a tower in Lucknow holds half a minute back, and hands it in sixteen minutes later."""

import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from landing import land, moment

START = datetime(2026, 11, 8, 13, 30, tzinfo=UTC)
"""19:00 in India."""
SECONDS, FILES = 3600, 12
PAYMENTS, HELD_BACK = 9_000, 1_824
TOWER, FLUSHED = (1814, 1844), 2842
"""The tower holds what happens from 19:30:14 to 19:30:44, and hands it in at 19:47:22."""
CITIES = ("mumbai", "delhi", "chennai", "lucknow")

Row = tuple[float, float, int]


def happenings(seed: int = 11) -> dict[str, list[Row]]:
    """For each city its payments: when each happened, when it came (in seconds after the start), and how many paise."""
    rng, paid = random.Random(seed), {city: list[Row]() for city in CITIES}
    for _ in range(PAYMENTS):
        at, roll = rng.uniform(0, SECONDS), rng.random()
        delay = rng.uniform(0, 1) if roll < 0.985 else rng.uniform(20, 60) if roll < 0.998 else rng.uniform(900, 1200)
        paid[rng.choice(CITIES)].append((at, at + delay, rng.randrange(100, 500_000)))
    for _ in range(HELD_BACK):
        paid["lucknow"].append((rng.uniform(*TOWER), FLUSHED + rng.uniform(0, 5), rng.randrange(100, 500_000)))
    return {city: sorted(rows, key=lambda row: row[1]) for city, rows in paid.items()}


def write(landing: Path) -> None:
    """A directory for each city, its files in the order of arrival."""
    for city, rows in happenings().items():
        columns = {
            "paid_at": [moment(START, row[0]) for row in rows],
            "arrived_at": [moment(START, row[1]) for row in rows],
            "paise": [row[2] for row in rows],
        }
        land(landing / city, pl.DataFrame(columns), FILES)
