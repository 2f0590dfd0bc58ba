"""/contexts/{context}/…: the same routes, with the context put before every subject."""

from __future__ import annotations

from eventide.registry import faults
from eventide.registry.names import EVERY_CONTEXT, context_prefix
from eventide.registry.service.http import Request


def move_into_path(request: Request) -> None:
    """Rewrite a request under /contexts/{context} into the one without it."""
    if len(request.segments) < 2 or request.segments[0] != "contexts":
        return
    try:
        prefix = context_prefix(request.segments[1])
    except ValueError as error:
        raise faults.Fault(400, 400, str(error)) from None
    rest = request.segments[2:]
    if not rest:
        raise faults.plain(404, "Not Found")
    if rest[0] in ("config", "mode"):
        if len(rest) > 1:
            rest[1] = _within(prefix, rest[1])
        elif prefix:
            rest.append(prefix)
    elif "subjects" in rest[:-1]:
        place = rest.index("subjects") + 1
        rest[place] = _within(prefix, rest[place])
    elif rest in (["schemas"], ["subjects"], ["eventide", "v1", "subjects"]):
        request.query["subjectPrefix"] = [_within(prefix, request.text("subjectPrefix"))]
    elif rest[:2] == ["schemas", "ids"]:
        request.query["subject"] = [_within(prefix, request.text("subject"))]
    request.segments = rest


def _within(prefix: str, name: str) -> str:
    return name if name.startswith((":.", EVERY_CONTEXT)) else prefix + name
