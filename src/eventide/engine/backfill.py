"""History through the same definition: one batch, drained, whose answers are those of the live run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eventide.definition import Aggregation, Stream
from eventide.engine.archive import PLACE, archived
from eventide.engine.journal import Journal, LocalFiles
from eventide.engine.run import Run
from eventide.engine.session import local_session
from eventide.errors import DefinitionError
from eventide.sources.frame import FrameSource


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
) -> Backfill:
    """Run a definition over a static DataFrame (or one for each source, by name) in a state directory of its own."""
    session = spark or local_session(pipeline.packages(), name=pipeline.name)
    sources = pipeline.aggregation.stream.sources
    if history is None:
        return _run(pipeline, from_archive(pipeline, session), session, state)
    frames = history if isinstance(history, dict) else {sources[0].name: history}
    missing = [s.name for s in sources if s.name not in frames]
    if missing:
        raise DefinitionError(f"backfill: no history for {', '.join(missing)}; pass a dict with a DataFrame for each source.")
    return _run(pipeline, tuple(_static(s, frames[s.name], arrival, lane, offset) for s in sources), session, state)


def from_archive(pipeline: Any, session: Any) -> tuple[FrameSource, ...]:
    """The sources as the archive has them: transformed already, in the places that the live run gave them."""
    kept = archived(pipeline, session)
    facts = Journal(LocalFiles(str(pipeline.state))).definition() or {}
    # Late rows carry their place under the archive's own names, so that here it goes by others.
    places = {f"_{place}": f"archived_{place}" for place in ("arrival", "lane", "offset")}
    found = []
    for source in pipeline.aggregation.stream.sources:
        rows = kept.where(kept["_source"] == source.name).withColumnsRenamed(places)
        rows = rows.drop(*[column for column in PLACE if column not in places])
        static = _static(source, rows, *places.values())
        found.append(replace(static, transforms=(), maps=(), lanes=tuple(facts.get("lanes", {}).get(source.name, ()))))
    return tuple(found)


def _run(pipeline: Any, replaced: tuple[FrameSource, ...], session: Any, state: str) -> Backfill:
    over = _over(pipeline, replaced, state)
    run = Run(over, session, state)
    run.open()
    try:
        union = None
        for feed in run.feeds:
            part = feed.frame(session)
            union = part if union is None else union.unionByName(part, allowMissingColumns=True)
        run.batch(union, 0, drain=True)
        return Backfill(over, dict(run.ledger.rows), {n: dict(c) for n, c in run.ledger.outputs.items()})
    finally:
        run.close()


def _static(source: Any, frame: Any, arrival: str | None, lane: str | None, offset: str | None) -> FrameSource:
    return FrameSource(
        name=source.name, event_time=source.event_time, watermark=source.watermark, idle_after=source.idle_after,
        arrival=arrival or source.arrival, time_unit=source.time_unit, max_ahead=source.max_ahead, transforms=source.transforms, maps=source.maps,
        frame=frame, lane=lane or getattr(source, "lane", None) if _names_column(source) or lane else None, offset=offset or getattr(source, "offset", None),
    )  # fmt: skip


def _names_column(source: Any) -> bool:
    return isinstance(source, FrameSource)


def _over(pipeline: Any, sources: tuple[FrameSource, ...], state: str) -> Any:
    from eventide.pipeline import Pipeline

    old = pipeline.aggregation
    stream = Stream(sources, old.stream.dedupe_keys, old.stream.dedupe_within)
    aggregation = Aggregation(stream, old.window, old.keys, old.aggregates)
    outputs = tuple(replace(o, aggregation=aggregation) for o in pipeline.outputs)
    return Pipeline(
        pipeline.name, *outputs, state=state, when_all_idle=pipeline.when_all_idle, dead_letters=pipeline.dead_letter_sink,
        buckets=pipeline.buckets, generation=pipeline.generation + 1,
    )  # fmt: skip
