"""A pipeline: a name, outputs over one windowed aggregation, and a state directory; it runs live, catches up, or backfills."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventide.definition.output import Output, plan_of, warn_of_idleness
from eventide.definition.stream import Aggregation
from eventide.errors import DefinitionError
from eventide.model.plan import Plan
from eventide.model.time import show_duration

if TYPE_CHECKING:
    from eventide.engine.handle import Handle


@dataclass(frozen=True, init=False)
class Pipeline:
    """Declared once, it can be started, run until caught up, or run over history, and gives the same answers each time.

    >>> import eventide as ev
    >>> clicks = ev.files("clicks", "landing/", schema="ts timestamp, page string", event_time="ts", watermark=ev.bounded("30 seconds"))
    >>> pages = clicks.window(ev.tumbling("1 minute"), by="page").agg(n=ev.count())
    >>> pipeline = ev.Pipeline("clicks", pages.to("counts", late=ev.accumulate("5 minutes")), state="state/clicks")
    >>> pipeline.outputs[0].late.allowed
    300000000
    """

    name: str
    outputs: tuple[Output, ...]
    state: str | None
    when_all_idle: str = "hold"
    buckets: int | None = None
    generation: int = 0
    dead_letter_sink: Any = field(default=None, repr=False)
    archive: str | None = None
    """A directory that keeps every event as it arrived."""
    archive_format: str = "parquet"
    """Parquet files alone, or with a log that makes them a Delta table."""
    measure: tuple[str, ...] | None = None
    """Columns by which lateness is measured while it runs; empty: only by source and lane; None: not at all."""

    def __init__(
        self,
        name: str,
        *outputs: Output,
        state: str | None = None,
        when_all_idle: str = "hold",
        dead_letters: Any = None,
        buckets: int | None = None,
        generation: int = 0,
        archive: str | None = None,
        archive_format: str = "parquet",
        measure: bool | str | Sequence[str] = False,
    ) -> None:
        columns = (measure,) if isinstance(measure, str) else () if measure is True else tuple(measure or ())
        watched = {"archive": archive, "archive_format": archive_format, "measure": None if measure is False else columns}
        given = {"name": name, "outputs": outputs, "state": state, "when_all_idle": when_all_idle, "buckets": buckets}
        for attribute, value in {**given, "generation": generation, "dead_letter_sink": dead_letters, **watched}.items():
            object.__setattr__(self, attribute, value)
        self._check()

    def _check(self) -> None:
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
            self.aggregation.stream._known(self.measure, "measure")
        warn_of_idleness(self.aggregation.stream.sources, self.outputs)

    @property
    def aggregation(self) -> Aggregation:
        """The aggregation that all outputs share."""
        return self.outputs[0].aggregation

    def plan(self, generation: int = 0) -> Plan:
        """What it means, without sources and sinks."""
        return plan_of(self.aggregation, self.outputs, self.when_all_idle, generation)

    def with_generation(self, generation: int) -> Pipeline:
        """The same pipeline, whose results outrank those of every earlier generation."""
        fresh = copy(self)  # checked and warned about already
        object.__setattr__(fresh, "generation", generation)
        return fresh

    def packages(self) -> list[str]:
        """The connector jars that its sources, its state and its archive need; most need none."""
        from eventide.engine.spark_compat import packages_of

        return packages_of(self.aggregation.stream.sources, (self.state, self.archive))

    def start(self, spark: Any = None, *, interval: str = "1 second", on_progress: Any = None) -> Handle:
        """Start it in the background; a quiet stream still closes its windows."""
        from eventide.engine.handle import Handle

        return Handle.start(self, spark, interval=interval, on_progress=on_progress)

    def run(self, spark: Any = None, *, available_now: bool = True, drain: bool = False, on_progress: Any = None) -> Handle:
        """Run until everything that is there has been read (or, with available_now=False, until it is stopped).

        With `drain` nothing comes after it: every window is closed, and the state is finished.
        """
        from eventide.engine.handle import Handle

        handle = Handle.start(self, spark, available_now=available_now, drain=drain, on_progress=on_progress)
        try:
            handle.wait()
        except KeyboardInterrupt:
            with suppress(Exception):  # Spark cancels its jobs at an interrupt, and the batch that they were for says so
                handle.stop()
            raise
        return handle

    def backfill(
        self, history: Any = None, spark: Any = None, *, state: str | None = None, deliver: bool = False, **columns: Any
    ) -> Any:
        """The same definition over history (by default the archive), as one batch: the answers of the live run, late rows included.

        Sinks hear nothing of it, unless asked: with `deliver=True` it takes a generation of its own, and its results replace those of
        windows that are final in the live run.
        """
        from eventide.engine.backfill import backfill

        return backfill(
            self, history, spark, state or tempfile.mkdtemp(prefix="eventide-backfill-"), deliver=deliver, **columns
        )

    def panes(self, spark: Any, output: str | None = None) -> Any:
        """Every emission of an output as a DataFrame."""
        from eventide.engine.tables import panes

        return panes(self, spark, self._output(output))

    def late(self, spark: Any, output: str | None = None) -> Any:
        """The rows that an output refused and kept, with what they missed."""
        from eventide.engine.tables import late

        return late(self, spark, self._output(output))

    def dead_letters(self, spark: Any) -> Any:
        """The records that could not be read, each with its reason, its bytes and its place."""
        from eventide.engine.tables import dead_letters

        return dead_letters(self, spark)

    def archived(self, spark: Any) -> Any:
        """Every event as it arrived, with its place, as a DataFrame."""
        from eventide.engine.tables import archived

        return archived(self, spark)

    def lateness(self) -> Any:
        """How late its events come, by source, lane, hour and the measured columns."""
        from eventide.lateness.measured import read_lateness

        return read_lateness(self)

    def past_lateness(self, by: Sequence[str] = (), history: Any = None, spark: Any = None, **columns: Any) -> Any:
        """The same over history (by default the archive), by any columns: for a run that did not measure itself, or not by these."""
        from eventide.tuning.past import past_lateness

        return past_lateness(self, by, history, spark, **columns)

    def windows(self, spark: Any) -> Any:
        """Every window known: open, closed (and when), or final."""
        from eventide.engine.tables import windows

        return windows(self, spark)

    def _output(self, name: str | None) -> Output:
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
        for source in self.aggregation.stream.sources:
            idle = f", idle after {show_duration(source.idle_after)}" if source.idle_after else ""
            lines.append(f"  reads   {source}{idle}")
        if self.aggregation.stream.dedupe_within:
            keys = ", ".join(self.aggregation.stream.dedupe_keys)
            lines.append(f"  keeps   the first of equal {keys} within {show_duration(self.aggregation.stream.dedupe_within)}")
        by = f" by {', '.join(self.aggregation.keys)}" if self.aggregation.keys else ""
        lines.append(f"  cuts    {self.aggregation.window}{by}")
        lines.append(
            "  computes "
            + ", ".join(f"{name} = {what.kind}({what.column or ''})" for name, what in self.aggregation.aggregates)
        )
        for output in self.outputs:
            sink = (
                "the pipeline's own tables" if output.sink is None else type(output.sink).__name__.removesuffix("Sink").lower()
            )
            lines.append(f"  gives   {output.name} to {sink}: late rows {output.late}, {output.accumulation.replace('_', ' ')}")
        return "\n".join(lines)
