"""The join of two streams, one bucket of its keys in one batch: rows that the sweep has passed meet those kept, and each other.

How the batch was cut does not show: a row is judged by W at its own position, and the pairs are all that match among the rows that were let in.
Of null rows only what a batch changes in the end is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from eventide.kernel.columns import BEHIND, LANE, MISSED_FIRST, MISSED_LAST, OFFSET, OP, POSITION, SOURCE, TIME, TIMING
from eventide.kernel.grid import first_end
from eventide.kernel.judge import W
from eventide.kernel.matching import Flags, Matches, Times, key_numbers
from eventide.kernel.place import PLACE
from eventide.model.graph import INNER, LEFT, RIGHT, Between, Join
from eventide.model.lateness import Verdict
from eventide.model.pane import INSERT, LATE, ON_TIME, RETRACT

Both = tuple[pl.DataFrame, pl.DataFrame]
"""Of the left, of the right."""

MATCHED, ALONE = "__matched", "__alone"
"""Of a row that is kept: whether it ever had a match, and whether it stands without one."""
PAIR = "__pair"
"""The two rows' places as text: a pair's name."""
BESIDE = tuple(f"{name}_beside" for name in POSITION)
"""Where the earlier row of a pair stands, which orders the pairs of one position."""
LEFT_LATER = "__left_later"
"""Whether the left row of a pair is the later: of two pairs of the same two rows, that one stands second."""
MOST_IN_A_BATCH = 2**32
"""More pairs than a bucket can have in one batch: none of its frames holds as many rows."""
MOST_PAIRS = 250_000
"""So many pairs are made at a time, so that memory follows the rows, not their matches."""

_VERDICT, _ORDER, _NAME, _HIT, _WITHDRAWN, _STATED = "__verdict", "__order", "__name", "__hit", "__withdrawn", "__stated"
_BEFORE = -1
"""The order of a row that was kept: before all that are new."""


@dataclass(frozen=True)
class BoundJoin:
    """The join, with the columns that its pairs show and the names of the sources."""

    join: Join
    columns: tuple[tuple[str, tuple[int, str]], ...]
    """Each column of a pair, with the side and the column there: `model.soundness.joined_columns`."""
    sources: tuple[str, ...]

    @property
    def itself(self) -> bool:
        """Whether a stream is joined with itself: then every row comes on both sides."""
        return self.join.left == self.join.right

    def keys(self, side: int) -> tuple[str, ...]:
        """The columns of a side that must be equal to the other's."""
        return tuple(pair[side] for pair in self.join.on)

    def stands_alone(self, side: int) -> bool:
        """Whether rows of a side are shown without a match."""
        return self.join.how not in (INNER, RIGHT if side == 0 else LEFT)

    def verdict(self) -> pl.Expr:
        """What the join says to a row, by W at its position."""
        within, allowed = self.join.within, self.join.allowed
        if isinstance(within, Between):
            on_time, let_in = pl.col(W) <= pl.col(TIME), pl.col(W) <= pl.col(TIME) + allowed
        else:
            end = first_end(pl.col(TIME), within)
            on_time, let_in = pl.col(W) < end, pl.col(W) < end + allowed
        late = pl.when(let_in).then(pl.lit(Verdict.ADMITTED.value)).otherwise(pl.lit(Verdict.REFUSED.value))
        return pl.when(on_time).then(pl.lit(Verdict.ON_TIME.value)).otherwise(late)

    def passed(self, side: int, watermark: pl.Expr, allowed: int = 0) -> pl.Expr:
        """Whether no row that is on time, or at most this late, can match a row of a side any more."""
        within = self.join.within
        if not isinstance(within, Between):
            return watermark >= first_end(pl.col(TIME), within) + allowed
        return watermark > pl.col(TIME) + ((within.hi if side == 0 else -within.lo) + allowed)


