"""What may be added to a service: tables, routes, and a say in what is registered or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eventide.registry.catalog import Guard
from eventide.registry.service.routes import Routes
from eventide.registry.store import Session


class Extension(Protocol):
    """Something that lives in the same service and the same database as the registry."""

    @property
    def routes(self) -> Routes:
        """Its paths, beside the registry's own."""

    @property
    def guards(self) -> Sequence[Guard]:
        """Whom to ask before a subject changes."""

    @property
    def refusals_worth_keeping(self) -> frozenset[int]:
        """The error codes of refusals that belong in the audit log."""

    def prepare(self, session: Session) -> None:
        """Make its tables, if they are not there yet."""
