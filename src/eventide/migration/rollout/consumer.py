"""Who reads a subject: what they say they read, what they were seen to read, and whether the contract must wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from eventide.migration.plan.policy import Policy, shown


class Shape(StrEnum):
    """Which shape a consumer reads; `EITHER` goes through `upcast` and takes what there is."""

    OLD = "old"
    NEW = "new"
    EITHER = "either"


class State(StrEnum):
    """Where a consumer stands."""

    WAITING = "waiting"
    MOVED = "moved"
    UNCONFIRMED = "unconfirmed"
    CONTRADICTED = "contradicted"
    STALE = "stale"
    EXEMPT = "exempt"
    EXPIRED = "expired"
    UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True)
class Consumer:
    """One reader of a subject in one environment, as its owner declared it; or only seen, and then never declared."""

    name: str
    environment: str = ""
    owner: str = ""
    shape: Shape = Shape.OLD
    declared_at: int | None = None
    expected_by: int | None = None
    exempt_until: int | None = None
    exempted_at: int | None = None
    exempt_reason: str = ""
    expired_at: int | None = None
    expire_reason: str = ""

    @property
    def since(self) -> int:
        """From when on its deeds are held against its words."""
        return self.declared_at or 0

    def __str__(self) -> str:
        return f"{self.name}@{self.environment}" if self.environment else self.name

    def as_json(self) -> dict[str, Any]:
        """The consumer as the store and the service write it."""
        return {**asdict(self), "shape": self.shape.value}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Consumer:
        """The consumer that `as_json` wrote."""
        return cls(**{**body, "shape": Shape(body["shape"])})


@dataclass(frozen=True, slots=True)
class Seen:
    """When a consumer was last seen: at all, with a column of the old shape, with one of the new."""

    last: int | None = None
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known about a consumer now. `blocks`: the old shape may not go yet because of it."""

    consumer: Consumer
    state: State
    blocks: bool
    why: str
    seen: Seen

    @property
    def needs_new(self) -> bool:
        """Would it break if the new shape went away?"""
        return self.consumer.shape is Shape.NEW and self.state not in (State.EXEMPT, State.EXPIRED)


def standing(consumer: Consumer, seen: Seen, now: int, policy: Policy) -> Standing:
    """Judge one consumer by its words and by its deeds; where they differ the deeds count.

    An exemption or an expiry spares a consumer the proof that it has moved. It does not excuse reading the old shape:
    who is seen doing that afterwards blocks the contract again.
    """
    pardon = _pardon(consumer, seen, now, policy)
    if pardon is not None:
        state, since, why = pardon
        if _not_before(seen.old, since):
            return Standing(consumer, State.CONTRADICTED, True, f"{why}, but read the old shape at {at(seen.old)}", seen)
        return Standing(consumer, state, False, why, seen)
    if consumer.declared_at is None:
        return undeclared(consumer.name, consumer.environment, seen)
    if consumer.shape is Shape.OLD:
        return _idle_or(consumer, State.WAITING, "reads the old shape", seen, now, policy)
    said = f"declared {consumer.shape} at {at(consumer.declared_at)}"
    if consumer.shape is Shape.NEW and _not_before(seen.old, consumer.since):
        return Standing(consumer, State.CONTRADICTED, True, f"{said}, but read the old shape at {at(seen.old)}", seen)
    proof = seen.last if consumer.shape is Shape.EITHER else seen.new
    if _after(proof, consumer.since):
        return Standing(consumer, State.MOVED, False, f"{said}, seen doing so at {at(proof)}", seen)
    return _idle_or(consumer, State.UNCONFIRMED, f"{said}, not seen doing so since", seen, now, policy)


def undeclared(name: str, environment: str, seen: Seen) -> Standing:
    """A reader that nobody has declared: it blocks, because nobody knows what it would do without the old shape."""
    why = f"nobody declared it; last seen at {at(seen.last)}"
    return Standing(Consumer(name, environment), State.UNDECLARED, True, why, seen)


def at(moment: int | None) -> str:
    """A moment as people read it."""
    if moment is None:
        return "never"
    return datetime.fromtimestamp(moment / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _pardon(consumer: Consumer, seen: Seen, now: int, policy: Policy) -> tuple[State, int, str] | None:
    if consumer.exempt_until is not None and now < consumer.exempt_until:
        why = f"exempt until {at(consumer.exempt_until)}: {consumer.exempt_reason}"
        return State.EXEMPT, consumer.exempted_at or 0, why
    if consumer.expired_at is not None and not _after(seen.last, consumer.expired_at):
        because = f": {consumer.expire_reason}" if consumer.expire_reason else ""
        return State.EXPIRED, consumer.expired_at, f"expired at {at(consumer.expired_at)}{because}"
    active = max(seen.last or 0, consumer.since, consumer.expired_at or 0)
    if policy.expire_after is not None and active + policy.expire_after <= now:
        return State.EXPIRED, active, f"not seen for {shown(now - active)}, expires after {shown(policy.expire_after)}"
    return None


def _idle_or(consumer: Consumer, state: State, why: str, seen: Seen, now: int, policy: Policy) -> Standing:
    active = max(seen.last or 0, consumer.since)
    if active + policy.idle_after <= now:
        idle = f"{why}; not seen for {shown(now - active)}: ask {consumer.owner or 'its owner'}, or expire it"
        return Standing(consumer, State.STALE, True, idle, seen)
    return Standing(consumer, state, True, why, seen)


def _not_before(moment: int | None, since: int) -> bool:
    """In doubt, in the same millisecond, what was seen came second: better to ask once more than to break a reader."""
    return moment is not None and moment >= since


def _after(moment: int | None, since: int) -> bool:
    return moment is not None and moment > since
