"""Events in, expected results out: a pipeline as its user defined it, answered by the oracle, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from eventide.definition.join import Join
from eventide.definition.pipeline import Pipeline
from eventide.definition.source import ARRIVAL_TIME, Source
from eventide.errors import DefinitionError
from eventide.model.event import Event
from eventide.model.pane import INSERT, Pane
from eventide.model.reference import Reference
from eventide.model.time import instant

Row = Mapping[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Answers:
    """What each output says of some events."""

    said: Mapping[str, list[Pane]]
    refused: Mapping[str, list[Row]]
    verdicts: Mapping[str, Mapping[str, int]]
    keys: Mapping[str, tuple[str, ...]] = field(repr=False)

    def table(self, output: str) -> list[dict[str, Any]]:
        """What stands in the output's table at the end, by window and key."""
        newest: dict[Any, Pane] = {}
        for pane in self.said[output]:
            newest[pane.window_id] = max(newest.get(pane.window_id, pane), pane, key=lambda one: one.rank)
        standing = [self._row(output, pane) for pane in newest.values() if pane.op == INSERT]
        return sorted(standing, key=lambda row: (row["window_start"], *(str(row[key]) for key in self.keys[output])))

    def panes(self, output: str) -> list[dict[str, Any]]:
        """All that was said, in order, each with its sequence, op and timing."""
        return [{**self._row(output, p), "sequence": p.sequence, "op": p.op, "timing": p.timing} for p in self.said[output]]

    def late(self, output: str) -> list[Row]:
        """The rows that at least one of their windows refused."""
        return self.refused[output]

    def counts(self, output: str) -> dict[str, int]:
        """Rows by their worst verdict: on time, admitted, refused."""
        return dict(self.verdicts[output])

    def _row(self, output: str, pane: Pane) -> dict[str, Any]:
        start, end = (EPOCH + timedelta(microseconds=bound) for bound in pane.window)
        of_key = dict(zip(self.keys[output], pane.key if isinstance(pane.key, tuple) else (), strict=True))
        return {"window_start": start, "window_end": end, **of_key, **pane.values}


def answers(pipeline: Pipeline, rows: Iterable[Row] | Mapping[str, Iterable[Row]], *, drain: bool = True) -> Answers:
    """What a pipeline says of rows, given in the order of arrival (for several sources: by the source's name).

    A row arrives when its arrival column says; where the source has none, when its `_arrival` says, or else as if nothing were late. Its
    `_lane` is the lane that it comes by. Times are aware datetimes or ISO 8601 texts with a zone. With `drain` nothing comes after them.

    >>> import eventide as ev
    >>> clicks = ev.files("clicks", "landing", schema="at timestamp, came timestamp", event_time="at", arrival="came",
    ...                   watermark=ev.bounded("10 seconds"))
    >>> minutes = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> pipeline = ev.Pipeline("clicks", minutes.to("counts", late=ev.drop()))
    >>> rows = [{"at": f"2026-11-08T19:3{m}Z", "came": f"2026-11-08T19:3{c}Z"} for m, c in [("0:05", "0:06"), ("1:20", "1:21"), ("0:50", "1:22")]]
    >>> [(str(row["window_start"].time()), row["n"]) for row in answers(pipeline, rows).table("counts")]
    [('19:30:00', 1), ('19:31:00', 1)]
    """
    given = rows if isinstance(rows, Mapping) else {pipeline.sources[0].name: rows}
    names = [source.name for source in pipeline.sources]
    if unknown := sorted(set(given) - set(names)):
        raise DefinitionError(f"pipeline {pipeline.name!r} has no source {unknown[0]!r}. It has {', '.join(names)}.")
    events = [
        event
        for index, source in enumerate(pipeline.sources)
        for event in _events(source, index, list(given.get(source.name, ())), pipeline.stream.dedupe_keys)
    ]
    events.sort(key=lambda event: event.position)
    said: dict[str, list[Pane]] = {}
    late: dict[str, list[Row]] = {}
    counts: dict[str, Mapping[str, int]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for aggregation in pipeline.aggregations:
        if isinstance(aggregation, Join) or aggregation.over is not None or aggregation.pairs is not None:
            raise DefinitionError(
                "answers() knows windows over rows; joins and stages are tried on Spark: pipeline.run(spark, drain=True)."
            )
        plan = pipeline.plan(aggregation=aggregation)
        lanes = [tuple(sorted({e.lane for e in events if e.source == index})) for index in range(len(names))]
        plan = replace(plan, sources=tuple(replace(s, lanes=known) for s, known in zip(plan.sources, lanes, strict=True)))
        engine = Reference(plan)
        for event in events:
            engine.event(replace(event, key=tuple(event.row[name] for name in aggregation.keys)))
        engine.drain() if drain else engine.look()
        for number, output in enumerate(plan.outputs):
            keys[output.name] = aggregation.keys
            said[output.name] = [pane for pane in engine.panes if pane.output == output.name]
            late[output.name] = [row.event.row for row in engine.late if row.output == output.name]
            counts[output.name] = {str(verdict): count for verdict, count in engine.state.worst[number].items()}
    return Answers(said, late, counts, keys)


def _events(source: Source, index: int, rows: list[Row], dedupe: tuple[str, ...]) -> list[Event]:
    if source.transforms or source.maps or source.watermark.says is not None or source.watermark.marker is not None:
        raise DefinitionError(
            f"source {source.name!r} computes with its rows ({source.watermark.written}, transforms, maps), which Spark and Polars do: "
            "give answers() a source without them and the rows as they come out of them, or try it on Spark."
        )
    made: list[Event] = []
    newest: dict[str, int] = {}
    for offset, row in enumerate(rows):
        lane = str(row.get("_lane", "0"))
        arrival_column = source.arrival or "_arrival"
        said = row.get(arrival_column) if source.event_time != ARRIVAL_TIME else row.get("_arrival")
        time = said if source.event_time == ARRIVAL_TIME else row.get(source.event_time)
        when = None if time is None else instant(time, what=source.event_time)
        come = instant(said, what=arrival_column) if said is not None else max(when or 0, newest.get(lane, 0))
        newest[lane] = come = max(come, newest.get(lane, come))
        known = tuple(row[name] for name in dedupe) if dedupe else None
        absurd = when is not None and source.max_ahead is not None and when > come + source.max_ahead
        dead = "event time too far ahead of its arrival" if absurd else None
        made.append(Event(come, when, None, row, index, lane, offset, dedupe_key=known, dead=dead))
    return made
