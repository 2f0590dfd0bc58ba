"""One migration as a value: its plan, its phase, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from eventide.migration.plan.plan import Plan
from eventide.migration.rollout.phase import BOTH_SHAPES, Phase


@dataclass(frozen=True, slots=True)
class Scan:
    """What a reading of all that is kept found, after the contract: how many records, and how many lack the new shape."""

    at: int
    checked: int
    lacking: int


@dataclass(frozen=True, slots=True)
class Migration:
    """A breaking change of one subject on its way. Moments are milliseconds since 1970."""

    name: str
    subject: str
    plan: Plan
    created_at: int
    created_by: str = ""
    phase: Phase = Phase.PLAN
    entered_at: int = 0
    confirmed: bool = False
    both_since: int | None = None
    old_ids: tuple[int, ...] = ()
    expanded_id: int | None = None
    contracted_id: int | None = None
    backfilled_at: int | None = None
    scanned: Scan | None = None
    tightened_id: int | None = None

    @property
    def writes_both(self) -> bool:
        """Does every event carry both shapes now?"""
        return self.phase in BOTH_SHAPES

    def moved(self, to: Phase, now: int) -> Migration:
        """The migration in another phase; how long both shapes have been written is kept where they still are."""
        both = None
        if to in BOTH_SHAPES or to is Phase.CONTRACTED:
            both = self.both_since if self.both_since is not None else now
        return replace(self, phase=to, entered_at=now, both_since=both)

    def as_json(self) -> dict[str, Any]:
        """The migration as the store and the service write it."""
        return {
            "name": self.name,
            "subject": self.subject,
            "plan": self.plan.as_json(),
            "created_at": self.created_at,
            "created_by": self.created_by,
            "phase": self.phase.value,
            "entered_at": self.entered_at,
            "confirmed": self.confirmed,
            "both_since": self.both_since,
            "old_ids": list(self.old_ids),
            "expanded_id": self.expanded_id,
            "contracted_id": self.contracted_id,
            "backfilled_at": self.backfilled_at,
            "scanned": None if self.scanned is None else asdict(self.scanned),
            "tightened_id": self.tightened_id,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Migration:
        """The migration that `as_json` wrote."""
        values = {**body, "plan": Plan.from_json(body["plan"]), "phase": Phase(body["phase"])}
        values["old_ids"] = tuple(body["old_ids"])
        if body.get("scanned") is not None:
            values["scanned"] = Scan(**body["scanned"])
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})
