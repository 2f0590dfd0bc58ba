"""The phases of an expand-contract rollout and the ways between them."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a migration stands. Everything before `CONTRACTED` can be undone."""

    PLAN = "plan"
    EXPAND = "expand"
    DUAL_WRITE = "dual_write"
    MIGRATE = "migrate"
    CONTRACT_READY = "contract_ready"
    CONTRACTED = "contracted"
    ABORTED = "aborted"

    @property
    def is_open(self) -> bool:
        """Is there anything left to decide?"""
        return self not in (Phase.CONTRACTED, Phase.ABORTED)

    @property
    def following(self) -> Phase | None:
        """The phase after this one, if there is one."""
        place = _ORDER.index(self) if self in _ORDER else len(_ORDER)
        return _ORDER[place + 1] if place + 1 < len(_ORDER) else None

    @property
    def previous(self) -> Phase | None:
        """The phase that a rollback of one step leads to."""
        place = _ORDER.index(self) if self.is_open else 0
        return _ORDER[place - 1] if place > 0 else None

    def is_before(self, other: Phase) -> bool:
        """Does this phase come earlier in the rollout?"""
        return self in _ORDER and other in _ORDER and _ORDER.index(self) < _ORDER.index(other)


_ORDER = (
    Phase.PLAN,
    Phase.EXPAND,
    Phase.DUAL_WRITE,
    Phase.MIGRATE,
    Phase.CONTRACT_READY,
    Phase.CONTRACTED,
)

BOTH_SHAPES = (Phase.DUAL_WRITE, Phase.MIGRATE, Phase.CONTRACT_READY)
"""The phases in which every event carries both shapes."""
