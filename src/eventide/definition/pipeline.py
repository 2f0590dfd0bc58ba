"""A pipeline as a plain value: a name, outputs over windowed aggregations of one stream, and where its state is kept; checked where it is written."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Self, TypedDict

from eventide.definition.join import Join
from eventide.definition.output import Audit, Output, dead_letter_log, late_log
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation, Stream
from eventide.errors import DefinitionError, LossWarning
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.time import Duration, duration, show_duration
from eventide.model.view import WHOLE
from eventide.redaction import warn_of
from eventide.sinks.base import PlacedSink, Sink


class Settings(TypedDict, total=False):
    """The settings of a pipeline that may be left out, for who writes one and for type checkers."""

    outputs: tuple[Output, ...]
    audits: tuple[Audit, ...]
    state: str | None
    when_all_idle: str
    buckets: int | None
    generation: int
    dead_letter_sink: Sink | None
    archive: str | None
    archive_format: str
    keep: Duration | None


@dataclass(frozen=True)
class Pipeline:
    """What a run is given; `eventide.Pipeline` is the same with the verbs."""

    name: str
    outputs: tuple[Output, ...]
    state: str | None = None
    """The directory of all that a run remembers; without one it can be tested, and not run."""
    when_all_idle: str = "hold"
    """What W does while every lane is idle: "hold", or "advance" with the clock."""
    buckets: int | None = None
    """Into how many parts the keys are shared out; None: one for each core that Spark has, 64 at most."""
    generation: int = 0
    """Its results outrank those of every earlier one; a fresh state takes one above all that it finds."""
    dead_letter_sink: Sink | None = field(default=None, repr=False)
    """Where dead letters go beside the state; a pipeline is given it as `dead_letters`."""
    archive: str | None = None
    """A directory that keeps every event as it arrived."""
    archive_format: str = "parquet"
    """Parquet files alone, or with a log that makes them a Delta table."""
    measure: tuple[str, ...] | None = None
    """Columns by which lateness is measured while it runs; empty: only by source and lane; None: not at all."""
    audits: tuple[Audit, ...] = ()
    """Outputs that take the events themselves."""
    keep: Duration | None = None
    """For how long the state keeps panes, late rows, dead letters and events as tables for people; None: for ever."""

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise DefinitionError(f'a pipeline is called {self.name!r}; give it a name without slashes, such as "upi-minutes".')
        if not self.outputs:
            raise DefinitionError(f'pipeline {self.name!r} has no output; add one with aggregation.to("name", sink, late=…).')
        names = [*(output.name for output in self.outputs), *(audit.name for audit in self.audits)]
        for name in names:
            if names.count(name) > 1:
                raise DefinitionError(f"pipeline {self.name!r} has two outputs called {name!r}; give each its own name.")
        logs = {dead_letter_log(self.name), *(late_log(o.name) for o in self.outputs if o.late.refused is not None)}
        for audit in self.audits:
            if audit.name in logs:
                raise DefinitionError(
                    f"the events of pipeline {self.name!r} are called {audit.name!r}, as other rows of it are called in sinks: in one table the "
                    "second of two equal places would be taken for the first come again, and lost. Give them another name."
                )
        self._check_places()
        self._check_join()
        read = {**{o.name: o.aggregation.stream for o in self.outputs}, **{audit.name: audit.stream for audit in self.audits}}
        for name, stream in read.items():
            if stream != self.stream:
                raise DefinitionError(
                    f"the outputs {self.outputs[0].name!r} and {name!r} of pipeline {self.name!r} read different streams, which have no one "
                    "watermark: all aggregations of a pipeline read the same sources with the same dedupe(…). Make a pipeline for each."
                )
        if self.when_all_idle not in ("hold", "advance"):
            raise DefinitionError(f'when_all_idle is {self.when_all_idle!r}; it must be "hold" or "advance".')
        if self.buckets is not None and self.buckets < 1:
            raise DefinitionError(f"buckets is {self.buckets}; it must be 1 or more.")
        if self.archive_format not in ("parquet", "delta"):
            raise DefinitionError(f'archive_format is {self.archive_format!r}; it must be "parquet" or "delta".')
        if self.keep is not None:
            duration(self.keep, what="keep")
        if self.measure:
            self.stream.refuse_unknown(self.measure, "measure")

    def _check_places(self) -> None:
        """Two outputs in one table would be taken for one that comes twice: of equal windows, or equal rows, one would be lost."""
        wanted: list[tuple[str, Sink | None]] = [(output.name, output.sink) for output in self.outputs]
        wanted += [
            (late_log(output.name), output.late.refused.to) for output in self.outputs if output.late.refused is not None
        ]
        wanted += [*((audit.name, audit.sink) for audit in self.audits), (dead_letter_log(self.name), self.dead_letter_sink)]
        there: dict[Hashable, str] = {}
        for name, sink in wanted:
            if not isinstance(sink, PlacedSink):
                continue
            other = there.setdefault(sink.place(name), name)
            if other != name:
                raise DefinitionError(
                    f"pipeline {self.name!r}: {other!r} and {name!r} would stand in one place, {sink!r}, where a result or a row of one is taken "
                    "for one of the other that comes again, and is lost. Give each its own table, key or path."
                )

    def _check_join(self) -> None:
        """All that a pipeline with a join gives are its pairs: alone, what reads one side would not wait for the other."""
        if self.join is None:
            return
        for output in self.outputs:
            over = output.aggregation.joined
            if over != self.join:
                what = "windows over one stream" if over is None else "another join"
                raise DefinitionError(
                    f"pipeline {self.name!r}: the output {output.name!r} reads {what}, beside the {self.join}. Alone it would not wait for both "
                    "sides of this join. Make another pipeline for it."
                )
        if self.audits:
            raise DefinitionError(
                f"pipeline {self.name!r}: the output {self.audits[0].name!r} takes the events of a stream that is joined, which is not done yet: "
                "it would miss them. Make another pipeline for it, or give the pipeline an archive, which keeps every event."
            )

    @property
    def join(self) -> Join | None:
        """The join of two streams that its outputs read, if they read one."""
        joins = (output.aggregation.joined for output in self.outputs)
        return next((join for join in joins if join is not None), None)

    def refuse_join(self, what: str) -> None:
        """Say that something is done with windows, of which a join has none."""
        if self.join is not None:
            raise DefinitionError(
                f"pipeline {self.name!r} gives the pairs of a join, which have no windows, and {what} is done window by window."
            )

    @property
    def keeps_for(self) -> int | None:
        """`keep` in microseconds."""
        return None if self.keep is None else duration(self.keep, what="keep")

    @property
    def stream(self) -> Stream:
        """The events that all its aggregations read, once."""
        return self.outputs[0].aggregation.stream

    @property
    def aggregations(self) -> tuple[Aggregation | Join, ...]:
        """What its outputs and stages read of the stream, in the order in which outputs name it. A join stands before windows over it."""
        first: list[Aggregation | Join] = [] if self.join is None else [self.join]
        return (*first, *(one for one in self._chains if one.over is None and one not in first))

    @property
    def stages(self) -> tuple[Aggregation, ...]:
        """Its aggregations over results of others, each after what it reads."""
        return tuple(one for one in self._chains if not isinstance(one, Join) and one.over is not None)

    @property
    def _chains(self) -> list[Aggregation | Join]:
        found: list[Aggregation | Join] = []
        for output in self.outputs:
            found += [one for one in (*output.aggregation.below, output.aggregation) if one not in found]
        return found

    @property
    def aggregation(self) -> Aggregation | Join:
        """What its first output reads of the stream, by itself or by way of stages."""
        first = self.outputs[0].aggregation
        return next(iter(first.below), first)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where its events come from."""
        return self.stream.sources

    def plan(self, generation: int = 0, aggregation: Aggregation | Join | None = None) -> Plan:
        """What one of its aggregations (the first, unless said) means, without sources and sinks."""
        of = aggregation or self.aggregation
        read = [output for output in self.outputs if output.aggregation == of]
        return Plan(
            sources=tuple(SourcePlan(s.watermark, (), s.idle_after) for s in self.sources),
            window=of.grid,
            aggregates=of.aggregates,
            outputs=tuple(OutputPlan(o.name, o.late.allowed, o.accumulation, o.early, o.late_firing, o.view) for o in read),
            dedupe_within=self.stream.dedupe_within,
            when_all_idle=self.when_all_idle,
            generation=generation,
            keys=of.keys,
        )

    def around(self, output: Output) -> Self:
        """The same pipeline with the outputs alone that read the aggregation of one of them."""
        return replace(self, outputs=tuple(o for o in self.outputs if o.aggregation == output.aggregation))

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
        lines = [f"pipeline {self.name}"]
        for source in self.sources:
            idle = f", idle after {show_duration(source.idle_after)}" if source.idle_after else ""
            lines.append(f"  reads   {source}{idle}")
        if self.stream.dedupe_within:
            keys = ", ".join(self.stream.dedupe_keys)
            lines.append(f"  keeps   the first of equal {keys} within {show_duration(self.stream.dedupe_within)}")
        for aggregation in (*self.aggregations, *self.stages):
            if isinstance(aggregation, Join):
                lines.append(f"  pairs   {aggregation}")
                lines += [_gives(output) for output in self.outputs if output.aggregation == aggregation]
                continue
            lines.append(_cuts(aggregation))
            lines.append("  computes " + ", ".join(f"{name} = {what.written}" for name, what in aggregation.aggregates))
            lines += [_gives(output) for output in self.outputs if output.aggregation == aggregation]
        lines += [f"  gives   {audit.name} to {_sink(audit.sink)}: every event that is judged" for audit in self.audits]
        return "\n".join(lines)


