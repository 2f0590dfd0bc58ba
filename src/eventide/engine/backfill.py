"""History through the same definition: one batch, drained, whose answers are those of the live run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation
from eventide.engine.feeds.projection import named_in
from eventide.engine.feeds.union import united
from eventide.engine.run import Run
from eventide.engine.spark_session import session_for
from eventide.engine.supersede import Superseding
from eventide.engine.tables import archived
from eventide.errors import DefinitionError, letting_go
from eventide.kernel.columns import DEAD, RAW
from eventide.model.policy import Divert
from eventide.sinks.shape import named_aside
from eventide.sources.frame import FrameSource
from eventide.state.ledger import Ledger
from eventide.state.state import State

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

REPLAYED = {
    **{f"_{place}": f"archived_{place}" for place in ("arrival", "lane", "offset", "event_time")},
    "_dead": DEAD,
    "_raw": RAW,
}
"""The archive's columns as a replay reads them: late rows carry their place under the archive's own names, so that here it goes by others."""


Defined = TypeVar("Defined", bound=Pipeline)


@dataclass
class Backfill(Generic[Defined]):
    """What a backfill gave; its tables are read like those of a live run."""

    pipeline: Defined
    rows: dict[str, int]
    outputs: dict[str, dict[str, int]]


class PlaceColumns(TypedDict, total=False):
    """The columns of a history that say where and when a row arrived; a verb hands them on to `backfill`."""

    arrival: str | None
    lane: str | None
    offset: str | None


def backfill(
    pipeline: Defined,
    history: DataFrame | dict[str, DataFrame] | None,
    spark: SparkSession | None,
    state: str,
    *,
    arrival: str | None = None,
    lane: str | None = None,
    offset: str | None = None,
    deliver: bool | Sequence[str] = False,
) -> Backfill[Defined]:
    """Run a definition over a static DataFrame (or one for each source, by name) in a state directory of its own.

    The sinks hear of it only with `deliver`, all of them or those of the outputs that it names: then its results take the place of those
    that are final in the live run.
    """
    session = session_for(pipeline, spark)
    sources = pipeline.sources
    only = None if isinstance(deliver, bool) else [deliver] if isinstance(deliver, str) else deliver
    superseding = Superseding.of(pipeline, from_archive=history is None, only=only) if deliver else None
    if history is None:
        stood = None if superseding is None else superseding.ledger
        return _run(pipeline, from_archive(pipeline, session, stood), session, state, superseding)
    frames = history if isinstance(history, dict) else {sources[0].name: history}
    missing = [s.name for s in sources if s.name not in frames]
    if missing:
        raise DefinitionError(f"backfill: no history for {', '.join(missing)}; pass a dict with a DataFrame for each source.")
    known = known_lanes(pipeline)
    replaced = tuple(_given(s, frames[s.name], arrival, lane, offset, known.get(s.name)) for s in sources)
    return _run(pipeline, replaced, session, state, superseding)


def from_archive(pipeline: Pipeline, session: SparkSession, upto: Ledger | None = None) -> tuple[FrameSource, ...]:
    """The sources as the archive has them: transformed already, in the places and with the event times that the live run gave them.

    A source's own time column would not do: sources that are merged keep only the columns that they share, and a dead letter may have
    a sound time. What the live run could not read stays a dead letter, for the same reason.
    """
    kept = archived(pipeline, session, upto)
    known, found = known_lanes(pipeline), []
    for source in pipeline.sources:
        place = named_aside("_source", kept.columns)
        renamed = {named_aside(name, kept.columns): replayed for name, replayed in REPLAYED.items()}
        rows = kept.where(kept[place] == source.name).withColumnsRenamed(renamed).drop(place)
        found.append(replayed_source(source, rows, known.get(source.name, [])))
    return tuple(found)


def replayed_source(source: Source, rows: DataFrame | pl.DataFrame, known: list[str]) -> FrameSource:
    """A source as the archive has it: `rows` is a frame with the user's columns and, under the names of a replay, ours."""
    _refuse_lost_columns(source, rows.columns)
    static = _static(source, rows, "archived_arrival", "archived_lane", "archived_offset", known)
    time = source.event_time if source.watermark.by_arrival else "archived_event_time"
    return replace(static, event_time=time, transforms=(), maps=())


