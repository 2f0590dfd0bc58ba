"""A quarter of an hour of clicks: phones that were offline hand theirs in together, tens of seconds later."""

import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from landing import land, moment

START = datetime(2026, 11, 8, 9, 0, tzinfo=UTC)
SECONDS, FILES, USERS, CLICKS = 900, 6, 60, 4_000
OFFLINE = {"phone": 0.2, "tablet": 0.05, "desktop": 0.0}
"""How often a click waits until its device is online again."""

Row = tuple[float, float, str, str]


def happenings(seed: int = 9) -> list[Row]:
    """Clicks: when each happened, when it came (in seconds after the start), of whom, and on what."""
    rng, clicks = random.Random(seed), list[Row]()
    users = [(f"user-{number:02d}", rng.choice(("phone", "phone", "tablet", "desktop"))) for number in range(USERS)]
    for _ in range(CLICKS):
        at, (user, device) = rng.uniform(0, SECONDS), rng.choice(users)
        waits = rng.uniform(20, 120) if rng.random() < OFFLINE[device] else rng.uniform(0.05, 1.5)
        clicks.append((at, at + waits, user, device))
    return sorted(clicks, key=lambda row: row[1])


def write(landing: Path) -> None:
    """Files in the order of arrival."""
    rows = happenings()
    columns = {
        "clicked_at": [moment(START, row[0]) for row in rows],
        "arrived_at": [moment(START, row[1]) for row in rows],
        "user": [row[2] for row in rows],
        "device": [row[3] for row in rows],
    }
    land(landing, pl.DataFrame(columns), FILES)
