"""Streams to order: lanes with their delays, bursts, silences, skew, duplicates and broken rows, the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from eventide.model.event import Event

Delay = Callable[[random.Random], int]
"""How far behind its arrival an event time lies."""


def no_delay(rng: random.Random) -> int:
    """Event time is arrival time."""
    return 0


def uniform_delay(most: int) -> Delay:
    """Any delay up to the most."""
    return lambda rng: rng.randint(0, most)


def exponential_delay(mean: float, most: int) -> Delay:
    """Mostly small, seldom large, cut off at the most."""
    return lambda rng: min(int(rng.expovariate(1 / mean)), most)


def tailed_delay(usual: int, share: float, most: int) -> Delay:
    """Up to the usual, but for this share anything up to the most: what a region that lost its tower looks like."""
    return lambda rng: rng.randint(0, usual) if rng.random() >= share else rng.randint(0, most)


@dataclass(frozen=True)
class Stream:
    """How a source's rows come. Times are in whatever unit the windows of the test use."""

    lanes: int = 3
    rows: int = 40
    """Of each lane, at most; `uneven` lanes have anything from none up to it."""
    uneven: bool = True
    pace: int = 2
    """The usual time between two arrivals of a lane, at most."""
    delay: Delay = no_delay
    burst: float = 0.0
    """The share of arrivals that come at the same instant as the one before."""
    silence: float = 0.0
    """The share of arrivals before which the lane was silent for up to `longest_silence`."""
    longest_silence: int = 60
    skew: int = 0
    """How much further each lane's event times trail those of the lane before it."""
    keys: Sequence[str | None] = ("a", "b")
    duplicates: float = 0.0
    """The share of rows that are sent again, a little later, by the same lane."""
    dead: float = 0.0
    """The share of rows that cannot be read."""
    nulls: float = 0.0
    """The share of rows whose value is null."""
    markers: float = 0.0
    """The share of arrivals that are markers, which carry a watermark instead of a row."""
    bound: int = 0
    """How far behind the lane's largest event time a marker or a custom candidate lies."""
    regress: float = 0.0
    """The share of markers and candidates that lie too low."""
    candidates: bool = False
    """Whether ordinary rows carry a candidate, as under a custom strategy; now and then one says nothing."""
    start: int = 0


def generate(stream: Stream, seed: int, source: int = 0) -> list[Event]:
    """The events of one source, in position order.

    >>> len(generate(Stream(lanes=2, rows=5, uneven=False), seed=7))
    10
    """
    rng = random.Random(seed)  # noqa: S311
    events = [event for lane in range(stream.lanes) for event in _lane(stream, rng, source, lane)]
    return sorted(events, key=lambda event: event.position)


def merged(*streams: Iterable[Event]) -> list[Event]:
    """Several sources as one arrival order."""
    return sorted((event for stream in streams for event in stream), key=lambda event: event.position)


def _lane(stream: Stream, rng: random.Random, source: int, lane: int) -> list[Event]:
    arrival, highest = stream.start + rng.randint(0, 3 * stream.pace), None
    events: list[Event] = []
    again: list[Event] = []
    for number in range(rng.randint(0, stream.rows) if stream.uneven else stream.rows):
        if rng.random() >= stream.burst:
            arrival += rng.randint(0, stream.pace)
        if rng.random() < stream.silence:
            arrival += rng.randint(1, stream.longest_silence)
        time = arrival - stream.delay(rng) - stream.skew * lane
        highest = time if highest is None else max(highest, time)
        event = Event(
            arrival,
            time,
            rng.choice(stream.keys),
            {"value": None if rng.random() < stream.nulls else rng.randint(0, 9)},
            source,
            str(lane),
            dedupe_key=f"{source}/{lane}/{number}",
        )
        events.append(_special(stream, rng, event, highest))
        if rng.random() < stream.duplicates:
            again.append(event)
        if again and rng.random() < 0.5:
            events.append(replace(again.pop(), arrival=arrival))
    return [replace(event, offset=offset) for offset, event in enumerate(events)]


def _special(stream: Stream, rng: random.Random, event: Event, highest: int) -> Event:
    low = rng.randint(1, 20) if rng.random() < stream.regress else 0
    if rng.random() < stream.dead:
        return replace(event, dead="unreadable", event_time=rng.choice([None, 10**15]), candidate=10**15)
    if rng.random() < stream.markers:
        return replace(event, event_time=None, marker=True, candidate=highest - stream.bound - low, row={}, key=None)
    if stream.candidates and rng.random() < 0.9:
        return replace(event, candidate=highest - stream.bound - low)
    return event
