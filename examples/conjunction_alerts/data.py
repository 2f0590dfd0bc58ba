"""Ten minutes of three sensors over twelve objects: object-03 does come near; object-07 only seemed to."""

import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from landing import land, moment

START = datetime(2026, 11, 8, 12, 0, tzinfo=UTC)
SECONDS, FILES = 600, 10
OBJECTS = [f"object-{number:02d}" for number in range(12)]
EVERY = {"radar": 6, "optical": 5, "beacon": 10}
DELAYS = {"radar": (0.02, 0.09), "optical": (4.0, 25.0), "beacon": (1.0, 8.0)}
"""How long after it was made an observation comes, in seconds."""
BURST = (240, 270, ("object-06", "object-07", "object-08"))
HANDED_IN = (298, 336)
"""Optical observations of these seconds, and of these objects, wait in the partner's archive until then."""

Row = tuple[float, float, str, int]


def near(name: str, at: float) -> int:
    """How near an object passes, in metres."""
    if name == "object-03" and 330 <= at < 420:
        return 420
    return 5_000 + 700 * OBJECTS.index(name)


def happenings(seed: int = 3) -> dict[str, list[Row]]:
    """For each sensor: when it saw an object, when that came (in seconds after the start), which, and how near it passes."""
    rng, seen = random.Random(seed), dict[str, list[Row]]()
    for sensor, every in EVERY.items():
        seen[sensor] = []
        for name in OBJECTS if sensor != "beacon" else OBJECTS[:4]:
            for step in range(SECONDS // every):
                at = step * every + rng.uniform(0, every)
                comes = at + rng.uniform(*DELAYS[sensor])
                if sensor == "optical" and BURST[0] <= at < BURST[1] and name in BURST[2]:
                    comes = rng.uniform(*HANDED_IN)
                metres = round(near(name, at) * rng.uniform(0.97, 1.03))
                if sensor == "radar" and name == "object-07" and BURST[0] <= at < BURST[1]:
                    metres = rng.randrange(600, 800)  # an echo of something else
                seen[sensor].append((at, comes, name, metres))
        seen[sensor].sort(key=lambda row: row[1])
    return seen


def write(landing: Path) -> None:
    """Each sensor as a directory of files that landed by the minute."""
    for sensor, rows in happenings().items():
        columns = {
            "seen_at": [moment(START, row[0]) for row in rows],
            "arrived_at": [moment(START, row[1]) for row in rows],
            "object": [row[2] for row in rows],
            "metres": [row[3] for row in rows],
        }
        land(landing / sensor, pl.DataFrame(columns).with_columns(sensor=pl.lit(sensor)), FILES)
