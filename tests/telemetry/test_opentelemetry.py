"""Runs told to OpenTelemetry: a span for each batch with its stages, the metrics of /metrics, and nothing where nobody listens."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.cli.stated import BATCHES, defined, ran
from tests.telemetry.collector import Collector

import eventide as ev
from eventide.cli.following import Heard
from eventide.cli.loading import load
from eventide.cli.main import main
from eventide.dashboard.metrics import metrics, of_process
from eventide.dashboard.watched import Place, Watched
from eventide.errors import DefinitionError, SinkRefused
from eventide.telemetry.opentelemetry import named

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

STAGES = ["begin", "scan", "store", "begun", "deliver", "commit", "evict"]


class Collected:
    """What a collector would have been told."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.follower = ev.opentelemetry(tracers, MeterProvider([self.reader]))

    @property
    def batches(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.parent is None]

    def below(self, span: ReadableSpan) -> list[ReadableSpan]:
        return [one for one in self.exporter.get_finished_spans() if one.parent and one.parent.span_id == span.context.span_id]

    def points(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return {one.name: {frozenset(p.attributes.items()): p.value for p in one.data.data_points} for one in found}


def test_a_batch_is_a_span_and_its_stages_are_spans_below_it(tmp_path: Path) -> None:
    told = Collected()
    ran(defined(tmp_path), BATCHES, [80, 140], follow=[told.follower])
    first, second = told.batches
    assert (first.name, first.attributes["eventide.batch"], second.attributes["eventide.batch"]) == ("p batch", 0, 1)
    assert (
        second.attributes["eventide.watermark"] == "2026-09-21T14:14:25Z"
        and second.attributes["eventide.holder"] == "rows/south"
    )
    assert second.attributes["eventide.rows_total"] == 6
    for span in (first, second):
        stages = told.below(span)
        assert [one.name for one in stages] == [f"stage {point}" for point in STAGES]
        assert span.start_time <= stages[0].start_time and stages[-1].end_time <= span.end_time
        assert all(one.end_time == after.start_time for one, after in itertools.pairwise(stages))
        assert span.status.status_code is StatusCode.UNSET


def test_what_killed_a_batch_is_on_its_span_without_passwords(tmp_path: Path) -> None:
    told = Collected()

    def fail(point: str) -> None:
        if point == "store":
            raise SinkRefused("no rights at postgresql://me:secret@db/upi")

    with pytest.raises(SinkRefused):
        ran(defined(tmp_path), BATCHES[:1], [80], follow=[told.follower], hook=fail)
    [span] = told.batches
    assert span.status.status_code is StatusCode.ERROR and "no rights" in span.status.description
    assert span.attributes["error.type"] == "SinkRefused" and "secret" not in span.to_json()
    assert [one.name for one in told.below(span)] == ["stage begin", "stage scan", "stage store"]


def test_metrics_are_those_that_prometheus_is_told(tmp_path: Path) -> None:
    told = Collected()
    seen: dict[str, Any] = {}
    ran(
        defined(tmp_path),
        BATCHES,
        [80, 140],
        follow=[told.follower],
        heard=lambda report: report.batch and seen.update(told.points()),
    )
    watched = Watched(Place(str(tmp_path / "state"), "p"), pictures=False)
    watched.look()
    scraped = {name: samples for name, _, _, samples in (*metrics([watched.facts], 0.0), of_process(["p"])) if samples}
    assert {named(name)[0] for name in scraped} == set(seen) and len(scraped) > 15
    gone_on = {"up", "watermark_lag_seconds", "state_bytes", "state_files"}  # the run is over by now, and time goes on
    for name in scraped.keys() - gone_on:
        assert {frozenset(labels.items()): value for labels, value in scraped[name]} == seen[named(name)[0]]
    assert set(told.points()["eventide.up"].values()) == {0.0}, "what a run came to is told once more when it is over"


def test_without_a_provider_nothing_is_told_and_nothing_is_different(tmp_path: Path) -> None:
    said = ran(defined(tmp_path), BATCHES, [80, 140], follow=[ev.opentelemetry()])
    assert said[-1].rows["in"] == 6


def test_the_command_line_sends_to_the_collector_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    file = defined(tmp_path)
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with Heard(otel=True).opened(load(str(file)), Console(file=io.StringIO())) as follow:
            ran(file, BATCHES, [80, 140], follow=follow)
    [request, *_] = [ExportTraceServiceRequest.FromString(body) for body in collector.posted("/v1/traces")]
    [resource] = request.resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "p"
    assert "p batch" in {span.name for scope in resource.scope_spans for span in scope.spans}
    assert [ExportMetricsServiceRequest.FromString(body) for body in collector.posted("/v1/metrics")]


@pytest.mark.parametrize(("name", "value"), [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_TRACES_EXPORTER", "zipkin")])
def test_what_the_exporter_cannot_do_is_refused_before_spark_starts(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DefinitionError, match=f"{name} is '{value}'"):
        Heard(otel=True).refuse()
    asked = CliRunner().invoke(main, ["run", str(defined(tmp_path)), "--otel"])
    assert asked.exit_code == 2 and name in asked.output
