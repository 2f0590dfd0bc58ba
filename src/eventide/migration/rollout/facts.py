"""What the gates look at: facts gathered beforehand, so that judging them needs neither a clock nor a database."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.migration.rollout.consumer import Standing


@dataclass(frozen=True, slots=True)
class DriftFacts:
    """What the drift check has found since both shapes are written."""

    agree: int = 0
    neither: int = 0
    old_only: int = 0
    new_only: int = 0
    differ: int = 0
    last_checked_at: int | None = None
    last_drift_at: int | None = None

    @property
    def checked(self) -> int:
        """Events looked at."""
        return self.agree + self.neither + self.drifted

    @property
    def drifted(self) -> int:
        """Events whose two shapes do not say the same."""
        return self.old_only + self.new_only + self.differ

    def by_kind(self) -> str:
        """The counts in words."""
        return f"old only {self.old_only:,}, new only {self.new_only:,}, differ {self.differ:,}"


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """What is known about records in the old shape: written last, decoded last, and when all that is kept was read."""

    last_old_record_at: int | None = None
    last_old_decode_at: int | None = None
    scanned_at: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a gate may ask."""

    level: str = "BACKWARD"
    expanded_reasons: tuple[str, ...] = ()
    contracted_reasons: tuple[str, ...] = ()
    missing_paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    standings: tuple[Standing, ...] = ()
    drift: DriftFacts = DriftFacts()
    retention: RetentionFacts = RetentionFacts()
