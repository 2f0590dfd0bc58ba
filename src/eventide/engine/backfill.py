"""History through the same definition: one batch, drained, whose answers are those of the live run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.definition.output import Output
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation, Stream
from eventide.engine.feeds.union import united
from eventide.engine.run import Run
from eventide.engine.spark_session import session_for
from eventide.engine.supersede import Superseding
from eventide.engine.tables import archived
from eventide.errors import DefinitionError
from eventide.kernel.columns import DEAD, RAW
from eventide.model.policy import Divert
from eventide.model.watermark import Custom, Punctuated
from eventide.sinks.shape import named_aside
from eventide.sources.frame import FrameSource
from eventide.state.journal import Journal
from eventide.state.records import record_files

REPLAYED = {
    **{f"_{place}": f"archived_{place}" for place in ("arrival", "lane", "offset", "event_time")},
    "_dead": DEAD,
    "_raw": RAW,
}
"""The archive's columns as a replay reads them: late rows carry their place under the archive's own names, so that here it goes by others."""


@dataclass
class Backfill:
    """What a backfill gave; its tables are read like those of a live run."""

    pipeline: Any
    rows: dict[str, int]
    outputs: dict[str, dict[str, int]]


def backfill(
    pipeline: Any,
    history: Any,
    spark: Any,
    state: str,
    *,
    arrival: str | None = None,
    lane: str | None = None,
    offset: str | None = None,
    deliver: bool = False,
) -> Backfill:
    """Run a definition over a static DataFrame (or one for each source, by name) in a state directory of its own.

    The sinks hear of it only with `deliver`: then its results take the place of those that are final in the live run.
    """
    session = session_for(pipeline, spark)
    sources = pipeline.aggregation.stream.sources
    superseding = Superseding.of(pipeline, from_archive=history is None) if deliver else None
    if history is None:
        return _run(pipeline, from_archive(pipeline, session), session, state, superseding)
    frames = history if isinstance(history, dict) else {sources[0].name: history}
    missing = [s.name for s in sources if s.name not in frames]
    if missing:
        raise DefinitionError(f"backfill: no history for {', '.join(missing)}; pass a dict with a DataFrame for each source.")
    known = _known_lanes(pipeline)
    replaced = tuple(_static(s, frames[s.name], arrival, lane, offset, known.get(s.name)) for s in sources)
    return _run(pipeline, replaced, session, state, superseding)


def from_archive(pipeline: Any, session: Any) -> tuple[FrameSource, ...]:
    """The sources as the archive has them: transformed already, in the places and with the event times that the live run gave them.

    A source's own time column would not do: sources that are merged keep only the columns that they share, and a dead letter may have
    a sound time. What the live run could not read stays a dead letter, for the same reason.
    """
    kept = archived(pipeline, session)
    known = _known_lanes(pipeline)
    found = []
    for source in pipeline.aggregation.stream.sources:
        place = named_aside("_source", kept.columns)
        renamed = {named_aside(name, kept.columns): replayed for name, replayed in REPLAYED.items()}
        rows = kept.where(kept[place] == source.name).withColumnsRenamed(renamed).drop(place)
        _refuse_lost_columns(source, rows.columns)
        static = _static(source, rows, "archived_arrival", "archived_lane", "archived_offset", known.get(source.name, []))
        found.append(replace(static, event_time="archived_event_time", transforms=(), maps=()))
    return tuple(found)


def _refuse_lost_columns(source: Source, kept: list[str]) -> None:
    """A watermark that markers or an expression say cannot be said again without the columns that it is read from."""
    if not isinstance(source.watermark, Punctuated | Custom):
        return
    texts = [source.watermark.value, *([source.watermark.when] if isinstance(source.watermark, Punctuated) else [])]
    read = {name for text in texts for name in pl.sql_expr(text).meta.root_names()}
    lost = sorted(read - {*kept, "arrival_time"})
    if lost:
        raise DefinitionError(
            f"the watermark of source {source.name!r} reads {', '.join(lost)}, which the archive does not have: of merged sources it "
            "keeps the columns that all of them share. Give the other sources these columns too, with .transform(…), or pass the history."
        )


def _run(
    pipeline: Any, replaced: tuple[FrameSource, ...], session: Any, state: str, superseding: Superseding | None
) -> Backfill:
    over = _over(pipeline, replaced, state)
    run = Run(over, session, state, numbered=superseding.take if superseding else None)
    run.open()
    try:
        run.batch(united([feed.frame(session) for feed in run.feeds]), 0, drain=True)
        if superseding is not None:
            superseding.deliver(run)
        return Backfill(over, dict(run.ledger.rows), {n: dict(c) for n, c in run.ledger.outputs.items()})
    finally:
        run.close()


def _known_lanes(pipeline: Any) -> dict[str, list[str]]:
    """The lanes that the live run has waited for from its start, where it left a journal."""
    facts = Journal(record_files(str(pipeline.state))).definition() if pipeline.state is not None else None
    return facts["lanes"] if facts is not None else {}


def _static(
    source: Any, frame: Any, arrival: str | None, lane: str | None, offset: str | None, known: list[str] | None
) -> FrameSource:
    column = lane or (source.lane if isinstance(source, FrameSource) else None)
    return FrameSource(
        name=source.name, event_time=source.event_time, watermark=source.watermark, idle_after=source.idle_after,
        arrival=arrival or source.arrival, time_unit=source.time_unit, time_zone=source.time_zone, time_format=source.time_format, max_ahead=source.max_ahead, transforms=source.transforms,
        max_skew=None,  # history's arrivals have been lowered already, or are not measured by today's clock
        maps=source.maps,
        frame=frame, lane=column, offset=offset or getattr(source, "offset", None),
        lanes=tuple(known if known is not None else _lanes_in(frame, column)),
    )  # fmt: skip


def _lanes_in(frame: Any, column: str | None) -> list[str]:
    """Without a live run to go by, W waits for every lane that the history has."""
    if column is None:
        return []
    return sorted(str(row[0]) for row in frame.select(frame[column].cast("string")).distinct().collect())


def without_sinks(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The same outputs, which tell nobody: results and diverted rows stay in the tables of their state."""
    return tuple(
        replace(o, sink=None, late=o.late if o.late.refused is None else replace(o.late, refused=Divert(None))) for o in outputs
    )


def _over(pipeline: Any, sources: tuple[FrameSource, ...], state: str) -> Any:
    from eventide.pipeline import Pipeline

    old = pipeline.aggregation
    stream = Stream(sources, old.stream.dedupe_keys, old.stream.dedupe_within)
    aggregation = Aggregation(stream, old.window, old.keys, old.aggregates)
    outputs = tuple(replace(o, aggregation=aggregation) for o in without_sinks(pipeline.outputs))
    return Pipeline(
        pipeline.name, *outputs, state=state, when_all_idle=pipeline.when_all_idle,
        buckets=pipeline.buckets, generation=pipeline.generation + 1,
        measure=False if pipeline.measure is None else pipeline.measure or True,
    )  # fmt: skip
