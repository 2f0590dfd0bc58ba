"""/contexts: the list of them, and the same routes as without one, with the context put before every subject."""

from __future__ import annotations

from eventide.registry import faults, reading
from eventide.registry.catalog import Catalog
from eventide.registry.names import EVERY_CONTEXT, context_prefix
from eventide.registry.service.access import require
from eventide.registry.service.audit import note
from eventide.registry.service.auth import Role
from eventide.registry.service.http import NO_CONTENT, Answer, Request
from eventide.registry.service.routes import Routes

routes = Routes()


@routes.read("GET", "/contexts")
def list_contexts(catalog: Catalog, request: Request) -> Answer:
    """Every context, the default one first."""
    prefix = request.text("contextPrefix")
    found = [c for c in catalog.seen.contexts() if c.startswith(prefix)]
    return Answer(reading.page(found, request.number("offset", 0), request.number("limit", -1)))


@routes.write("DELETE", "/contexts/{context}", "delete_context", role=Role.READ)
def remove_context(catalog: Catalog, request: Request) -> Answer:
    """Take an empty context off the list. Its ids stay used up: one that comes back goes on counting."""
    prefix = _prefix(request.params["context"])
    require(request, Role.ADMIN, prefix)
    if catalog.session.has_subject(prefix or ":.:", deleted=True):
        raise faults.context_not_empty(prefix or ":.:")
    if catalog.session.forget_context(prefix.strip(":")):
        note(catalog, request, "delete_context", prefix, {})
    return Answer(NO_CONTENT, 204)


def move_into_path(request: Request) -> None:
    """Rewrite a request under /contexts/{context} into the one without it."""
    if len(request.segments) < 2 or request.segments[0] != "contexts":
        return
    prefix, rest = _prefix(request.segments[1]), request.segments[2:]
    if not rest:
        if request.method == "DELETE":
            return
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


def _prefix(context: str) -> str:
    try:
        return context_prefix(context)
    except ValueError as error:
        raise faults.Fault(400, 400, str(error)) from None


def _within(prefix: str, name: str) -> str:
    return name if name.startswith((":.", EVERY_CONTEXT)) else prefix + name
