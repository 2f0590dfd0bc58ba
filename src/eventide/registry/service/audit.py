"""Writing to the audit log from inside the transaction that does the thing."""

from __future__ import annotations

from typing import Any

from eventide.registry.catalog import Catalog
from eventide.registry.service.http import Request


def note(
    catalog: Catalog, request: Request, action: str, subject: str, detail: dict[str, Any], *, outcome: str = "done"
) -> None:
    """Write down who did what to which subject, from where and why; stands or falls with the change itself."""
    catalog.session.put_audit(
        catalog.now, request.principal.name, request.origin, action, subject, outcome, request.reason, detail
    )