def _refuse_lost_columns(source: Source, kept: list[str]) -> None:
    """A watermark that markers or an expression say cannot be said again without the columns that it is read from."""
    read = named_in(source.watermark.expressions)
    lost = sorted(read - {*kept, "arrival_time"})
    if lost:
        raise DefinitionError(
            f"the watermark of source {source.name!r} reads {', '.join(lost)}, which the archive does not have: of merged sources it "
            "keeps the columns that all of them share. Give the other sources these columns too, with .transform(…), or pass the history."
        )


def _run(
    pipeline: Defined, replaced: tuple[FrameSource, ...], session: SparkSession, state: str, superseding: Superseding | None
) -> Backfill[Defined]:
    over = over_sources(pipeline, replaced, state)
    run = Run(over, session, state, numbered=superseding.take if superseding else None)
    run.open()
    with letting_go(run.close):
        run.batch(united([feed.frame(session) for feed in run.feeds]), 0, drain=True)
        if superseding is not None:
            superseding.deliver(run)
        return Backfill(over, dict(run.ledger.rows), {n: dict(c) for n, c in run.ledger.outputs.items()})


def known_lanes(pipeline: Pipeline) -> dict[str, list[str]]:
    """The lanes that the live run has waited for from its start, where it left a journal."""
    return State.of(pipeline).lanes if pipeline.state is not None else {}


def _given(
    source: Source, frame: DataFrame, arrival: str | None, lane: str | None, offset: str | None, known: list[str] | None
) -> FrameSource:
    """A source as the caller's own history has it."""
    column = lane or (source.lane if isinstance(source, FrameSource) else None)
    return _static(source, frame, arrival, column, offset, known if known is not None else _lanes_in(frame, column))


def _static(
    source: Source, frame: DataFrame | pl.DataFrame, arrival: str | None, lane: str | None, offset: str | None, lanes: list[str]
) -> FrameSource:
    shared = {field.name: getattr(source, field.name) for field in fields(Source)}
    shared |= {"arrival": arrival or source.arrival}
    shared |= {"max_skew": None}  # history's arrivals have been lowered already, or are not measured by today's clock
    offset = offset or getattr(source, "offset", None)
    return FrameSource(**shared, frame=frame, lane=lane, offset=offset, lanes=tuple(lanes))


def _lanes_in(frame: DataFrame, column: str | None) -> list[str]:
    """Without a live run to go by, W waits for every lane that the history has."""
    if column is None:
        return []
    return sorted(str(row[0]) for row in frame.select(frame[column].cast("string")).distinct().collect())


def without_sinks(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The same outputs, which tell nobody: results and diverted rows stay in the tables of their state."""
    return tuple(
        replace(o, sink=None, late=o.late if o.late.refused is None else replace(o.late, refused=Divert(None))) for o in outputs
    )


def over_sources(pipeline: Defined, sources: tuple[FrameSource, ...], state: str) -> Defined:
    """The same pipeline over other sources, in a state of its own, telling nobody."""
    outputs = tuple(replace(o, aggregation=_reading(pipeline, o.aggregation, sources)) for o in without_sinks(pipeline.outputs))
    return replace(
        pipeline,
        outputs=outputs,
        audits=(),
        state=state,
        generation=pipeline.generation + 1,
        dead_letter_sink=None,
        archive=None,
        archive_format="parquet",
    )


def _reading(pipeline: Pipeline, what: Aggregation | Join, sources: tuple[FrameSource, ...]) -> Aggregation | Join:
    """The same windows, or the same join, over other sources; of what these have beside them, pairs show what they showed live."""
    if what.joined is None:
        return what.on(replace(what.stream, sources=sources))
    join = _join_over(pipeline, what.joined, sources)
    return join if isinstance(what, Join) else what.on(join.stream, join)


def _join_over(pipeline: Pipeline, what: Join, sources: tuple[FrameSource, ...]) -> Join:
    left, right = (
        replace(side, sources=tuple(sources[place] for place in places))
        for side, places in zip((what.left, what.right), what.sides(), strict=True)
    )
    live = None if pipeline.state is None else State.of(pipeline).definition
    shown = what.shown if live is None else (tuple(live["sides"]["left"]), tuple(live["sides"]["right"]))
    return replace(what, left=left, right=right, shown=shown)
