"""A definition bound to its opened sources: the plan that the kernel works by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from eventide.definition.join import Join
from eventide.definition.pipeline import Pipeline
from eventide.definition.stream import Aggregation
from eventide.engine.batch.pairs import row_kinds
from eventide.engine.batch.stages import StagePlan, with_stages
from eventide.engine.feeds.feed import Feed
from eventide.engine.feeds.joined import join_plan
from eventide.engine.feeds.projection import computed_with
from eventide.engine.settings import signature_of
from eventide.engine.witnesses import witnesses_of
from eventide.kernel.bound_plan import BoundPlan
from eventide.model.plan import Plan
from eventide.state.store import Store


def bound(
    definition: Pipeline, feeds: Sequence[Feed], kinds: Mapping[str, pl.DataType], store: Store, facts: dict[str, Any]
) -> BoundPlan:
    """All aggregations and stages of a definition, by the names and the lanes that the facts of its state give them."""
    named, sources = facts["aggregations"], definition.sources
    # By their names in the state: what is told of the first alone must not go over to another when outputs are written in another order.
    ordered = sorted(definition.aggregations, key=lambda aggregation: named[signature_of(aggregation)])
    join = None if definition.join is None else join_plan(definition.join, list(feeds))
    first, *others = (
        BoundPlan(
            _plan(definition, feeds, facts, aggregation),
            aggregation.keys,
            definition.stream.dedupe_keys,
            facts["buckets"],
            tuple(s.max_ahead for s in sources),
            tuple(s.max_skew for s in sources),
            witnesses_of(definition, store, facts["generation"], ordered[0].grid),
            any(output.late.refused is not None for output in definition.outputs),
            computed_with(definition),
            bool(definition.audits),
            named[signature_of(aggregation)],
            join=join if isinstance(aggregation, Join) else None,
            pairs=None if isinstance(aggregation, Join) else join,
        )
        for aggregation in ordered
    )
    stages = _stages(definition, feeds, facts)
    first, *others = (with_stages(one, row_kinds(one, dict(kinds)), stages) for one in (first, *others))
    return replace(first, beside=tuple(others))


def _stages(definition: Pipeline, feeds: Sequence[Feed], facts: dict[str, Any]) -> list[StagePlan]:
    """Its stages by their names in the state."""
    names, found = facts["aggregations"], []
    for stage in definition.stages:
        assert stage.over is not None
        name, below = names[signature_of(stage)], names[signature_of(stage.over.aggregation)]
        plan = _plan(definition, feeds, facts, stage)
        found.append(StagePlan(name, below, stage.over.late.allowed, stage.over.view, plan))
    return found


def _plan(definition: Pipeline, feeds: Sequence[Feed], facts: dict[str, Any], aggregation: Aggregation | Join) -> Plan:
    plan: Plan = definition.plan(facts["generation"], aggregation)
    sources = tuple(
        replace(source, lanes=tuple(facts["lanes"].get(feed.source.name, ())))
        for source, feed in zip(plan.sources, feeds, strict=True)
    )
    return replace(plan, sources=sources)


__all__ = ["bound"]
