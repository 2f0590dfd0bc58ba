"""Which columns of a source a column of an output is made of, and which decide what stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.definition.stream import Aggregation, Stream
from eventide.model.aggregate import Aggregate
from eventide.model.expression import columns_of
from eventide.model.view import View, Where

START, END = "window_start", "window_end"
IDENTITY, TRANSFORMATION, AGGREGATION = (("DIRECT", kind) for kind in ("IDENTITY", "TRANSFORMATION", "AGGREGATION"))
GROUP_BY, FILTER, JOINED, CONDITIONAL = (("INDIRECT", kind) for kind in ("GROUP_BY", "FILTER", "JOIN", "CONDITIONAL"))
How = tuple[str, str]


@dataclass(frozen=True)
class Origin:
    """A column of a source, and what was done with it on the way."""

    source: str
    column: str
    how: How = IDENTITY


Made = Mapping[str, frozenset[Origin]]


@dataclass(frozen=True)
class Lineage:
    """What each column is made of, and what decides which rows there are."""

    columns: Made
    decided: frozenset[Origin] = frozenset()


def lineage(pipeline: Pipeline, output: Output, pairs: Iterable[tuple[str, tuple[int, str]]] = ()) -> Lineage | None:
    """Of an output; `pairs` says of each column of a join's pairs the side and the column there.

    None where a function of the user's stands between the source and the rows: what it makes of columns, nobody knows.

    >>> import eventide as ev
    >>> pay = ev.files("pay", "in/", schema="ts timestamp, bank string, paise bigint", event_time="ts", watermark=ev.bounded("5 s"))
    >>> totals = pay.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"))
    >>> pipeline = ev.Pipeline("p", totals.to("out", late=ev.drop()))
    >>> sorted(lineage(pipeline, pipeline.output("out")).columns["total"], key=str)
    [Origin(source='pay', column='paise', how=('DIRECT', 'AGGREGATION'))]
    """
    if any(source.transforms or source.maps for source in pipeline.sources):
        return None
    if isinstance(output.aggregation, Join):
        return _paired(output.aggregation, pairs)
    return _viewed(_computed(output.aggregation, tuple(pairs)), output.view, output.aggregation.keys)


def _rows(stream: Stream, column: str, how: How = IDENTITY) -> frozenset[Origin]:
    return frozenset(Origin(source.name, column, how) for source in stream.sources)


def _times(stream: Stream) -> frozenset[Origin]:
    return frozenset(Origin(source.name, source.event_time, TRANSFORMATION) for source in stream.sources)


def _paired(join: Join, pairs: Iterable[tuple[str, tuple[int, str]]]) -> Lineage:
    sides = (join.left, join.right)
    columns = {name: _rows(sides[side], column) for name, (side, column) in pairs}
    decided = [_rows(sides[side], pair[side], JOINED) for pair in join.on for side in (0, 1)]
    times = frozenset(replace(one, how=JOINED) for side in sides for one in _times(side))
    columns |= {START: _times(join.stream), END: _times(join.stream)}
    return Lineage(columns, times.union(*decided))


def _computed(aggregation: Aggregation, pairs: tuple[tuple[str, tuple[int, str]], ...]) -> Lineage:
    """Keys, bounds and aggregates of windows over rows, over pairs, or over the results of others."""
    if aggregation.over is not None:
        below = aggregation.over
        rows = _viewed(_computed(below.aggregation, pairs), below.view, below.aggregation.keys)
        times = rows.columns[END]
    elif aggregation.pairs is not None:
        rows = _paired(aggregation.pairs, pairs)
        times = rows.columns[END]
    else:
        names = {*aggregation.keys, *(name for _, what in aggregation.aggregates for name in what.columns)}
        rows = Lineage({name: _rows(aggregation.stream, name) for name in names})
        times = _times(aggregation.stream)
    columns = {key: rows.columns.get(key, frozenset()) for key in aggregation.keys} | {START: times, END: times}
    columns |= {name: _aggregated(what, rows.columns) for name, what in aggregation.aggregates if what.kind != "custom"}
    grouped = [_as(rows.columns.get(key, frozenset()), GROUP_BY) for key in aggregation.keys]
    return Lineage(columns, rows.decided.union(_as(times, GROUP_BY), *grouped))


def _aggregated(what: Aggregate, rows: Made) -> frozenset[Origin]:
    values = [name for name in (what.column, *what.of) if name is not None]
    direct = [_as(rows.get(name, frozenset()), AGGREGATION) for name in values]
    deciding = [_as(rows.get(name, frozenset()), CONDITIONAL) for name in what.columns if name not in values]
    return frozenset[Origin]().union(*direct, *deciding)


def _viewed(results: Lineage, view: View, keys: tuple[str, ...]) -> Lineage:
    always = {name: results.columns[name] for name in (*keys, START, END)}
    columns, decided = dict(results.columns), results.decided
    for step in view.steps:
        if isinstance(step, Where):
            known = [_as(columns.get(name, frozenset()), FILTER) for name in columns_of(step.condition)]
            decided = decided.union(*known)
        else:
            made = {
                name: frozenset[Origin]().union(*(_through(columns.get(one, frozenset())) for one in columns_of(node)))
                for name, node in step.columns
            }
            columns = {**always, **made}
    return Lineage(columns, decided)


def _through(origins: frozenset[Origin]) -> frozenset[Origin]:
    """After an expression: what was taken as it is, no longer is."""
    return frozenset(replace(one, how=TRANSFORMATION) if one.how == IDENTITY else one for one in origins)


def _as(origins: frozenset[Origin], how: How) -> frozenset[Origin]:
    return frozenset(replace(one, how=how) for one in origins)


__all__ = ["Lineage", "Origin", "lineage"]
