"""A pipeline as a plain value: a name, outputs over one windowed aggregation, and where its state is kept; checked where it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from eventide.definition.output import Output
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation
from eventide.errors import DefinitionError, LossWarning
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.time import show_duration
from eventide.redaction import warn_of
from eventide.sinks.base import Sink


class Settings(TypedDict, total=False):
    """The settings of a pipeline that may be left out, for who writes one and for type checkers."""

    outputs: tuple[Output, ...]
    state: str | None
    when_all_idle: str
    buckets: int | None
    generation: int
    dead_letter_sink: Sink | None
    archive: str | None
    archive_format: str


@dataclass(frozen=True)
class Pipeline:
    """What a run is given; `eventide.Pipeline` is the same with the verbs."""

    name: str
    outputs: tuple[Output, ...]
    state: str | None = None
    when_all_idle: str = "hold"
    buckets: int | None = None
    generation: int = 0
    dead_letter_sink: Sink | None = field(default=None, repr=False)
    archive: str | None = None
    """A directory that keeps every event as it arrived."""
    archive_format: str = "parquet"
    """Parquet files alone, or with a log that makes them a Delta table."""
    measure: tuple[str, ...] | None = None
    """Columns by which lateness is measured while it runs; empty: only by source and lane; None: not at all."""

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise DefinitionError(f'a pipeline is called {self.name!r}; give it a name without slashes, such as "upi-minutes".')
        if not self.outputs:
            raise DefinitionError(f'pipeline {self.name!r} has no output; add one with aggregation.to("name", sink, late=…).')
        names = [output.name for output in self.outputs]
        for name in names:
            if names.count(name) > 1:
                raise DefinitionError(f"pipeline {self.name!r} has two outputs called {name!r}; give each its own name.")
        if any(output.aggregation != self.aggregation for output in self.outputs):
            raise DefinitionError(
                f"the outputs of pipeline {self.name!r} read different aggregations; one pipeline shares one. Make a pipeline for each."
            )
        if self.when_all_idle not in ("hold", "advance"):
            raise DefinitionError(f'when_all_idle is {self.when_all_idle!r}; it must be "hold" or "advance".')
        if self.buckets is not None and self.buckets < 1:
            raise DefinitionError(f"buckets is {self.buckets}; it must be 1 or more.")
        if self.archive_format not in ("parquet", "delta"):
            raise DefinitionError(f'archive_format is {self.archive_format!r}; it must be "parquet" or "delta".')
        if self.measure:
            self.aggregation.stream.refuse_unknown(self.measure, "measure")

    @property
    def aggregation(self) -> Aggregation:
        """The aggregation that all outputs share."""
        return self.outputs[0].aggregation

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where its events come from."""
        return self.aggregation.stream.sources

    def plan(self, generation: int = 0) -> Plan:
        """What it means, without sources and sinks."""
        return Plan(
            sources=tuple(SourcePlan(s.watermark, (), s.idle_after) for s in self.sources),
            window=self.aggregation.window,
            aggregates=self.aggregation.aggregates,
            outputs=tuple(OutputPlan(o.name, o.late.allowed, o.accumulation, o.early, o.late_firing) for o in self.outputs),
            dedupe_within=self.aggregation.stream.dedupe_within,
            when_all_idle=self.when_all_idle,
            generation=generation,
        )

    def output(self, name: str | None = None) -> Output:
        """One of its outputs by name; without one, the first."""
        if name is None:
            return self.outputs[0]
        for output in self.outputs:
            if output.name == name:
                return output
        raise DefinitionError(
            f"pipeline {self.name!r} has no output {name!r}. It has {', '.join(o.name for o in self.outputs)}."
        )

    def explain(self) -> str:
        """What it does, in words."""
        aggregation = self.aggregation
        lines = [f"pipeline {self.name}"]
        for source in self.sources:
            idle = f", idle after {show_duration(source.idle_after)}" if source.idle_after else ""
            lines.append(f"  reads   {source}{idle}")
        if aggregation.stream.dedupe_within:
            keys = ", ".join(aggregation.stream.dedupe_keys)
            lines.append(f"  keeps   the first of equal {keys} within {show_duration(aggregation.stream.dedupe_within)}")
        by = f" by {', '.join(aggregation.keys)}" if aggregation.keys else ""
        lines.append(f"  cuts    {aggregation.window}{by}")
        lines.append(
            "  computes " + ", ".join(f"{name} = {what.kind}({what.column or ''})" for name, what in aggregation.aggregates)
        )
        for output in self.outputs:
            sink = (
                "the pipeline's own tables" if output.sink is None else type(output.sink).__name__.removesuffix("Sink").lower()
            )
            lines.append(f"  gives   {output.name} to {sink}: late rows {output.late}, {output.accumulation.replace('_', ' ')}")
        return "\n".join(lines)


def warn_of_idleness(pipeline: Pipeline) -> None:
    """The classic silent loss: a lane that comes back after idle_after finds its windows gone."""
    for source in pipeline.sources:
        for output in pipeline.outputs:
            if source.idle_after is not None and source.idle_after > output.late.allowed and output.late.may_lose_rows:
                warn_of(
                    f"source {source.name!r} may fall idle after {show_duration(source.idle_after)}, but output {output.name!r} allows only "
                    f"{show_duration(output.late.allowed)}: what a lane brings when it comes back is dropped, up to "
                    f"{show_duration(source.idle_after - output.late.allowed)} of it. Allow as much as idle_after, or divert(…) the rows.",
                    LossWarning,
                )