def _cuts(aggregation: Aggregation) -> str:
    by = f" by {', '.join(aggregation.keys)}" if aggregation.keys else ""
    if aggregation.over is None:
        return f"  cuts    {aggregation.window}{by}"
    over = aggregation.over
    view = "" if over.view == WHOLE else f" {over.view}"
    return f"  cuts    {aggregation.window}{by}, of the results of {over.aggregation.window}{view}: late rows {over.late}"


def _gives(output: Output) -> str:
    view = "" if output.view == WHOLE else f" {output.view},"
    return f"  gives   {output.name}{view} to {_sink(output.sink)}: late rows {output.late}, {output.accumulation.replace('_', ' ')}"


def _sink(sink: Sink | None) -> str:
    return "the pipeline's own tables" if sink is None else type(sink).__name__.removesuffix("Sink").lower()


def warn_of_idleness(pipeline: Pipeline) -> None:
    """The classic silent loss: a lane that comes back after idle_after finds its windows gone."""
    for source in pipeline.sources:
        for output in pipeline.outputs:
            read = [one.over.late.allowed for one in (*output.aggregation.below, output.aggregation) if one.over is not None]
            allowed = min(output.late.allowed, *read) if read else output.late.allowed
            if source.idle_after is not None and source.idle_after > allowed and output.late.may_lose_rows:
                warn_of(
                    f"source {source.name!r} may fall idle after {show_duration(source.idle_after)}, but output {output.name!r} allows only "
                    f"{show_duration(allowed)}: what a lane brings when it comes back is dropped, up to "
                    f"{show_duration(source.idle_after - allowed)} of it. Allow as much as idle_after, or divert(…) the rows.",
                    LossWarning,
                )
