"""The sides of a join over opened sources: the columns that each has, and what cannot be said before they are known."""

from __future__ import annotations

import polars as pl

from eventide.definition.join import Join
from eventide.definition.pipeline import Pipeline
from eventide.engine.feeds.feed import Feed
from eventide.engine.feeds.json_records import has_map
from eventide.errors import DefinitionError
from eventide.kernel.join import BoundJoin
from eventide.kernel.sides import JoinPlan, Side
from eventide.model import graph
from eventide.model.soundness import joined_columns

Kinds = dict[str, pl.DataType]


def joined_kinds(join: Join, feeds: list[Feed]) -> Kinds:
    """The columns of both sides, each with its one type."""
    left, right = side_kinds(join, feeds)
    for name, kind in left.items():
        if right.get(name, kind) != kind:
            raise DefinitionError(
                f"{join}: the column {name!r} is {kind} on the left and {right[name]} on the right, and late rows of both sides go into one table. "
                "Rename one of them, or give it the other's type, with .transform(…) or .map(…)."
            )
    return {**left, **right}


def side_kinds(join: Join, feeds: list[Feed]) -> tuple[Kinds, Kinds]:
    """The columns that all sources of a side share, of the left and of the right; what the join asks of them is there, with fitting types."""
    left, right = (join.columns(side, _shared([feeds[place] for place in places])) for side, places in enumerate(join.sides()))
    _meaning(join, left, right)
    for side, kinds in enumerate((left, right)):
        stream = (join.left, join.right)[side]
        for name in (*(pair[side] for pair in join.on), *stream.dedupe_keys):
            if name not in kinds:
                raise DefinitionError(
                    f"{join}: its {('left', 'right')[side]} side has no column {name!r}, only {', '.join(kinds)}."
                )
            if kinds[name].is_nested() or has_map(kinds[name]):
                raise DefinitionError(
                    f"{join}: the column {name!r} is {kinds[name]}, and rows are matched by plain values. Make one of it with .transform(…) or "
                    ".map(…), such as its JSON text."
                )
    return left, right


def join_plan(join: Join, feeds: list[Feed]) -> JoinPlan:
    """The join, bound to the columns that its sides have."""
    kinds = side_kinds(join, feeds)
    meaning = _meaning(join, *kinds)
    (node,) = meaning.all_of(graph.Join)
    sides = [
        Side(
            name,
            frozenset(places),
            tuple(columns),
            tuple(pair[at] for pair in join.on),
            stream.dedupe_keys,
            stream.dedupe_within,
        )
        for at, (name, places, columns, stream) in enumerate(
            zip(("left", "right"), join.sides(), kinds, (join.left, join.right), strict=True)
        )
    ]
    sources = tuple(source.name for source in join.stream.sources)
    return JoinPlan(BoundJoin(node, tuple(joined_columns(meaning, node)), sources), (sides[0], sides[1]))


def pairs_shown(pipeline: Pipeline, join: Join, feeds: list[Feed]) -> Kinds:
    """The columns of pairs with their types; what windows over them ask for is among them."""
    kinds = side_kinds(join, feeds)
    meaning = _meaning(join, *kinds)
    (node,) = meaning.all_of(graph.Join)
    for aggregation in (one for one in pipeline.aggregations if not isinstance(one, Join)):
        join.refuse_lacking(aggregation.keys, "by", meaning)
        for name, what in aggregation.aggregates:
            join.refuse_lacking(what.columns, f"agg({name}=…)", meaning)
    return {name: kinds[side][column] for name, (side, column) in joined_columns(meaning, node)}


def _meaning(join: Join, left: Kinds, right: Kinds) -> graph.Graph:
    said = [{name: str(kind) for name, kind in kinds.items()} for kinds in (left, right)]
    return join.meaning(said[0], said[1])


def _shared(feeds: list[Feed]) -> Kinds:
    first, *others = [feed.reading.given for feed in feeds]
    return {name: kind for name, kind in first.items() if all(other.get(name) == kind for other in others)}
