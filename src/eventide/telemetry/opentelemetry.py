"""A run told to OpenTelemetry: each batch a span, its stages spans below it, and the metrics of `/metrics`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventide.dashboard.metrics import metrics, of_process
from eventide.dashboard.watched import Place, Watched
from eventide.engine.following import Follower
from eventide.errors import DefinitionError
from eventide.model.time import show_instant
from eventide.redaction import masked
from eventide.served import Sample

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from eventide.engine.report import BatchReport
    from eventide.engine.run import Run

LONGEST = 1_000
"""Signs of an error that a span carries."""
LOOK_EVERY = 1.0
"""Seconds for which one look at the states answers: instruments are asked one after the other."""
UNITS = {"_seconds": "s", "_bytes": "By"}
"""Names end with their unit in Prometheus, and have it beside them in OpenTelemetry; on the way from there to Prometheus it comes back."""


def named(name: str) -> tuple[str, str]:
    """A metric's name and unit, by the name that it has in Prometheus.

    >>> named("watermark_lag_seconds"), named("rows_total"), named("state_files")
    (('eventide.watermark_lag', 's'), ('eventide.rows', ''), ('eventide.state_files', ''))
    """
    ending = next((ending for ending in UNITS if name.endswith(ending)), "")
    return f"eventide.{name.removesuffix(ending).removesuffix('_total')}", UNITS.get(ending, "")


class OpenTelemetry(Follower):
    """Follows runs; see `opentelemetry`."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        try:
            from opentelemetry import metrics as api
            from opentelemetry import trace
        except ImportError as error:
            raise DefinitionError("OpenTelemetry is not installed: pip install 'eventide[opentelemetry]'.") from error
        self._tracer: Tracer = trace.get_tracer("eventide", tracer_provider=tracers)
        self._watched: dict[str, Watched] = {}
        self._over: set[str] = set()
        self._looking = threading.Lock()
        self._looked = float("-inf")
        self._samples: dict[str, list[Sample]] = {}
        self._instruments(api.get_meter("eventide", meter_provider=meters))

    def _instruments(self, meter: Meter) -> None:
        for name, kind, told, _ in (*metrics([], 0.0), of_process([])):
            made = meter.create_observable_counter if kind == "counter" else meter.create_observable_gauge
            known, unit = named(name)
            made(known, [self._observed(name)], unit=unit, description=told)

    def _observed(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, dict(labels)) for labels, value in self._now().get(name, [])]

        return observe

    def _now(self) -> dict[str, list[Sample]]:
        """Every metric of the runs at work, as their states say them; of one that is over, once more."""
        with self._looking:
            if time.monotonic() - self._looked >= LOOK_EVERY:
                watched = list(self._watched.values())
                for one in watched:
                    one.look()
                facts = [one.facts for one in watched if one.facts]
                told = (*metrics(facts, time.time()), of_process([one.place.name for one in watched]))
                self._samples = {name: samples for name, _, _, samples in told}
                self._looked = time.monotonic()
                for state in self._over:
                    del self._watched[state]
                self._over.clear()
            return self._samples

    def opened(self, run: Run) -> None:
        with self._looking:
            self._watched[run.state] = Watched(Place(run.state, run.pipeline.name), pictures=False)
            self._over.discard(run.state)
            self._looked = float("-inf")

    @contextmanager
    def batch(self, run: Run, number: int) -> Iterator[BatchSpan]:
        """The batch's span is the current one meanwhile: what sinks' own clients tell stands below it, and logs can name it."""
        known = {
            "eventide.pipeline": run.pipeline.name, "eventide.state": masked(run.state), "eventide.generation": run.generation,
            "eventide.batch": number,
        }  # fmt: skip
        with self._tracer.start_as_current_span(
            f"{run.pipeline.name} batch", attributes=known, record_exception=False, set_status_on_exception=False
        ) as span:  # what went wrong may hold a password, so it is told below
            try:
                yield BatchSpan(self._tracer, span)
            except BaseException as error:
                _failed(span, error)
                raise

    def closed(self, run: Run, fault: BaseException | None) -> None:
        with self._looking:
            self._over.add(run.state)
            self._looked = float("-inf")


class BatchSpan:
    """The span of a batch, and those of its stages below it."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer, self._span = tracer, span
        self._since = time.time_ns()

    def stage(self, point: str) -> None:
        """A span from the end of the stage before to now."""
        now = time.time_ns()
        self._tracer.start_span(f"stage {point}", start_time=self._since).end(now)
        self._since = now

    def committed(self, report: BatchReport) -> None:
        """What came of the batch, on its span."""
        facts: dict[str, str | int] = {
            "eventide.clock": show_instant(report.clock), "eventide.watermark": show_instant(report.watermark),
            "eventide.rows_total": report.rows.get("in", 0),
        }  # fmt: skip
        facts |= {} if report.held_by is None else {"eventide.holder": report.held_by}
        self._span.set_attributes(facts)


def _failed(span: Span, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, masked(str(error))[:LONGEST]))


def opentelemetry(tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> OpenTelemetry:
    """Tell runs to OpenTelemetry: `pipeline.start(spark, follow=[ev.opentelemetry()])`.

    Spans and metrics go to these providers, or to those that the process has set (`opentelemetry-instrument`, or the SDK); without any
    they go nowhere, and cost next to nothing. Make one for each process: a second one on the same provider would count everything twice.
    """
    return OpenTelemetry(tracers, meters)


__all__ = ["BatchSpan", "OpenTelemetry", "named", "opentelemetry"]
