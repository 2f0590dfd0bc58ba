"""Late policies: what an output does with rows that come after their window has closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.errors import DefinitionError
from eventide.model.time import Duration, duration, show_duration

ACCUMULATING = "accumulating"
DISCARDING = "discarding"
RETRACTING = "accumulating_and_retracting"
ACCUMULATIONS = (ACCUMULATING, DISCARDING, RETRACTING)


@dataclass(frozen=True)
class Divert:
    """Refused rows go, whole, to a side stream; `to` is a sink, or None for the pipeline's own late table."""

    to: Any = None


@dataclass(frozen=True)
class LatePolicy:
    """How late rows are treated: `allowed` is A in microseconds; refused rows are counted, or diverted."""

    name: str
    allowed: int = 0
    refused: Divert | None = None
    retracts: bool = False

    @property
    def may_lose_rows(self) -> bool:
        """Whether a row can end up as no more than a number in a counter."""
        return self.refused is None

    def __str__(self) -> str:
        text = f"{self.name}({show_duration(self.allowed)})" if self.allowed else f"{self.name}()"
        return text + (", refused rows diverted" if self.refused and self.name != "divert" else "")


def drop() -> LatePolicy:
    """Late rows are counted and go nowhere; results never move.

    >>> str(drop())
    'drop()'
    """
    return LatePolicy("drop")


def accumulate(allowed: Duration, *, refused: Divert | LatePolicy | None = None) -> LatePolicy:
    """Late rows within `allowed` are merged and the new total is emitted again.

    >>> str(accumulate("5 minutes"))
    'accumulate(5 minutes)'
    """
    return LatePolicy("accumulate", _allowed("accumulate", allowed), _refused(refused))


def retract(allowed: Duration, *, refused: Divert | LatePolicy | None = None) -> LatePolicy:
    """Like accumulate, and each correction first withdraws the result that it replaces."""
    return LatePolicy("retract", _allowed("retract", allowed), _refused(refused), retracts=True)


def divert(to: Any = None) -> LatePolicy:
    """Results never move; each late row goes, whole, to a side stream (a sink, or the pipeline's late table).

    >>> divert().may_lose_rows
    False
    """
    return LatePolicy("divert", 0, Divert(to))


def _allowed(name: str, allowed: Duration) -> int:
    span = duration(allowed, what=f"{name}({allowed!r})", zero=True)
    if span == 0:
        raise DefinitionError(
            f"{name}({allowed!r}) can never accept a late row. Give it a lateness above zero, or use drop(). "
            "`eventide tune` measures the value to use."
        )
    return span


def _refused(refused: Divert | LatePolicy | None) -> Divert | None:
    if isinstance(refused, LatePolicy):
        if refused.name == "drop":
            return None
        if refused.name == "divert":
            return refused.refused
    if refused is None or isinstance(refused, Divert):
        return refused
    raise DefinitionError(f"refused={refused!r}: rows past the allowed lateness can be drop() (counted) or divert(...).")
