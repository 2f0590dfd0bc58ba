"""What a migration waits for: holds, budgets and how long a silent consumer counts. All spans in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.model.time import duration

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_OPTIONAL = ("expire_after", "retention")


@dataclass(frozen=True, slots=True)
class Policy:
    """The figures behind the gates; every one can be given with the plan.

    Attributes:
        hold_expand: how long the expanded schema stands before producers write both shapes.
        hold_dual_write: how long both shapes are written before the old one may go.
        hold_migrate: how long the migrate phase lasts at least.
        drift_free: how long the two shapes must have agreed on every event before the contract.
        budget: the share of checked events that may drift when consumers begin to move; 0 allows none.
        least_events: how many events must have been checked at all.
        idle_after: a consumer not seen for this long is stale.
        expire_after: a consumer not seen for this long no longer counts; none: it counts until somebody expires it.
        retention: how long records can be read again; none: for ever.
        upcaster: readers of history go through `upcast`, so records in the old shape may stay.
        backfill: must history be filled with the new shape before producers write both?
        rules: write the mappings into the subject's versions as migration rules, for clients that run those.
    """

    hold_expand: int = 0
    hold_dual_write: int = DAY
    hold_migrate: int = 0
    drift_free: int = DAY
    budget: float = 0.0
    least_events: int = 1
    idle_after: int = 14 * DAY
    expire_after: int | None = None
    retention: int | None = 7 * DAY
    upcaster: bool = False
    backfill: bool = False
    rules: bool = False

    def as_json(self) -> dict[str, Any]:
        """The policy as the store writes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Policy:
        """The policy that `as_json` wrote."""
        return cls(**body)

    @classmethod
    def given(cls, body: Mapping[str, Any]) -> Policy:
        """The policy that somebody wrote: spans as text (`"2 days"`), the rest as it is, what is missing by default.

        Raises:
            PlanRefused: an unknown name or a value that cannot be.
        """
        return cls().with_given(body)

    def with_given(self, body: Mapping[str, Any]) -> Policy:
        """This policy with some settings changed; see `given`."""
        known = {f.name for f in fields(self)}
        for name in body:
            if name not in known:
                raise PlanRefused(f"{name!r} is no setting of a migration; take one of {', '.join(sorted(known))}.")
        return replace(self, **{name: _read(name, value) for name, value in body.items()})


def _read(name: str, value: Any) -> Any:
    if name in ("upcaster", "backfill", "rules"):
        if isinstance(value, bool):
            return value
        raise PlanRefused(f"{name} is {value!r}; it must be true or false.")
    if name == "budget":
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        raise PlanRefused(f"budget is {value!r}; it is a share between 0 and 1, e.g. 0.001 for one event in a thousand.")
    if name == "least_events":
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise PlanRefused(f"least_events is {value!r}; it must be a whole number, 0 or more.")
    if value is None and name in _OPTIONAL:
        return None
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return 0
    try:
        return duration(value, what=name, zero=True) // 1_000
    except ValueError as error:
        raise PlanRefused(str(error)) from None


def shown(span: int) -> str:
    """A span as people say it.

    >>> shown(36 * HOUR), shown(90_000), shown(0)
    ('1.5 days', '1.5 minutes', '0 seconds')
    """
    for size, name in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if span >= size:
            return f"{span / size:.4g} {name}"
    return f"{span / 1_000:.4g} seconds"
