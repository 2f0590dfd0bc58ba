"""Who hears of `eventide run`: a scrape of Prometheus, a collector of OpenTelemetry, a server of OpenLineage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from rich.console import Console

from eventide.cli.faults import Refused
from eventide.errors import DefinitionError

if TYPE_CHECKING:
    from eventide.engine.following import Follower
    from eventide.pipeline import Pipeline
    from eventide.telemetry.opentelemetry import OpenTelemetry

ONLY = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp"}
"""What the exporters behind --otel can do; another value is refused rather than passed over."""
EXPORTERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.exporter.otlp.proto.http.metric_exporter")


@dataclass(frozen=True)
class Heard:
    """What the options of a run say."""

    metrics: int | None = None
    """The port for Prometheus."""
    otel: bool = False
    lineage: str | None = None
    """Where an OpenLineage server is."""

    def refuse(self) -> None:
        """Refuse what could not be told, before Spark is started."""
        if self.lineage is not None:
            from eventide.telemetry.openlineage import address

            address(self.lineage)
        for name, able in ONLY.items() if self.otel else ():
            if os.environ.get(name, able) != able:
                raise DefinitionError(f"{name} is {os.environ[name]!r}; --otel sends {able} only. Leave it out, or say that.")
        if self.otel:
            try:
                for module in EXPORTERS:
                    import_module(module)
            except ImportError as error:
                raise DefinitionError(f"--otel: {error}. Install it: pip install 'eventide[opentelemetry]'.") from error

    @contextmanager
    def opened(self, pipeline: Pipeline, console: Console) -> Iterator[list[Follower]]:
        """Those who follow the run, until it is over: then what they have not sent yet is sent."""
        self.refuse()
        with ExitStack() as stack:
            if self.metrics is not None and pipeline.state is not None:
                self._scraped(stack, self.metrics, pipeline.state, pipeline.name, console)
            follow: list[Follower] = []
            if self.otel:
                follow.append(stack.enter_context(_collected(pipeline.name)))
            if self.lineage is not None:
                from eventide.telemetry.openlineage import openlineage

                follow.append(openlineage(self.lineage))
            yield follow

    def _scraped(self, stack: ExitStack, port: int, state: str, name: str, console: Console) -> None:
        """A port that is taken is told before a row is read."""
        from eventide.dashboard.scrape import HOST, Scrape
        from eventide.dashboard.watched import Place

        try:
            scrape = Scrape(port, Place(state, name))
        except OSError as error:
            raise Refused(f"--metrics {port}: {error}. Take another port; 0 takes a free one.") from error
        console.print(f"metrics at http://{HOST}:{scrape.server_port}/metrics", style="dim")
        stack.enter_context(scrape)


NOBODY = Heard()


@contextmanager
def _collected(name: str) -> Iterator[OpenTelemetry]:
    """Spans and metrics to the collector that the environment names, as every program with OpenTelemetry's SDK sends them."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from eventide.telemetry.opentelemetry import opentelemetry

    named = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: name})
    tracers, meters = (
        TracerProvider(resource=named),
        MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], named),
    )
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield opentelemetry(tracers, meters)
    finally:
        tracers.shutdown()
        meters.shutdown()


__all__ = ["NOBODY", "Heard"]
