"""The table of routes: which work answers which path, and what one must be allowed to do for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from eventide.registry import faults
from eventide.registry.catalog import Catalog
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Answer, Request

Work = Callable[[Catalog, Request], Answer]
Before = Callable[[Catalog, Request], Answer | None]


class Kind(Enum):
    """Where a route's work is done: in a consistent view, or by the one writer."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. `before` may answer from a view and spare the writer."""

    method: str
    path: tuple[str, ...]
    work: Work
    kind: Kind
    role: Role | None
    """What one must be allowed; none, if nobody has to be let in for it."""
    before: Before | None
    audited: str | None


class Routes:
    """Routes by path; a segment in braces stands for anything."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}

    def add(
        self,
        method: str,
        path: str,
        *,
        kind: Kind = Kind.READ,
        role: Role | None = Role.READ,
        before: Before | None = None,
        audited: str | None = None,
    ) -> Callable[[Work], Work]:
        """Give a path its work; to be used as a decorator."""
        segments = tuple(path.strip("/").split("/")) if path != "/" else ()

        def keep(work: Work) -> Work:
            route = Route(method, segments, work, kind, role, before, audited)
            alike = self._by_size.setdefault(len(segments), [])
            for known, methods in alike:
                if known == segments:
                    methods[method] = route
                    return work
            alike.append((segments, {method: route}))
            # Paths with fewer braces first: /schemas/types before /schemas/{anything}.
            alike.sort(key=lambda entry: sum(segment.startswith("{") for segment in entry[0]))
            return work

        return keep

    def read(self, method: str, path: str, *, role: Role | None = Role.READ) -> Callable[[Work], Work]:
        """A route that only looks."""
        return self.add(method, path, role=role)

    def write(
        self, method: str, path: str, action: str, *, role: Role = Role.WRITE, before: Before | None = None
    ) -> Callable[[Work], Work]:
        """A route that changes something; `action` is what the audit log calls it."""
        return self.add(method, path, kind=Kind.WRITE, role=role, before=before, audited=action)

    def include(self, other: Routes) -> None:
        """Take over the routes of another table."""
        for alike in other._by_size.values():
            for _, methods in alike:
                for route in methods.values():
                    self.add(
                        route.method, "/".join(route.path) or "/", kind=route.kind, role=route.role,
                        before=route.before, audited=route.audited,
                    )(route.work)  # fmt: skip

    @property
    def surface(self) -> list[tuple[str, str]]:
        """Every method and path, in order."""
        return sorted((m, "/" + "/".join(path)) for alike in self._by_size.values() for path, ms in alike for m in ms)

    def match(self, method: str, segments: list[str]) -> tuple[Route, dict[str, str]]:
        """The route for a path and what stands in its braces.

        Raises:
            Fault: 404 or 405.
        """
        for path, methods in self._by_size.get(len(segments), ()):
            if all(p == s or (p[:1] == "{" and s) for p, s in zip(path, segments, strict=True)):
                route = methods.get("GET" if method == "HEAD" else method)
                if route is None:
                    raise faults.plain(405, "Method Not Allowed")
                return route, {p[1:-1]: s for p, s in zip(path, segments, strict=True) if p[:1] == "{"}
        raise faults.plain(404, "Not Found")
