"""What the migration service refuses: an HTTP status, a code of our own, and the reason with the next command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventide.errors import EventideError
from eventide.registry.faults import Fault


class PlanRefused(EventideError, ValueError):
    """A plan, a policy or an expression that cannot be."""


NOT_FOUND = 40461
OPEN_MIGRATION = 40961
NOT_NOW = 40962
OLD_SHAPE = 40963
INVALID = 42261


def not_found(name: str) -> Fault:
    """40461."""
    return Fault(404, NOT_FOUND, f"There is no migration {name!r}. `eventide migrate list` shows those that are.")


def invalid(message: str) -> Fault:
    """42261: the request itself is wrong."""
    return Fault(422, INVALID, message)


def not_now(message: str) -> Fault:
    """40962: the migration does not allow this where it stands."""
    return Fault(409, NOT_NOW, message)


def open_migration(message: str) -> Fault:
    """40961: a schema that an open migration does not allow."""
    return Fault(409, OPEN_MIGRATION, message)


def old_shape(message: str) -> Fault:
    """40963: a schema in a shape that the subject has left behind."""
    return Fault(409, OLD_SHAPE, message)


def listed(items: Sequence[Any], most: int = 5) -> str:
    """A few of many, as one reads them out.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    names = [str(item) for item in items]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
