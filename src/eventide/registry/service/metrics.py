"""/metrics: what the service did and has, for Prometheus; under the names of Confluent's dashboards, and under ours."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from eventide.registry.catalog import Catalog
from eventide.registry.service.access import require
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Answer, RawAnswer, Request
from eventide.registry.service.routes import Routes
from eventide.served import MEDIA, metric, sample

PATH = b"/metrics"
_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; requests that took longer than the last are only in the count."""


class Metrics:
    """What this process has answered since it started. Noted on the event loop, read from any thread."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._refusals: Counter[int] = Counter()
        self._slots: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.routes = Routes()
        self.routes.read("GET", "/metrics")(self._show)

    def note(self, method: str, route: str, status: int, seconds: float, refusal: int | None = None) -> None:
        """One request was answered; `refusal` is the error code if it was refused."""
        self._requests[method, route, status] += 1
        slots = self._slots.get(route)
        if slots is None:
            slots = self._slots[route] = [0] * (len(_BOUNDS) + 1)
        slots[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]  # a Counter adds any numbers
        if refusal is not None:
            self._refusals[refusal] += 1

    def _show(self, catalog: Catalog, request: Request) -> Answer:
        """Everything, in Prometheus's text format; counts of all subjects, so only for who may read all of them."""
        require(request, Role.READ, "")
        answer = RawAnswer("".join((*self._confluent(catalog), *self._ours(catalog))))
        answer.media = MEDIA.encode()
        return answer

    def _confluent(self, catalog: Catalog) -> Iterator[str]:
        counts = catalog.session.kind_counts()
        requests = list(self._requests.items())
        good = sum(n for (_, _, status), n in requests if status < 400)
        live, gone = (sum(n for (_, deleted), n in counts.items() if deleted is which) for which in (False, True))
        name = "kafka_schema_registry_"
        yield from metric(name + "registered_count", "gauge", "Versions of schemas that are registered.", [({}, live)])
        yield from metric(name + "deleted_count", "gauge", "Versions of schemas that are soft deleted.", [({}, gone)])
        yield from metric(name + "node_count", "gauge", "This process; each counts itself.", [({}, 1)])
        yield from metric(name + "master_slave_role", "gauge", "1: every process takes writes.", [({}, 1)])
        yield from metric(name + "api_success_count", "counter", "Requests answered.", [({}, good)])
        failed = sum(n for _, n in requests) - good
        yield from metric(name + "api_failure_count", "counter", "Requests refused or failed.", [({}, failed)])
        for what, which in (("created", False), ("deleted", True)):
            kinds = [({"schema_type": kind.lower()}, counts.get((kind, which), 0)) for kind in ("AVRO", "JSON", "PROTOBUF")]
            yield from metric(f"{name}schemas_{what}", "gauge", "By kind.", kinds)

    def _ours(self, catalog: Catalog) -> Iterator[str]:
        name = "eventide_registry_"
        yield from metric(
            name + "subjects", "gauge", "Subjects, soft deleted ones included.", [({}, catalog.session.subject_count())]
        )
        requests = sorted(self._requests.items())
        samples = [({"method": m, "route": r, "status": str(s)}, n) for (m, r, s), n in requests]
        yield from metric(name + "requests_total", "counter", "Requests by route and status.", samples)
        refusals = [({"error_code": str(code)}, n) for code, n in sorted(self._refusals.items())]
        yield from metric(name + "refusals_total", "counter", "Requests refused, by error code.", refusals)
        yield f"# HELP {name}request_seconds How long answers took.\n# TYPE {name}request_seconds histogram\n"
        for route, slots in sorted(self._slots.items()):
            yield from self._histogram(f"{name}request_seconds", route, slots)

    def _histogram(self, name: str, route: str, slots: list[int]) -> Iterator[str]:
        total = 0
        for bound, inside in zip((*map(str, _BOUNDS), "+Inf"), slots, strict=True):
            total += inside
            yield sample(f"{name}_bucket", {"route": route, "le": bound}, total)
        yield sample(f"{name}_sum", {"route": route}, self._seconds[route])
        yield sample(f"{name}_count", {"route": route}, total)