def nothing_kept(kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    """No rows of a side with these columns, as they are kept."""
    return pl.DataFrame(schema={**kinds, **PLACE, MATCHED: pl.Boolean(), ALONE: pl.Boolean()})


class Joining:
    """One bucket in one batch: what was kept before, what the sweep has passed since (with W), and W after it.

    A stream that is joined with itself gives the same rows on both sides. Pairs are made while they are asked for; all else is known at once.
    """

    def __init__(self, bound: BoundJoin, rows: Both, kept: Both, now: int | None) -> None:
        self.bound, self.now = bound, now
        judged = [side.with_columns(bound.verdict().alias(_VERDICT)) for side in rows]
        self.counts = (_counted(judged[0]), _counted(judged[1]))
        """Rows of each side by verdict."""
        self.refused: Both = (_missed(judged[0]), _missed(judged[1]))
        """Each says W and, as what it missed, its own time."""
        new = _ordered([side.filter(pl.col(_VERDICT) != Verdict.REFUSED.value) for side in judged])
        self._sides: Both = (_together(kept[0], new[0]), _together(kept[1], new[1]))
        self._old = (len(kept[0]), len(kept[1]))
        keys = key_numbers(*self._sides, bound.join.on)
        self._found = self._matches(keys)
        self._own = self._with_itself(keys)
        self._flags = (self._flagged(0), self._flagged(1))

    @property
    def together(self) -> tuple[int, int]:
        """How many rows of each side met: those kept before, and those let in since."""
        return len(self._sides[0]), len(self._sides[1])

    @property
    def pairs_found(self) -> int:
        """How many pairs there are, counted without making them."""
        return sum(int(matches.count.sum()) for matches, *_ in self._found) - int(
            0 if self._own is None else self._own[0].sum()
        )

    @property
    def kept(self) -> Both:
        """The rows that a later one may still match, each with what became of it so far."""
        return self._kept(0), self._kept(1)

    def changes(self) -> Iterator[pl.DataFrame]:
        """Null rows withdrawn and stated, then pairs, in pieces: the pair's name, its event time, its columns, op and timing."""
        yield from self.lonely()
        yield from self.stated_pairs()

    def lonely(self) -> Iterator[pl.DataFrame]:
        """Null rows that are withdrawn, and that are stated."""
        for side in (0, 1):
            for op, flag in ((RETRACT, _WITHDRAWN), (INSERT, _STATED)):
                rows = self._flags[side].filter(flag)
                if len(rows):
                    yield self._lonely(side, rows, op)

    def stated_pairs(self) -> Iterator[pl.DataFrame]:
        """Pairs, in pieces."""
        for left, right in self._pairs():
            late = _later(left, right, _VERDICT) == Verdict.ADMITTED.value
            timing = late.replace_strict({True: LATE, False: ON_TIME}, return_dtype=pl.String).alias(TIMING)
            yield self._shown(left, right).with_columns(pl.lit(INSERT).alias(OP), timing)

    def pairs(self) -> Iterator[pl.DataFrame]:
        """Pairs as rows of their own, in pieces: at the later position with W as it was there, beside the earlier."""
        for left, right in self._pairs():
            placed = [_later(left, right, name) for name in (*POSITION, W, BEHIND)]
            beside = [_earlier(left, right, name).alias(here) for name, here in zip(POSITION, BESIDE, strict=True)]
            yield (
                self._shown(left, right)
                .drop(PAIR)
                .with_columns(*placed, *beside, (left[_ORDER] > right[_ORDER]).alias(LEFT_LATER))
            )

    def _matches(self, keys: tuple[Times, Times]) -> list[tuple[Matches, slice, slice]]:
        """New rows of the left with all of the right, then those kept with new ones of the right: the two stretches of rows, and what matches."""
        times, within = [self._times(side) for side in self._sides], self.bound.join.within
        least, most = (within.lo, within.hi) if isinstance(within, Between) else (0, 0)
        found = []
        for here, there in ((slice(self._old[0], None), slice(0, None)), (slice(0, self._old[0]), slice(self._old[1], None))):
            left = times[0][here]
            matches = Matches.of((keys[0][here], keys[1][there]), left + least, left + most, times[1][there])
            found.append((matches, here, there))
        return found

    def _times(self, side: pl.DataFrame) -> Times:
        """What of two rows must be near: their times, or the ends of their windows."""
        within = self.bound.join.within
        time = pl.col(TIME) if isinstance(within, Between) else first_end(pl.col(TIME), within)
        return side.select(time).to_series().to_numpy()

    def _with_itself(self, keys: tuple[Times, Times]) -> tuple[Flags, Flags] | None:
        """Which new rows of each side, where a stream is joined with itself, match themselves though that is not asked for."""
        join = self.bound.join
        near = not isinstance(join.within, Between) or join.within.lo <= 0 <= join.within.hi
        if not self.bound.itself or join.self_pairs or not near:
            return None
        new = [
            pl.DataFrame({_ORDER: side[_ORDER][old:], "__key": key[old:]})
            for side, key, old in zip(self._sides, keys, self._old, strict=True)
        ]
        return _equal_keys(new[0], new[1]), _equal_keys(new[1], new[0])

    def _hits(self, side: int) -> Flags:
        """Which rows of a side have a match that they did not have before."""
        found = np.zeros(len(self._sides[side]), dtype=np.int64)
        for matches, *stretch in self._found:
            rows = found[stretch[side]]
            rows += matches.per_left(len(rows)) if side == 0 else matches.per_right()
        if self._own is not None:
            found[self._old[side] :] -= self._own[side]
        return found > 0

    def _flagged(self, side: int) -> pl.DataFrame:
        """A side's rows with what becomes of them in this batch."""
        hit, gone = pl.col(_HIT), self._passed(side) if self.bound.stands_alone(side) else pl.lit(False)
        rows = self._sides[side].with_columns(
            pl.col(MATCHED).fill_null(False), pl.col(ALONE).fill_null(False), pl.Series(_HIT, self._hits(side))
        )
        rows = rows.with_columns(
            (pl.col(ALONE) & hit).alias(_WITHDRAWN),
            (~pl.col(MATCHED) & ~pl.col(ALONE) & ~hit & gone).alias(_STATED),
            (pl.col(MATCHED) | hit).alias(MATCHED),
        )
        return rows.with_columns(((pl.col(ALONE) & ~hit) | pl.col(_STATED)).alias(ALONE))

    def _passed(self, side: int, allowed: int = 0) -> pl.Expr:
        return pl.lit(False) if self.now is None else self.bound.passed(side, pl.lit(self.now, dtype=pl.Int64), allowed)

    def _kept(self, side: int) -> pl.DataFrame:
        rows = self._flags[side].filter(~self._passed(side, self.bound.join.allowed))
        return rows.select(*[name for name in rows.columns if not name.startswith("__")], *PLACE, MATCHED, ALONE)

    def _pairs(self) -> Iterator[Both]:
        """Pairs, in pieces, as rows of the left and rows of the right beside each other."""
        for matches, here, there in self._found:
            for one, other in matches.pieces(MOST_PAIRS):
                left, right = self._named[0][one + here.start], self._named[1][other + there.start]
                if self._own is not None:
                    apart = (left[_ORDER] != right[_ORDER]) | (left[_ORDER] == _BEFORE)
                    left, right = left.filter(apart), right.filter(apart)
                if len(left):
                    yield left, right

    @cached_property
    def _named(self) -> Both:
        return _with_name(self._sides[0], self.bound.sources), _with_name(self._sides[1], self.bound.sources)

    def _lonely(self, side: int, rows: pl.DataFrame, op: str) -> pl.DataFrame:
        """Rows without a match. One that stood is withdrawn by a late row only: nothing on time could match it any more.

        One is stated because W moved, or at once if W was there already when it came, late.
        """
        at_once = pl.lit(True)
        if op == INSERT:
            at_once = ((pl.col(_VERDICT) == Verdict.ADMITTED.value) & self.bound.passed(side, pl.col(W))).fill_null(False)
        timing = rows.with_columns(pl.when(at_once).then(pl.lit(LATE)).otherwise(pl.lit(ON_TIME)).alias(TIMING))[TIMING]
        named = _with_name(rows, self.bound.sources)
        shown = self._shown(named, None) if side == 0 else self._shown(None, named)
        return shown.with_columns(pl.lit(op).alias(OP), timing)

    def _shown(self, left: pl.DataFrame | None, right: pl.DataFrame | None) -> pl.DataFrame:
        """What is stated of pairs, or of rows without one; of those a key of the left is shown though only the right has it."""
        sides, on = (left, right), dict(self.bound.join.on)
        there = [side for side in sides if side is not None]
        cells = [_pair_name(left, right), pl.select(pl.max_horizontal(side[TIME] for side in there).alias(TIME)).to_series()]
        for name, (side, column) in self.bound.columns:
            shown = sides[side]
            if shown is None and side == 0 and name in on:
                shown, column = there[0], on[name]
            if shown is None:
                cells.append(pl.Series(name, [None], dtype=self._sides[side].schema[column]).new_from_index(0, len(there[0])))
            else:
                cells.append(shown[column].alias(name))
        return pl.DataFrame(cells)


def in_order(pairs: pl.DataFrame, batch: int) -> pl.DataFrame:
    """Pairs as rows in the order in which they appear, which they are numbered by: many may stand at one position.

    Those of a later batch stand after them, also where the one before ended inside an instant.
    """
    sorted_ = pairs.sort([*POSITION, *BESIDE, LEFT_LATER])
    number = pl.int_range(pl.len(), dtype=pl.Int64) + batch * MOST_IN_A_BATCH
    return sorted_.drop(*BESIDE, LEFT_LATER).with_columns(number.alias(OFFSET))


def _counted(rows: pl.DataFrame) -> dict[str, int]:
    found = dict(rows[_VERDICT].value_counts().iter_rows())
    return {verdict.value: found.get(verdict.value, 0) for verdict in Verdict}


def _missed(judged: pl.DataFrame) -> pl.DataFrame:
    refused = judged.filter(pl.col(_VERDICT) == Verdict.REFUSED.value)
    return refused.drop(_VERDICT).with_columns(pl.col(TIME).alias(MISSED_FIRST), pl.col(TIME).alias(MISSED_LAST))


def _ordered(sides: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """The new rows of both sides, each with its place among all of them."""
    places = pl.concat([side.select(POSITION) for side in sides])
    if places.is_empty():
        return [side.with_columns(pl.lit(0, dtype=pl.Int64).alias(_ORDER)) for side in sides]
    sorted_ = places.unique().sort(POSITION).with_row_index(_ORDER)
    return [
        side.join(sorted_, on=list(POSITION), how="left", maintain_order="left").with_columns(pl.col(_ORDER).cast(pl.Int64))
        for side in sides
    ]


def _equal_keys(rows: pl.DataFrame, others: pl.DataFrame) -> Flags:
    """Which rows stand on the other side too, under the same key."""
    beside = rows.join(others, on=_ORDER, how="left", maintain_order="left", suffix="_there")
    return (
        beside.select(((pl.col("__key") == pl.col("__key_there")) & (pl.col("__key") >= 0)).fill_null(False))
        .to_series()
        .to_numpy()
    )


def _together(kept: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """A side's rows, those kept first."""
    return pl.concat([kept.with_columns(pl.lit(_BEFORE, dtype=pl.Int64).alias(_ORDER)), new], how="diagonal_relaxed")


def _later(left: pl.DataFrame, right: pl.DataFrame, name: str) -> pl.Series:
    """A column of the later row of each pair."""
    return right[name].zip_with(right[_ORDER] >= left[_ORDER], left[name])


def _earlier(left: pl.DataFrame, right: pl.DataFrame, name: str) -> pl.Series:
    return left[name].zip_with(right[_ORDER] >= left[_ORDER], right[name])


def _with_name(rows: pl.DataFrame, sources: Sequence[str]) -> pl.DataFrame:
    """Rows with the text of where they stand, all but the offset; lanes are few."""
    lanes = rows.select(SOURCE, LANE).unique()
    texts = [json.dumps([sources[source], lane], ensure_ascii=False)[:-1] + ", " for source, lane in lanes.iter_rows()]
    named = lanes.with_columns(pl.Series(_NAME, texts, dtype=pl.String))
    return rows.join(named, on=[SOURCE, LANE], how="left", maintain_order="left")


def _pair_name(left: pl.DataFrame | None, right: pl.DataFrame | None) -> pl.Series:
    """Such as `[["orders", "0", 17], null]`."""
    parts: list[pl.Series | pl.Expr] = [pl.lit("[")]
    for side, after in ((left, ", "), (right, "]")):
        parts += [pl.lit("null")] if side is None else [side[_NAME], side[OFFSET], pl.lit("]")]
        parts.append(pl.lit(after))
    return pl.select(pl.concat_str(parts).alias(PAIR)).to_series()
