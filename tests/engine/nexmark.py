"""An auction house as Nexmark describes it: of every 50 happenings one is a person, three are auctions and 46 are bids, on hot items most of all.

People and auctions are numbered from 1,000 on, in the order in which they come. An auction is a person's who is there already, mostly one of the latest;
a bid is on an auction that has begun, every other one on the hot one of the hour, and three of four come from the hot bidder.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import polars as pl

from eventide.model.event import Event

SECOND = 1_000_000
FIRST_ID = 1_000
PERSONS, AUCTIONS, BIDS = 1, 3, 46
CYCLE = PERSONS + AUCTIONS + BIDS
HOT = 100
"""Every so many ids are hot for as long as nothing newer is."""
CITIES = [("Phoenix", "AZ"), ("Los Angeles", "CA"), ("Boise", "ID"), ("Portland", "OR"), ("Kent", "WA"), ("Cheyenne", "WY")]
COLUMNS: dict[str, pl.DataType] = {
    "kind": pl.String(), "id": pl.String(), "number": pl.Int64(), "name": pl.String(), "city": pl.String(), "state": pl.String(), "seller": pl.Int64(),
    "category": pl.Int64(), "reserve": pl.Int64(), "expires": pl.Int64(), "auction": pl.Int64(), "bidder": pl.Int64(), "price": pl.Int64(),
}  # fmt: skip
Row = dict[str, Any]


def happenings(number: int, seed: int = 7, per_second: int = 20) -> list[tuple[int, Row]]:
    """So many persons, auctions and bids, each with the time at which it happened."""
    rng, made = random.Random(seed), []
    for nth in range(number):
        cycle, place = divmod(nth, CYCLE)
        people = cycle + 1
        auctions = max(1, cycle * AUCTIONS + min(max(place - PERSONS + 1, 0), AUCTIONS))
        time = nth * SECOND // per_second
        if place < PERSONS:
            row = _person(rng, FIRST_ID + cycle)
        elif place < PERSONS + AUCTIONS:
            row = _auction(rng, FIRST_ID + cycle * AUCTIONS + place - PERSONS, people, time)
        else:
            row = _bid(rng, people, auctions)
        made.append((time, {**dict.fromkeys(COLUMNS), "id": str(nth), **row}))
    return made


def _person(rng: random.Random, number: int) -> Row:
    city, state = rng.choice(CITIES)
    return {"kind": "person", "number": number, "name": f"person {number}", "city": city, "state": state}


def _auction(rng: random.Random, number: int, people: int, time: int) -> Row:
    seller = FIRST_ID + rng.randrange(max(0, people - HOT), people)
    lasts = rng.randint(1, 30) * SECOND
    return {
        "kind": "auction", "number": number, "seller": seller, "category": rng.randint(10, 14), "reserve": _price(rng), "expires": time + lasts,
    }  # fmt: skip


def _bid(rng: random.Random, people: int, auctions: int) -> Row:
    auction = (auctions - 1) // HOT * HOT if rng.random() < 0.5 else rng.randrange(max(0, auctions - HOT), auctions)
    bidder = (people - 1) // HOT * HOT if rng.random() < 0.75 else rng.randrange(max(0, people - HOT), people)
    return {"kind": "bid", "auction": FIRST_ID + auction, "bidder": FIRST_ID + bidder, "price": _price(rng)}


def _price(rng: random.Random) -> int:
    """From a dollar to a million, in cents, as likely to have two digits as six."""
    return round(100 * 10 ** rng.uniform(0, 6)) // 100 * 100


def arrived(
    happened: list[tuple[int, Row]], delay: Callable[[random.Random], int], lanes: int = 3, seed: int = 7
) -> list[Event]:
    """As they come in by several lanes, each with its delay: in order of arrival."""
    rng = random.Random(seed)
    told = sorted((time + delay(rng), rng.randrange(lanes), time, nth, row) for nth, (time, row) in enumerate(happened))
    offsets, events = [0] * lanes, []
    for arrival, lane, time, _, row in told:
        events.append(Event(arrival, time, None, row, 0, str(lane), offsets[lane]))
        offsets[lane] += 1
    return events
