"""One micro-batch, a plain function of the ledger before it and of what its lanes read: advance, judge, store, fire."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from eventide.engine.batch.bucket_task import Batch, BucketAccount, Settling, deduplicate
from eventide.engine.batch.clocks import LaneClocks
from eventide.engine.batch.conservation import check_conservation
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.runner import Runner
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.fire import Moment
from eventide.model.event import LaneId, Position, end_of
from eventide.model.frontier import Frontier
from eventide.model.sweep import BEFORE_ALL, Swept, common_position, sweep
from eventide.model.time import MAX_TIME
from eventide.model.window import Sliding
from eventide.state.ledger import Ledger
from eventide.state.store import Part, PartKind, Store


@dataclass(frozen=True)
class BatchInput:
    """What was read for a batch: an account for each lane with rows, and which lanes are known to be at their end."""

    number: int
    clock: int
    accounts: list[LaneAccount]
    at_end: frozenset[LaneId] | None
    """Lanes read up to the batch's clock; None: all of them (the source cannot tell, so it is judged by batch)."""
    lanes: frozenset[LaneId] = frozenset()
    """Lanes that the sources know of, heard or not."""
    drain: bool = False
    sources: dict[str, object] = field(default_factory=dict)
    read_to: dict[LaneId, int] = field(default_factory=dict)
    """Lanes that are not at their end, and the time up to which all that could be seen of them was read."""


@dataclass
class BatchResult:
    """A batch that was computed and not yet delivered."""

    ledger: Ledger
    panes: dict[str, list[str]]
    """Files of panes by output."""
    late: dict[str, list[str]]
    dead: list[str]
    garbage: list[str]
    """Files that no part refers to any more, to be removed after the commit."""
    counts: Counter[str]
    waiting: int
    """Rows beyond the sweep, counted where they are stored."""


