"""The stages of a batch: bound to the columns of the results that they read, settled one level after the other, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from eventide.engine.batch.bucket_task import Batch, BucketAccount, finished_kinds
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.stage_task import StageSettling
from eventide.engine.feeds.projection import refuse_aggregates
from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.view import refuse_unanswerable, shown_kinds
from eventide.model.plan import OutputPlan, Plan
from eventide.model.policy import RETRACTING
from eventide.model.trigger import PerRow
from eventide.model.view import BOUNDS, View
from eventide.state.ledger import Ledger, reading_name, root_of
from eventide.state.store import Part, Store


@dataclass(frozen=True)
class StagePlan:
    """A stage, by its name in the state: whose results it reads, with which lateness and under which view, and what it makes of them."""

    name: str
    below: str
    allowed: int
    view: View
    plan: Plan

    @property
    def reading(self) -> OutputPlan:
        """How it sees the results: every change, with what it takes the place of, because that may have stood under another key here."""
        return OutputPlan(reading_name(self.name), self.allowed, RETRACTING, None, PerRow(), self.view)


def with_stages(shape: BoundPlan, kinds: Mapping[str, pl.DataType], stages: Sequence[StagePlan]) -> BoundPlan:
    """An aggregation with the stages over it, and those over them; `kinds` are the columns of its rows."""
    own = [stage for stage in stages if stage.below == shape.name]
    if not own:
        return shape
    outputs = (*shape.plan.outputs, *(stage.reading for stage in own))
    shape = replace(shape, plan=replace(shape.plan, outputs=outputs))
    done = finished_kinds(shape, dict(kinds))
    return replace(shape, above=tuple(_bound(shape, stage, done, stages) for stage in own))


def _bound(below: BoundPlan, stage: StagePlan, done: dict[str, pl.DataType], stages: Sequence[StagePlan]) -> Above:
    refuse_unanswerable(below, stage.reading, done)
    seen = {
        **{key: done[key] for key in below.keys},
        **dict.fromkeys(BOUNDS, pl.Int64()),
        **shown_kinds(below, stage.reading, done),
    }
    read = {*stage.plan.keys, *(column for _, what in stage.plan.aggregates for column in what.columns)}
    anything = any(what.kind == "custom" for _, what in stage.plan.aggregates)
    kinds = {name: kind for name, kind in seen.items() if anything or name in read}
    refuse_aggregates(stage.plan.aggregates, kinds)
    shape = BoundPlan(
        replace(stage.plan, dedupe_within=None), stage.plan.keys, (), below.buckets, name=stage.name, over_results=True
    )
    return Above(stage.reading.name, with_stages(shape, kinds, stages), kinds)


def settle_stage(stage: Above, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> BucketAccount:
    """One bucket of a stage."""
    return StageSettling(stage, store, batch, bucket, parts).run()


def handed_on(shape: BoundPlan, settled: Iterable[BucketAccount]) -> dict[str, tuple[int, int]]:
    """Changes of results that were handed on to each stage, and those that came there."""
    found, settled = {}, list(settled)
    for name in (stage.shape.name for stage in shape.stages):
        handed = sum(account.handed.get(name, 0) for account in settled)
        found[name] = (handed, sum(account.taken for account in settled if account.aggregation == name))
    return found


def count_stages(shape: BoundPlan, ledger: Ledger, scanned: Sequence[LaneAccount], settled: Sequence[BucketAccount]) -> None:
    """What became of rows on their ways into stages, of what was withdrawn there, and how many panes came of it."""
    for one in (stage.shape for stage in shape.stages):
        root = next(first for first in shape.every if first.name == root_of(one.name))
        sure = sum(account.counts.get(root.counter("ahead"), 0) for account in scanned)
        pairs = sum(account.counts.get(one.counter("ahead_pairs"), 0) for account in scanned)
        for index, output in enumerate(one.plan.outputs):
            counts = ledger.counts_of(output.name)
            counts.update(on_time=pairs, rows_on_time=sure)
            for account in settled:
                counts.update(account.ways.get(output.name, {}))
                if account.aggregation == one.name:
                    counts.update(account.counts[index])
            ledger.look(output.name, [a.looked_from[output.name] for a in settled if output.name in a.looked_from])
            counts.update(panes=sum(rows for account in settled for name, _, rows in account.panes if name == output.name))
        ledger.rows[one.counter("pairs")] += pairs + sum(account.way_pairs.get(one.name, 0) for account in settled)
