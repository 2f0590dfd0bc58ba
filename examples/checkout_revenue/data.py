"""Six hours of checkouts from phones: most come at once, some when the phone is out of the tunnel, and a few after more than an hour."""

import json
import random
from datetime import UTC, datetime
from typing import Any

from landing import moment

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECONDS, CHECKOUTS = 6 * 3600, 14_400
SOON, TUNNEL, OFFLINE = (0.2, 40), (120, 3_000), (3_900, 12_000)
"""How long a phone takes to hand a checkout in, in seconds: nearly always, now and then, and when it was offline for long."""
PHASES = {"plan": 0, "expand": 1, "dual_write": 2, "migrate": 3, "contracted": 4}
"""From which hour on the shop writes what a phase asks for."""
FARE, PRICING = "fare_cents", "pricing"
SHAPES = {
    "plan": (FARE,),
    "expand": (FARE,),
    "dual_write": (FARE, PRICING),
    "migrate": (FARE, PRICING),
    "contracted": (PRICING,),
}

Row = tuple[float, float, int, int, int]


def happenings(seed: int = 4) -> list[Row]:
    """When each was made and when it came (in seconds after the start), and its base, surge and tax in cents; in the order in which they came."""
    rng, rows = random.Random(seed), list[Row]()
    for _ in range(CHECKOUTS):
        at, roll = rng.uniform(0, SECONDS), rng.random()
        comes = at + rng.uniform(*(SOON if roll < 0.94 else TUNNEL if roll < 0.979 else OFFLINE))
        base = rng.randrange(400, 4_000)
        surge = rng.randrange(0, base // 2) if rng.random() < 0.3 else 0
        rows.append((at, comes, base, surge, round((base + surge) * 0.08)))
    return sorted((row for row in rows if row[1] < SECONDS), key=lambda row: row[1])


def received_in(phase: str) -> list[Row]:
    """What comes while a phase lasts: the shop writes it, whenever it was made."""
    begins = [hour * 3600 for hour in PHASES.values()]
    place = list(PHASES).index(phase)
    ends = [*begins[1:], SECONDS][place]
    return [row for row in happenings() if begins[place] <= row[1] < ends]


def record(row: Row, shape: tuple[str, ...]) -> dict[str, Any]:
    """A checkout as the shop writes it: with its fare, with its pricing, or with both."""
    at, comes, base, surge, tax = row
    values = {FARE: base + surge + tax, PRICING: {"base": base, "surge": surge, "tax": tax}}
    return {"checked_out_at": moment(START, at), "received_at": moment(START, comes), **{name: values[name] for name in shape}}


def schema(name: str) -> str:
    """The Avro schema of a checkout with one of the two."""
    instant = {"type": "long", "logicalType": "timestamp-micros"}
    parts = [{"name": part, "type": "long"} for part in ("base", "surge", "tax")]
    types = {FARE: "long", PRICING: {"type": "record", "name": "Pricing", "fields": parts}}
    fields = [{"name": time, "type": instant} for time in ("checked_out_at", "received_at")]
    return json.dumps({"type": "record", "name": "Checkout", "fields": [*fields, {"name": name, "type": types[name]}]})
