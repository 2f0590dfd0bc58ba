"""The join on a worker, for one bucket of its keys: rows that the sweep has passed are judged, matched, and kept while they may match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from eventide.engine.batch.bucket_task import Batch, BucketAccount, beyond, deduplicate, late_rows, swept_rows
from eventide.engine.batch.lane_task import by_bucket
from eventide.engine.batch.pairs import pair_table
from eventide.kernel import judge
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, BEHIND, TIME
from eventide.kernel.grid import own_end
from eventide.kernel.join import Both, Joining, nothing_kept
from eventide.kernel.keys import one_of_equals
from eventide.kernel.sides import JoinPlan, Side
from eventide.state.store import Part, PartKind, Store

JOINED = (PartKind.ROWS, PartKind.FIRSTS, PartKind.SIDE)
"""What a bucket of a join is settled from."""


def deduplicate_side(shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> BucketAccount:
    """For one bucket of a side's deduplication keys: the first of equal rows goes on to the bucket of its join key."""
    join, side = _join(shape), next(side for side in _join(shape).sides if side.name == parts[0].aggregation)
    account = deduplicate(side.bound(shape), store, replace(batch, kinds=side.kinds(batch.kinds)), bucket, parts)
    account.added = [replace(part, aggregation=side.name) for part in account.added]
    account.rows, account.beyond = {side.counter("duplicates"): account.duplicates}, {side.name: account.waiting}
    if side not in join.counted:
        account.duplicates, account.waiting = 0, 0
    return account


