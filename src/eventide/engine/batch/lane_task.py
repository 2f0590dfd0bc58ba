"""The scan on a worker: a lane's rows through the kernel, what it found into the store, a short account back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from eventide.engine.batch.rows import AUDIT
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.bucket import bucket_of
from eventide.kernel.columns import ARRIVAL, DEAD, NO_VALUE, RAW, SLICE
from eventide.kernel.jsontext import json_of
from eventide.kernel.place import DEAD_LETTERS
from eventide.kernel.scan import Arrivals, Found, LaneCarry, LaneScanner
from eventide.kernel.share import Share
from eventide.model.event import LaneId
from eventide.model.lane import Progress
from eventide.state.ledger import carry_from, progress_from
from eventide.state.store import Part, PartKind, Store, lane_name

NO_BUCKET = -1
CLOCK_PIECE = 500_000


@dataclass
class LaneAccount:
    """What the driver hears of one lane's reading."""

    lane: LaneId
    carry: LaneCarry
    progress: list[Progress]
    counts: dict[str, int]
    parts: list[Part]
    dead: list[str]
    """Files of dead letters."""
    observed: list[Any] = field(default_factory=list)
    """What each map of the source saw, in the first account of a task; see `Observer`."""
    witnessed: list[str] = field(default_factory=list)
    """Files that a witness wrote and the driver must hear of."""
    faults: dict[str, str] = field(default_factory=dict)
    """Files of the lane that could not be read, and why."""
    content: str = ""
    """What was read of it, where that can be replaced: of files."""

    @property
    def audited(self) -> list[str]:
        """Files of the rows that went on, where they are an output themselves."""
        return [path for path in self.witnessed if path.startswith(f"{AUDIT}/")]

    @property
    def archived(self) -> list[str]:
        """Files of the archive."""
        return [path for path in self.witnessed if not path.startswith(f"{AUDIT}/")]

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LaneAccount:
        """The account back from its line."""
        raw = json.loads(text)
        return cls(
            lane=(raw["lane"][0], raw["lane"][1]),
            carry=carry_from(raw["carry"]),
            progress=[progress_from(p) for p in raw["progress"]],
            counts=raw["counts"],
            parts=[Part.from_json(p) for p in raw["parts"]],
            dead=raw["dead"],
            observed=raw["observed"],
            witnessed=raw["witnessed"],
            faults=raw["faults"],
            content=raw["content"],
        )


def scan_lane(
    shape: BoundPlan,
    store: Store,
    batch: int,
    lane: LaneId,
    carry: LaneCarry,
    arrivals: Arrivals,
    chunks: Iterable[pl.DataFrame],
) -> LaneAccount:
    """Read one lane's chunks in order and write what the kernel found."""
    witness = shape.witness(batch, lane)
    scanner = LaneScanner(shape, lane, copy.deepcopy(carry), arrivals, witness)
    try:
        for chunk in chunks:
            scanner.read(chunk)
    except BaseException:
        if witness is not None:
            witness.forget()
        raise
    return write_found(shape, store, batch, lane, scanner.carry, scanner.finish())


def write_found(shape: BoundPlan, store: Store, batch: int, lane: LaneId, carry: LaneCarry, found: Found) -> LaneAccount:
    """Put partials, kept rows and dead letters into the store."""
    parts = [part for share in found.shares for part in _share_parts(store, batch, share)]
    if found.clocks:
        parts += store.write(
            PartKind.CLOCK, batch, _pieces(pl.concat(found.clocks)), about=ARRIVAL, output=clock_of(lane), ascending=True
        )
    dead = []
    if found.dead:
        letters = _dead_letters(pl.concat(found.dead, how="diagonal_relaxed"), shape.plan.generation)
        dead.append(store.write_table("dead", batch, lane_name(lane), letters))
    return LaneAccount(lane, carry, found.progress, found.counts, parts, dead, witnessed=found.witnessed)


def _share_parts(store: Store, batch: int, share: Share) -> list[Part]:
    shape, parts = share.shape, list[Part]()
    if share.partials:
        cut = by_bucket(pl.concat(share.partials, how="diagonal"), shape.keys, shape.buckets)
        parts += store.write(PartKind.PARTIAL, batch, cut, about=SLICE, aggregation=shape.name)
    if share.rows:
        kept = pl.concat(share.rows, how="diagonal_relaxed")
        cut = by_bucket(kept, shape.dedupe if shape.deduplicates else shape.keys, shape.buckets)
        parts += store.write(PartKind.ROWS, batch, cut, about=ARRIVAL, aggregation=share.owner)
    return parts


def clock_of(lane: LaneId) -> str:
    """By which name the store has a lane's clock."""
    return f"{lane[0]}/{lane[1]}"


def _pieces(clock: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """A lane's clock in pieces, each of which is read by itself; it belongs to no bucket of keys."""
    return [(NO_BUCKET, clock[start : start + CLOCK_PIECE]) for start in range(0, len(clock), CLOCK_PIECE)]


def by_bucket(frame: pl.DataFrame, keys: tuple[str, ...], buckets: int) -> list[tuple[int, pl.DataFrame]]:
    """A frame cut by the bucket of its keys."""
    if buckets == 1:
        return [(0, frame)]
    cut = frame.with_columns(bucket_of(frame, keys, buckets).alias("__bucket"))
    return [(int(key[0]), part.drop("__bucket")) for key, part in cut.partition_by("__bucket", as_dict=True).items()]


def _dead_letters(rows: pl.DataFrame, generation: int) -> pl.DataFrame:
    """Dead letters with their reason, their bytes and the facts to find them again."""
    own = [c for c in rows.columns if not c.startswith("__")]
    as_text = json_of(own, rows.schema).cast(pl.Binary) if own else pl.lit(None, dtype=pl.Binary)
    as_text = pl.when(pl.col(DEAD) != NO_VALUE).then(as_text)  # a tombstone has no bytes, and none are made up for it
    raw = pl.coalesce(pl.col(RAW), as_text) if RAW in rows.columns else as_text
    placed = rows.with_columns(raw.alias(RAW), pl.lit(generation, dtype=pl.Int64).alias("__generation"))
    return placed.select([column.value.alias(column.name) for column in DEAD_LETTERS])
