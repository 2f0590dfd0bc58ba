"""A pipeline in its user's hand: declared once, it runs live, catches up, or backfills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from eventide.definition import pipeline as definition
from eventide.definition.output import Audit, Output
from eventide.definition.pipeline import Settings, warn_of_idleness
from eventide.notebook import shown, written
from eventide.redaction import masked
from eventide.sinks.base import Sink
from eventide.storage.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.engine.backfill import Backfill, PlaceColumns
    from eventide.engine.following import Follower
    from eventide.engine.handle import Handle
    from eventide.engine.mending import Mend, Mending
    from eventide.engine.report import BatchReport
    from eventide.lateness.measured import Lateness

# The verbs import what they need when they are called: a definition alone starts neither Spark nor the engine.


class Pipeline(definition.Pipeline):
    """Declared once, it can be started, run until caught up, or run over history, and gives the same answers each time.

    >>> import eventide as ev
    >>> clicks = ev.files("clicks", "landing/", schema="ts timestamp, page string", event_time="ts", watermark=ev.bounded("30 seconds"))
    >>> pages = clicks.window(ev.tumbling("1 minute"), by="page").agg(n=ev.count())
    >>> pipeline = ev.Pipeline("clicks", pages.to("counts", late=ev.accumulate("5 minutes")), state="state/clicks")
    >>> pipeline.outputs[0].late.allowed
    300000000

    It is a plain value: `dataclasses.replace` gives another one.

    >>> from dataclasses import replace
    >>> replace(pipeline, state="state/again").state
    'state/again'
    """

    def __init__(
        self,
        name: str,
        *written: Output | Audit,
        dead_letters: Sink | None = None,
        measure: bool | str | Sequence[str] | None = False,
        **settings: Unpack[Settings],
    ) -> None:
        outputs = tuple(output for output in written if isinstance(output, Output))
        audits = tuple(audit for audit in written if isinstance(audit, Audit))
        given: Settings = {"outputs": outputs, "audits": audits, "dead_letter_sink": dead_letters, **settings}
        columns = (measure,) if isinstance(measure, str) else () if measure is True else tuple(measure or ())
        super().__init__(name, measure=None if measure is False or measure is None else columns, **given)
        if written:  # a copy by `dataclasses.replace` was warned of when it was written
            warn_of_idleness(self)

    def with_generation(self, generation: int) -> Pipeline:
        """The same pipeline, whose results outrank those of every earlier generation."""
        return replace(self, generation=generation)

    def packages(self) -> list[str]:
        """The connector jars that its sources, its state and its archive need; most need none."""
        from eventide.engine.spark_compat import packages_of

        return packages_of(self.sources, (self.state, self.archive))

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        interval: str = "1 second",
        on_progress: Callable[[BatchReport], None] | None = None,
        follow: Sequence[Follower] = (),
    ) -> Handle:
        """Start it in the background; a quiet stream still closes its windows.

        `follow` tells other systems of it: `[ev.opentelemetry(), ev.openlineage("http://…")]`.
        """
        from eventide.engine.handle import Handle

        return Handle.start(self, spark, interval=interval, on_progress=on_progress, follow=follow)

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        available_now: bool = True,
        drain: bool = False,
        on_progress: Callable[[BatchReport], None] | None = None,
        follow: Sequence[Follower] = (),
    ) -> Handle:
        """Run until everything that is there has been read (or, with available_now=False, until it is stopped).

        With `drain` nothing comes after it: every window is closed, and the state is finished.
        """
        from eventide.engine.handle import Handle

        handle = Handle.start(self, spark, available_now=available_now, drain=drain, on_progress=on_progress, follow=follow)
        try:
            handle.wait()
        except KeyboardInterrupt:
            with suppress(Exception):  # Spark cancels its jobs at an interrupt, and the batch that they were for says so
                handle.stop()
            raise
        return handle

    def backfill(
        self,
        history: DataFrame | dict[str, DataFrame] | None = None,
        spark: SparkSession | None = None,
        *,
        state: str | None = None,
        deliver: bool | Sequence[str] = False,
        **columns: Unpack[PlaceColumns],
    ) -> Backfill[Pipeline]:
        """The same definition over history (by default the archive), as one batch: the answers of the live run, late rows included.

        Sinks hear nothing of it, unless asked: with `deliver=True`, or the names of some outputs, it takes a generation of its own, and its
        results replace those of windows that are final in the live run. Its own tables are in `state`; without one they are among temporary
        files, and are removed when the process ends.
        """
        from eventide.engine.backfill import backfill

        return backfill(self, history, spark, state or scratch("backfill"), deliver=deliver, **columns)

    def panes(self, spark: SparkSession, output: str | None = None) -> DataFrame:
        """Every emission of an output as a DataFrame."""
        from eventide.engine.tables import panes

        return panes(self, spark, self.output(output))

    def late(self, spark: SparkSession, output: str | None = None) -> DataFrame:
        """The rows that an output refused and kept, with what they missed."""
        from eventide.engine.tables import late

        return late(self, spark, self.output(output))

    def dead_letters(self, spark: SparkSession) -> DataFrame:
        """The records that could not be read, each with its reason, its bytes and its place."""
        from eventide.engine.tables import dead_letters

        return dead_letters(self, spark)

    def mend(self, change: Mend, into: str) -> Mending:
        """Read dead letters again: `change` is given each and gives its columns as a dict, or None to leave it dead.

        What it gives arrives by the source `into` (`ev.mended(…)`), once: a letter that was mended before is passed over.
        """
        from eventide.engine.mending import mend

        return mend(self, change, into)

    def audited(self, spark: SparkSession) -> DataFrame:
        """Every event that went on to be judged, with its place, where the pipeline has an output of the events themselves."""
        from eventide.engine.tables import audited

        return audited(self, spark)

    def archived(self, spark: SparkSession) -> DataFrame:
        """Every event as it arrived, with its place, as a DataFrame."""
        from eventide.engine.tables import archived

        return archived(self, spark)

    def lateness(self) -> Lateness:
        """How late its events come, by source, lane, hour and the measured columns."""
        import eventide.engine  # noqa: F401 (by which a state on a Hadoop file system is reached)
        from eventide.lateness.measured import read_lateness

        return read_lateness(self)

    def past_lateness(
        self,
        by: Sequence[str] = (),
        history: DataFrame | dict[str, DataFrame] | None = None,
        spark: SparkSession | None = None,
        **columns: Unpack[PlaceColumns],
    ) -> Lateness:
        """The same over history (by default the archive), by any columns: for a run that did not measure itself, or not by these."""
        from eventide.tuning.past import past_lateness

        return past_lateness(self, by, history, spark, **columns)

    def windows(self, spark: SparkSession, output: str | None = None) -> DataFrame:
        """Every window known of the aggregation that an output (the first, unless named) reads: open, closed (and when), or final.

        One that a view has never shown is no longer among them once it has closed.
        """
        from eventide.engine.tables import windows

        return windows(self, spark, self.output(output))

    def _repr_html_(self) -> str:
        """As notebooks show it: what it does, in words."""
        return shown(f"Pipeline {self.name}", written(masked(self.explain())))