def settle_join(shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> BucketAccount:
    """One bucket of the join in one batch."""
    return JoinSettling(shape, store, batch, bucket, parts).run()


class JoinSettling:
    """One bucket in one batch."""

    def __init__(self, shape: BoundPlan, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> None:
        self.shape, self.join, self.store, self.batch, self.bucket = shape, _join(shape), store, batch, bucket
        self.parts = parts
        # What has counts has judged rows, also where nobody but windows over it reads the join.
        self.account = BucketAccount(bucket, counts=[{} for _ in shape.plan.outputs] or [{}])

    def run(self) -> BucketAccount:
        """Judge, match, tell, and keep what may still match."""
        rows = (self._swept(self.join.sides[0]), self._swept(self.join.sides[1]))
        held = [self._of(side, PartKind.SIDE) for side in self.join.sides]
        if any(len(side) for side in rows) or self._due(held):
            joining = Joining(self.join.bound, rows, (self._kept(0, held[0]), self._kept(1, held[1])), self.batch.moment.now)
            self._count(joining, rows)
            self._tell(joining)
            self._divert(joining)
            self._keep(joining, held)
        return self.account

    def _of(self, side: Side, *kinds: PartKind) -> list[Part]:
        return [part for part in self.parts if part.aggregation == side.name and part.kind in kinds]

    def _swept(self, side: Side) -> pl.DataFrame:
        """The side's rows whose turn has come, each with W at its own position."""
        kind = PartKind.ROWS if side.dedupe_within is None else PartKind.FIRSTS
        kept = self.store.read(self._of(side, kind))
        waiting = beyond(self.batch, kept)
        self.account.beyond[side.name] = waiting
        self.account.waiting += waiting if side in self.join.counted else 0
        return swept_rows(side.bound(self.shape), replace(self.batch, kinds=side.kinds(self.batch.kinds)), kept)

    def _due(self, held: list[list[Part]]) -> bool:
        """Whether W has reached anything that is kept; if not, and nothing came, all stays as it is."""
        before, now = self.batch.moment.before, self.batch.moment.now
        if now is None or now == before:
            return False
        lows = [pl.DataFrame({TIME: [part.low for part in parts]}, schema={TIME: pl.Int64}) for parts in held]
        passed = [self.join.bound.passed(side, pl.lit(now, dtype=pl.Int64)) for side in (0, 1)]
        return any(bool(low.select(gone.any()).item()) for low, gone in zip(lows, passed, strict=True))

    def _kept(self, side: int, parts: list[Part]) -> pl.DataFrame:
        empty = nothing_kept(self.join.sides[side].kinds(self.batch.kinds))
        return pl.concat([empty, *self.store.read(parts)], how="diagonal_relaxed").select(empty.columns)

    def _count(self, joining: Joining, rows: Both) -> None:
        """Rows by verdict, of each side and all together; each is judged once, by the join, whichever outputs read it."""
        total: Counter[str] = Counter()
        for side, counts, judged in zip(self.join.sides, joining.counts, rows, strict=True):
            mine = {**counts, "judged": len(judged)}
            self.account.rows |= {side.counter(what): number for what, number in mine.items()}
            if side in self.join.counted:
                self.account.judged += len(judged)
                total.update(counts)
                total.update({f"rows_{verdict}": number for verdict, number in counts.items()})
                total.update(_causes(judged, self.shape))
                for source, late in judge.late_by_source(judged, self.shape).items():
                    self.account.late_by_source[source] = self.account.late_by_source.get(source, 0) + late
        self.account.pairs = self.account.judged
        self.account.counts = [dict(total) for _ in self.account.counts]

    def _tell(self, joining: Joining) -> None:
        """Null rows into the bucket's own file, of which all batches have one; pairs, which are stated once, into as many as they need."""
        lonely = [piece for piece in joining.lonely() if len(piece)]
        if lonely:
            self._write(pl.concat(lonely), f"bucket-{self.bucket:05d}")
        for number, piece in enumerate(joining.stated_pairs() if self.shape.plan.outputs else ()):
            self._write(piece, f"bucket-{self.bucket:05d}-pairs-{number:06d}")
        self.account.rows["pairs_joined"] = joining.pairs_found
        for piece in joining.pairs() if self.shape.beside else ():
            for one in self.shape.beside:
                cut = by_bucket(one_of_equals(piece, one.keys), one.keys, one.buckets)
                self.account.added += self.store.write(
                    PartKind.FIRSTS, self.batch.number, cut, about=ARRIVAL, aggregation=one.name
                )

    def _write(self, changes: pl.DataFrame, name: str) -> None:
        table = pair_table(changes, self.shape, self.join, self.batch.moment.clock)
        for output in self.shape.plan.outputs:
            path = self.store.write_table(f"panes/{output.name}", self.batch.number, name, table)
            self.account.panes.append((output.name, path, len(table)))

    def _divert(self, joining: Joining) -> None:
        sides = [joining.refused[self.join.sides.index(side)] for side in self.join.counted]
        diverting = [output.name for output in self.shape.plan.outputs if output.name in self.batch.diverts]
        if not diverting or not any(len(side) for side in sides):
            return
        table = late_rows(
            pl.concat([pl.DataFrame(schema=self.batch.kinds), *sides], how="diagonal"), self.shape.plan.generation
        )
        for name in diverting:
            path = self.store.write_table(f"late/{name}", self.batch.number, f"bucket-{self.bucket:05d}", table)
            self.account.late.append((name, path, len(table)))

    def _keep(self, joining: Joining, held: Iterable[list[Part]]) -> None:
        for side, parts, kept, number in zip(self.join.sides, held, joining.kept, joining.together, strict=True):
            self.account.rows[side.counter("evicted")] = number - len(kept)
            self.account.dropped += parts
            self.account.added += self.store.write(
                PartKind.SIDE, self.batch.number, [(self.bucket, kept)], about=TIME, aggregation=side.name
            )


def _causes(rows: pl.DataFrame, shape: BoundPlan) -> dict[str, int]:
    """Late rows by cause: their lane had gone on without them, or W without their lane."""
    late = rows.filter(own_end(pl.col(TIME), shape.plan.window) <= pl.col(judge.W))
    behind = int(late[BEHIND].sum())
    return {judge.DISORDER: behind, judge.IDLENESS: len(late) - behind}


def _join(shape: BoundPlan) -> JoinPlan:
    assert shape.join is not None, "only the buckets of a join are settled here"
    return shape.join
