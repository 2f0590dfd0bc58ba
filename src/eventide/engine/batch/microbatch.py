"""One micro-batch, a plain function of the ledger before it and of what its lanes read: advance, judge, store, fire."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from eventide.engine.batch.bucket_task import Batch, BucketAccount, Settling, deduplicate
from eventide.engine.batch.clocks import LaneClocks
from eventide.engine.batch.conservation import check_conservation
from eventide.engine.batch.join_task import JOINED, deduplicate_side, settle_join
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.pairs import pair_kinds
from eventide.engine.batch.runner import Runner
from eventide.engine.batch.stages import count_stages, handed_on, settle_stage
from eventide.kernel.bound_plan import Above, BoundPlan, counter_of
from eventide.kernel.fire import Moment
from eventide.kernel.sides import JoinPlan
from eventide.model.event import LaneId, Position, end_of
from eventide.model.frontier import Frontier
from eventide.model.sweep import BEFORE_ALL, Swept, common_position, sweep
from eventide.model.time import MAX_TIME
from eventide.model.window import Sliding
from eventide.state.ledger import Ledger
from eventide.state.store import Part, PartKind, Store

SETTLED = (PartKind.PARTIAL, PartKind.ROWS, PartKind.FIRSTS, PartKind.SAID, PartKind.SESSIONS)
"""What a bucket of an aggregation is settled from."""
ENDING = (PartKind.PARTIAL, PartKind.SAID, PartKind.STANDING)
"""What nobody asks for once the last window that it is about has ended."""


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
    waiting: dict[str, int]
    """Rows beyond the sweep for each aggregation, counted where they are stored."""
    audited: list[str] = field(default_factory=list)
    """Files of the rows that went on, where they are an output themselves."""
    beyond: Counter[str] = field(default_factory=Counter)
    """Rows beyond the sweep on each side of a join."""
    handed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Changes of results that were handed on to each stage, and those that came there."""


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
        ledger = Ledger(frontier=frontier.state)
        ledger.seat([output.name for output in self.shape.outputs], self.shape.reads)
        return ledger

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
            ledger.rows.update({name: number for name, number in account.counts.items() if "value_" not in name})
            ledger.by_source.setdefault(str(account.lane[0]), Counter()).update(rows=account.counts.get("in", 0))

    def _advance(self, ledger: Ledger, before: Ledger, given: BatchInput) -> tuple[Batch, Swept]:
        upto = self._sweep_to(ledger, given)
        if ledger.swept is not None and upto < ledger.swept:
            upto = ledger.swept
        frontier = Frontier([s.timing for s in self.shape.plan.sources], self.shape.plan.when_all_idle, ledger.frontier)
        was, told = frontier.watermark, ledger.progress
        swept, ledger.progress = sweep(frontier, told, upto)
        if given.drain:
            frontier.drain()
        clocks = LaneClocks.of(self.store, ledger, swept, was, told) if self.shape.keeps_clocks else None
        if clocks is not None and frontier.state.watermark is not None:
            # Where nothing waits the lanes have said what their clocks are; where the sweep stops within a lane, only what a window can ask for.
            between = self.shape.needs_each_step and ledger.progress and not given.drain
            exact = clocks.after(upto, self.store) if between else clocks.floor
            frontier.state.watermark = max(frontier.state.watermark, clocks.floor, exact)
        moment = Moment(was, frontier.watermark, given.clock)
        keep = frozenset(output.name for output, keeps in zip(self.shape.outputs, self.diverts, strict=True) if keeps)
        batch = Batch(given.number, moment, tuple(swept.steps), ledger.swept, upto, keep, self.kinds, clocks, ledger.joined_at)
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
        if self.shape.join is not None:
            return self._settle_join(ledger, batch, self.shape.join)
        accounts = []
        if self.shape.deduplicates:
            parts = [p for p in ledger.parts if p.kind in (PartKind.ROWS, PartKind.KEPT)]
            accounts += self._per_bucket(deduplicate, batch, [(self.shape, parts)])
            self._apply(ledger, accounts)
        return accounts + self._settle_windows(ledger, batch, self.shape.every)

    def _settle_join(self, ledger: Ledger, batch: Batch, join: JoinPlan) -> list[BucketAccount]:
        accounts = []
        for side in join.sides:
            if side.dedupe_within is not None:
                parts = [p for p in ledger.parts if p.kind in (PartKind.ROWS, PartKind.KEPT) and p.aggregation == side.name]
                accounts += self._per_bucket(deduplicate_side, batch, [(self.shape, parts)])
        self._apply(ledger, accounts)
        sides = [side.name for side in join.sides]
        own = [p for p in ledger.parts if p.kind in JOINED and p.aggregation in sides]
        settled = self._per_bucket(settle_join, batch, [(self.shape, own)])
        self._apply(ledger, settled)
        return (
            accounts
            + settled
            + self._settle_windows(ledger, replace(batch, kinds=pair_kinds(join, batch.kinds)), self.shape.beside)
        )

    def _settle_windows(self, ledger: Ledger, batch: Batch, shapes: Iterable[BoundPlan]) -> list[BucketAccount]:
        own = [(one, [p for p in ledger.parts if p.aggregation == one.name and p.kind in SETTLED]) for one in shapes]
        settled = self._per_bucket(_settle_bucket, batch, own)
        self._apply(ledger, settled)
        return settled + self._settle_stages(ledger, batch, shapes)

    def _settle_stages(self, ledger: Ledger, batch: Batch, shapes: Iterable[BoundPlan]) -> list[BucketAccount]:
        """A job for each level of stages, once what it reads has been settled."""
        accounts, level = list[BucketAccount](), [stage for one in shapes for stage in one.above]
        while level:
            own = [(stage, [p for p in ledger.parts if p.aggregation == stage.shape.name]) for stage in level]
            settled = self._per_bucket(settle_stage, batch, own)
            self._apply(ledger, settled)
            accounts, level = accounts + settled, [stage for below in level for stage in below.shape.above]
        return accounts

    def _per_bucket(
        self,
        work: Callable[..., BucketAccount],
        batch: Batch,
        shares: Sequence[tuple[BoundPlan | Above, list[Part]]],
    ) -> list[BucketAccount]:
        """A task for each bucket of each aggregation that has parts in it."""
        tasks: list[Callable[[], str]] = []
        for shape, parts in shares:
            for bucket in range(self.shape.buckets):
                here = [p for p in parts if p.bucket == bucket]
                if here:
                    tasks.append(partial(_line, work, shape, self.store, batch, bucket, here))
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
        for shape in self.shape.every:
            self._count(ledger, given, shape, [a for a in settled if a.counts and a.aggregation == shape.name])
        count_stages(self.shape, ledger, given.accounts, settled)
        for account in settled:
            for place, late in account.late_by_source.items():
                ledger.by_source[place].update({counter_of(account.aggregation, "late"): late})
            ledger.rows.update(account.rows)
        ledger.rows.update(duplicates=sum(a.duplicates for a in settled))
        return BatchResult(
            ledger,
            self._files(settled, "panes"),
            self._files(settled, "late"),
            [path for account in given.accounts for path in account.dead],
            sorted(known - live),
            ledger.rows - before.rows,
            {
                shape.name: sum(a.waiting for a in settled if not a.counts or a.aggregation == shape.name)
                for shape in self.shape.every
            },
            [*(path for a in given.accounts for path in a.audited), *(path for a in settled for path in a.audited)],
            sum((Counter(a.beyond) for a in settled), Counter()),
            handed_on(self.shape, settled),
        )

    def _count(self, ledger: Ledger, given: BatchInput, shape: BoundPlan, settled: list[BucketAccount]) -> None:
        """What one aggregation judged: rows that were ahead in the scan, and those judged in its buckets."""
        sure, pairs = (sum(a.counts.get(shape.counter(n), 0) for a in given.accounts) for n in ("ahead", "ahead_pairs"))
        for index, output in enumerate(shape.plan.outputs):
            counts = ledger.counts_of(output.name)
            for account in settled:
                counts.update(account.counts[index])
            counts.update(on_time=pairs, rows_on_time=sure)
            counts.update(panes=sum(n for a in settled for name, _, n in a.panes if name == output.name))
            ledger.look(output.name, [a.looked_from[output.name] for a in settled if output.name in a.looked_from])
        judged = {"judged": sum(a.judged for a in settled), "pairs": pairs + sum(a.pairs for a in settled)}
        ledger.rows.update({shape.counter(what): number for what, number in judged.items()})

    def _files(self, settled: list[BucketAccount], what: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {output.name: [] for output in self.shape.outputs}
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
        if part.kind in (PartKind.KEPT, PartKind.SIDE):
            return True
        if part.output and part.output not in self.shape.reads:
            return False
        shape = next((one for one in self.shape.nodes if one.name == part.aggregation), None)
        if shape is None:
            return False
        window, now = shape.plan.window, batch.moment.now
        if now is None or not isinstance(window, Sliding) or part.kind not in ENDING:
            return True
        widest = max(shape.plan.allowances)
        end = part.high if part.kind == PartKind.SAID else window.last_end(part.high)
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
