"""A run told to OpenLineage: what it reads, what it writes, which columns are made of which, and how it ends."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from eventide.definition.output import dead_letter_log, late_log
from eventide.engine.following import Follower
from eventide.errors import DefinitionError
from eventide.model.time import show_instant
from eventide.redaction import masked
from eventide.telemetry.columns import END, START, Origin, lineage
from eventide.telemetry.datasets import Dataset, at, read_from, written_to
from eventide.telemetry.post import Event, Post

if TYPE_CHECKING:
    from eventide.engine.report import BatchReport
    from eventide.engine.run import Run

VERSION = version("eventide")
PRODUCER = f"https://pypi.org/project/eventide/{VERSION}/"
SPEC = "https://openlineage.io/spec"
EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = {
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet", "documentation": "1-1-0/DocumentationJobFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet", "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "jobType": "2-0-4/JobTypeJobFacet", "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet", "schema": "1-2-0/SchemaDatasetFacet",
}  # fmt: skip
"""The versions of the schemas that facets are written by."""
EVERY = 60.0
"""Seconds between two events of a run that goes on."""
LONGEST = 10_000
"""Signs of an error that are told."""
Json = dict[str, object]


class Letterbox(Protocol):
    """Takes events."""

    def send(self, event: Event) -> None:
        """Put an event on its way."""

    def flush(self) -> bool:
        """Wait until everything is on its way."""


def facet(name: str, /, **facts: object) -> Json:
    """One facet under its name.

    >>> facet("outputStatistics", rowCount=3)["outputStatistics"]["_schemaURL"]
    'https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json'
    """
    return {name: {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{FACETS[name]}.json", **facts}}


@dataclass
class Told:
    """One run on the way."""

    run: Run
    namespace: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    said: float = 0.0
    before: BatchReport | None = None
    """The account that it began with: what earlier runs did is not told again."""

    def event(self, kind: str, report: BatchReport | None, at_time: int, **run_facets: object) -> Event:
        """An event, with all that is known by now."""
        spark = facet("processing_engine", name="Spark", version=_spark(), openlineageAdapterVersion=VERSION)
        pipeline = self.run.pipeline
        job = facet("jobType", processingType="STREAMING", integration="EVENTIDE", jobType="PIPELINE")
        job |= facet("documentation", description=masked(pipeline.explain()))
        return {
            "eventType": kind,
            "eventTime": show_instant(at_time),
            "producer": PRODUCER,
            "schemaURL": EVENT,
            "run": {"runId": self.id, "facets": {**spark, **run_facets}},
            "job": {"namespace": self.namespace, "name": pipeline.name, "facets": job},
            "inputs": list(self._inputs(report)),
            "outputs": list(self._outputs(report)),
        }

    def _named(self, name: str) -> Dataset:
        """Of what has no address that everybody knows it by."""
        return Dataset(self.namespace, f"{self.run.pipeline.name}.{name}")

    @cached_property
    def _sources(self) -> dict[str, list[Dataset]]:
        return {source.name: read_from(source) or [self._named(source.name)] for source in self.run.pipeline.sources}

    def _inputs(self, report: BatchReport | None) -> Iterator[Json]:
        read = {} if report is None else {source.name: source.rows for source in report.sources}
        earlier = {} if self.before is None else {source.name: source.rows for source in self.before.sources}
        for source in self.run.pipeline.sources:
            kinds = source.column_types or dict.fromkeys(source.columns or ())
            facets = _schema(kinds.items()) if kinds else {}
            places = self._sources[source.name]
            counted = len(places) == 1 and source.name in read  # of several topics together nobody counted them apart
            rows = facet("inputStatistics", rowCount=read[source.name] - earlier.get(source.name, 0)) if counted else {}
            for place in places:
                yield {**place._asdict(), "facets": facets, "inputFacets": rows}

    def _outputs(self, report: BatchReport | None) -> Iterator[Json]:
        for output in self.run.pipeline.outputs:
            shape, counts = self.run.shapes[output.name], {} if report is None else report.outputs[output.name]
            earlier = {} if self.before is None else self.before.outputs.get(output.name, {})
            columns = [(name, "timestamp") for name in (START, END)] + [(n, str(k)) for n, k in (*shape.keys, *shape.values)]
            place = self._own(f"panes/{output.name}") if output.sink is None else written_to(output.sink, output.name)
            facets = {**_schema(columns), **self._columns(output.name)}
            stated = (
                {} if report is None else facet("outputStatistics", rowCount=counts.get("panes", 0) - earlier.get("panes", 0))
            )
            yield {**(place or self._named(output.name))._asdict(), "facets": facets, "outputFacets": stated}
            if output.late.refused is not None:
                to = output.late.refused.to
                yield self._log(
                    late_log(output.name),
                    self._own(f"late/{output.name}") if to is None else written_to(to, late_log(output.name)),
                )
        for audit in self.run.pipeline.audits:
            yield self._log(audit.name, self._own("audit") if audit.sink is None else written_to(audit.sink, audit.name))
        dead, name = self.run.pipeline.dead_letter_sink, dead_letter_log(self.run.pipeline.name)
        if dead is not None:
            yield self._log(name, written_to(dead, name))

    def _log(self, name: str, place: Dataset | None) -> Json:
        return {**(place or self._named(name))._asdict(), "facets": {}, "outputFacets": {}}

    def _own(self, table: str) -> Dataset:
        return at(self.run.state, table)

    def _columns(self, name: str) -> Json:
        join = self.run.shape.join
        pairs = () if join is None else join.bound.columns
        made = lineage(self.run.pipeline, self.run.pipeline.output(name), pairs)
        if made is None:
            return {}
        fields = {column: {"inputFields": self._fields(origins)} for column, origins in made.columns.items() if origins}
        return facet("columnLineage", fields=fields, dataset=self._fields(made.decided))

    def _fields(self, origins: Iterable[Origin]) -> list[Json]:
        ways: dict[tuple[Dataset, str], set[tuple[str, str]]] = {}
        for one in origins:
            for place in self._sources[one.source]:
                ways.setdefault((place, one.column), set()).add(one.how)
        return [
            {
                **place._asdict(),
                "field": column,
                "transformations": [{"type": kind, "subtype": how} for kind, how in sorted(done)],
            }
            for (place, column), done in sorted(ways.items())
        ]


def _schema(columns: Iterable[tuple[str, str | None]]) -> Json:
    told = [{"name": name, **({} if kind is None else {"type": kind})} for name, kind in columns]
    return facet("schema", fields=told)


def _spark() -> str:
    import pyspark

    return str(pyspark.__version__)


class OpenLineage(Follower):
    """Follows runs; see `openlineage`."""

    def __init__(self, post: Letterbox, namespace: str, clock: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self.post, self.namespace, self.clock = post, namespace, clock
        self._told: dict[str, Told] = {}

    def opened(self, run: Run) -> None:
        told = Told(run, self.namespace, before=run.progress)
        self._told[run.state] = told
        self._say(told, "START", None)

    @contextmanager
    def batch(self, run: Run, number: int) -> Iterator[_Batch]:
        yield _Batch(self, self._told[run.state])

    def closed(self, run: Run, fault: BaseException | None) -> None:
        told = self._told.pop(run.state)
        done = run.progress if run.progress is not told.before else None
        if fault is None:
            self._say(told, "COMPLETE", done)
        elif not isinstance(fault, Exception):
            self._say(told, "ABORT", done)
        else:
            said = masked(f"{type(fault).__name__}: {fault}")[:LONGEST]
            self._say(told, "FAIL", done, **facet("errorMessage", message=said, programmingLanguage="PYTHON"))
        self.post.flush()

    def went_on(self, told: Told, report: BatchReport) -> None:
        """After a batch: now and then an event with what was read and written so far."""
        if time.monotonic() - told.said >= EVERY:
            self._say(told, "RUNNING", report)

    def _say(self, told: Told, kind: str, report: BatchReport | None, **facets: object) -> None:
        told.said = time.monotonic()
        self.post.send(told.event(kind, report, self.clock(), **facets))


@dataclass
class _Batch:
    follower: OpenLineage
    told: Told

    def stage(self, point: str) -> None:
        """Lineage knows batches, not their stages."""

    def committed(self, report: BatchReport) -> None:
        self.follower.went_on(self.told, report)


def openlineage(url: str | None = None, *, namespace: str | None = None, api_key: str | None = None) -> OpenLineage:
    """Tell runs to a server of OpenLineage (Marquez, DataHub and others): `pipeline.start(spark, follow=[ev.openlineage("http://…")])`.

    What is left out is taken from OPENLINEAGE_URL, OPENLINEAGE_NAMESPACE ("default"), OPENLINEAGE_API_KEY and OPENLINEAGE_ENDPOINT
    ("api/v1/lineage").

    >>> openlineage("http://marquez:5000", namespace="payments").namespace
    'payments'
    """
    key = api_key or os.environ.get("OPENLINEAGE_API_KEY")
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return OpenLineage(Post(address(url), headers), namespace or os.environ.get("OPENLINEAGE_NAMESPACE", "default"))


def address(url: str | None) -> str:
    """Where events go."""
    where = url or os.environ.get("OPENLINEAGE_URL", "")
    if urlsplit(where).scheme not in ("http", "https"):
        raise DefinitionError(
            f'openlineage({masked(where)!r}): give the address of a server, such as "http://localhost:5000", here or as OPENLINEAGE_URL.'
        )
    endpoint = os.environ.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage")
    return f"{where.rstrip('/')}/{endpoint.lstrip('/')}"


__all__ = ["OpenLineage", "address", "openlineage"]
