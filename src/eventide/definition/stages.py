"""Stages as the model's graph has them, and checked by it where they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.errors import DefinitionError
from eventide.model.graph import Aggregation as AggregationNode
from eventide.model.graph import Graph, Node, Results, Rows
from eventide.model.plan import SourcePlan
from eventide.model.soundness import check
from eventide.model.window import Session, Sliding

if TYPE_CHECKING:
    from eventide.definition.stream import Aggregation


def check_stage(aggregation: Aggregation) -> None:
    """Refuse a stage that means nothing."""
    if not isinstance(aggregation.window, Sliding | Session):
        raise DefinitionError(f'window({aggregation.window!r}): use tumbling("1 hour") or sliding(…).')
    sources = tuple(SourcePlan(source.watermark, (), source.idle_after) for source in aggregation.stream.sources)
    check(Graph(sources, nodes_of(aggregation), ()))


def nodes_of(aggregation: Aggregation) -> tuple[Node, ...]:
    """An aggregation, and all that it is made of, as nodes of the model's graph."""
    chain = (*aggregation.below, aggregation)
    read = {*chain[0].keys, *(column for _, what in chain[0].aggregates for column in what.columns)}
    stream = aggregation.stream
    nodes: list[Node] = [
        Rows("stream", tuple(range(len(stream.sources))), tuple((name, "") for name in sorted(read)), stream.dedupe_within)
    ]
    for nth, one in enumerate(chain, 1):
        if one.over is not None:
            nodes.append(Results(f"results of stage {nth - 1}", nodes[-1].name, one.over.late.allowed, one.over.view))
        nodes.append(AggregationNode(f"stage {nth}, {one.window}", nodes[-1].name, one.window, one.keys, one.aggregates))
    return tuple(nodes)
