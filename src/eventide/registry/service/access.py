"""May this principal do that? Asked by the routes, with the subject they act on."""

from __future__ import annotations

from eventide.registry import faults
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Request


def require(request: Request, role: Role, subject: str) -> None:
    """Raise 403 unless the principal has the role for the subject; the empty subject is the whole registry."""
    if not request.principal.may(role, subject):
        raise faults.denied(request.principal.name, role.name.lower(), subject)


def require_somewhere(request: Request, role: Role) -> None:
    """Raise 403 unless the principal has the role for any subject; what they may not see is left out later."""
    if not request.principal.may_somewhere(role):
        raise faults.denied(request.principal.name, role.name.lower(), "")