@dataclass(frozen=True)
class Engine:
    """What stays the same from batch to batch."""

    shape: BoundPlan
    kinds: dict[str, pl.DataType]
    diverts: tuple[bool, ...]
    store: Store
    runner: Runner

    def first_ledger(self) -> Ledger:
        """Before anything was read."""
        frontier = Frontier([s.timing for s in self.shape.plan.sources], self.shape.plan.when_all_idle)
        return Ledger(frontier=frontier.state, outputs={o.name: Counter() for o in self.shape.plan.outputs})

    def process(self, before: Ledger, given: BatchInput) -> BatchResult:
        """Advance the frontier through what was read, then settle every bucket of keys."""
        ledger = copy.deepcopy(before)
        ledger.batch = given.number
        ledger.committed_by(given.number, self.store.attempt)
        ledger.sources.update(given.sources)
        self._take_accounts(ledger, given)
        batch, swept = self._advance(ledger, before, given)
        settled = self._settle(ledger, batch)
        self._remember_joinings(ledger, swept)
        result = self._close_books(ledger, before, given, settled, batch)
        check_conservation(self.store, self.shape, self.diverts, before, result, given)
        return result

    def _take_accounts(self, ledger: Ledger, given: BatchInput) -> None:
        for account in given.accounts:
            ledger.carries[account.lane] = account.carry
            ledger.progress += account.progress
            ledger.parts += account.parts
            ledger.rows.update({name: number for name, number in account.counts.items() if not name.startswith("value_")})
            ledger.by_source.setdefault(str(account.lane[0]), Counter()).update(rows=account.counts.get("in", 0))

    def _advance(self, ledger: Ledger, before: Ledger, given: BatchInput) -> tuple[Batch, Swept]:
        upto = self._sweep_to(ledger, given)
        if ledger.swept is not None and upto < ledger.swept:
            upto = ledger.swept
        frontier = Frontier([s.timing for s in self.shape.plan.sources], self.shape.plan.when_all_idle, ledger.frontier)
        was = frontier.watermark
        swept, ledger.progress = sweep(frontier, ledger.progress, upto)
        if given.drain:
            frontier.drain()
        clocks = LaneClocks.of(self.store, ledger, swept, was) if self.shape.keeps_clocks else None
        if clocks is not None and frontier.state.watermark is not None:
            frontier.state.watermark = max(frontier.state.watermark, clocks.floor)
        moment = Moment(was, frontier.watermark, given.clock)
        batch = Batch(
            given.number, moment, tuple(swept.steps), ledger.swept, upto, self.diverts, self.kinds, clocks, ledger.joined_at
        )
        ledger.swept = upto
        return batch, swept

    def _sweep_to(self, ledger: Ledger, given: BatchInput) -> Position:
        """The least of the lanes' positions; a lane at its end counts as read up to the clock."""
        if given.drain:
            return end_of(MAX_TIME)
        here = end_of(given.clock)
        if given.at_end is None:
            return here
        lanes = {*ledger.frontier.lanes, *ledger.carries, *given.lanes}
        return common_position([here if lane in given.at_end else _read_to(ledger, given, lane) for lane in lanes] or [here])

    def _settle(self, ledger: Ledger, batch: Batch) -> list[BucketAccount]:
        accounts = []
        if self.shape.plan.dedupe_within is not None:
            accounts += self._per_bucket(deduplicate, ledger, batch, (PartKind.ROWS, PartKind.KEPT))
            self._apply(ledger, accounts)
        settled = self._per_bucket(
            _settle_bucket, ledger, batch, (PartKind.PARTIAL, PartKind.ROWS, PartKind.FIRSTS, PartKind.SAID, PartKind.SESSIONS)
        )
        self._apply(ledger, settled)
        return accounts + settled

    def _per_bucket(
        self, work: Callable[..., BucketAccount], ledger: Ledger, batch: Batch, kinds: tuple[PartKind, ...]
    ) -> list[BucketAccount]:
        tasks: list[Callable[[], str]] = []
        for bucket in range(self.shape.buckets):
            parts = [p for p in ledger.parts if p.bucket == bucket and p.kind in kinds]
            if parts:
                tasks.append(partial(_line, work, self.shape, self.store, batch, bucket, parts))
        return [BucketAccount.from_json(line) for line in self.runner.run(tasks)]

    def _apply(self, ledger: Ledger, accounts: list[BucketAccount]) -> None:
        dropped = {part for account in accounts for part in account.dropped}
        ledger.parts = [p for p in ledger.parts if p not in dropped] + [p for a in accounts for p in a.added]

    def _remember_joinings(self, ledger: Ledger, swept: Swept) -> None:
        for carry in ledger.carries.values():
            if carry.joined is not None and carry.joined in swept.joinings:
                carry.joined_w, carry.joined_known = swept.joinings[carry.joined], True

    def _close_books(
        self, ledger: Ledger, before: Ledger, given: BatchInput, settled: list[BucketAccount], batch: Batch
    ) -> BatchResult:
        ledger.parts = self._still_asked_for(ledger.parts, batch)
        live = {p.path for p in ledger.parts}
        known = {p.path for p in before.parts} | {p.path for a in given.accounts for p in a.parts}
        known |= {p.path for a in settled for p in a.added}
        for index, output in enumerate(self.shape.plan.outputs):
            for account in settled:
                if account.counts:
                    ledger.outputs[output.name].update(account.counts[index])
            sure = sum(a.counts.get("ahead", 0) for a in given.accounts)
            pairs = sum(a.counts.get("ahead_pairs", 0) for a in given.accounts)
            ledger.outputs[output.name].update(on_time=pairs, rows_on_time=sure)
            ledger.outputs[output.name].update(panes=sum(n for a in settled for name, _, n in a.panes if name == output.name))
        for account in settled:
            for place, late in account.late_by_source.items():
                ledger.by_source[place].update(late=late)
        ledger.rows.update(judged=sum(a.judged for a in settled), duplicates=sum(a.duplicates for a in settled))
        ledger.rows.update(pairs=sum(a.pairs for a in settled) + sum(a.counts.get("ahead_pairs", 0) for a in given.accounts))
        return BatchResult(
            ledger,
            self._files(settled, "panes"),
            self._files(settled, "late"),
            [path for account in given.accounts for path in account.dead],
            sorted(known - live),
            ledger.rows - before.rows,
            sum(a.waiting for a in settled),
        )

    def _files(self, settled: list[BucketAccount], what: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {output.name: [] for output in self.shape.plan.outputs}
        for account in settled:
            for name, path, _ in getattr(account, what):
                found[name].append(path)
        return found

    def _still_asked_for(self, parts: list[Part], batch: Batch) -> list[Part]:
        """Without what no later batch asks for. A piece of a clock is asked for until the sweep has reached the end of the next one of its reading.

        Up to that one's first entry it alone tells the lane's watermark: the sweep itself knows it from the end of the reading on.
        """
        alive = [p for p in parts if self._alive(p, batch)]
        before = {(p.path, p.group - 1) for p in alive if p.kind == PartKind.CLOCK}
        kept = {*alive, *(p for p in parts if (p.path, p.group) in before)}
        return [p for p in parts if p in kept]

    def _alive(self, part: Part, batch: Batch) -> bool:
        """Whether a later batch may still ask for a part; what was kept for an output that is no more goes with it."""
        if part.kind in (PartKind.ROWS, PartKind.FIRSTS, PartKind.CLOCK):
            return part.high >= batch.upto[0] if batch.upto != end_of(batch.upto[0]) else part.high > batch.upto[0]
        if part.output and part.output not in {o.name for o in self.shape.plan.outputs}:
            return False
        window, now = self.shape.plan.window, batch.moment.now
        if now is None or not isinstance(window, Sliding) or part.kind not in (PartKind.PARTIAL, PartKind.SAID):
            return True
        widest = max(self.shape.plan.allowances)
        end = window.last_end(part.high) if part.kind == PartKind.PARTIAL else part.high
        return end > now - widest


def _read_to(ledger: Ledger, given: BatchInput, lane: LaneId) -> Position:
    carry = ledger.carries.get(lane)
    own = BEFORE_ALL
    if carry is not None and carry.last_arrival is not None:
        own = (carry.last_arrival, lane[0], lane[1], carry.last_offset)
    return max(own, end_of(given.read_to[lane])) if lane in given.read_to else own


def _line(work: Callable[..., BucketAccount], *arguments: object) -> str:
    return work(*arguments).to_json()


def _settle_bucket(shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> BucketAccount:
    return Settling(shape, store, batch, bucket, parts).run()
