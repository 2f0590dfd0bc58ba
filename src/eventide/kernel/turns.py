"""Late rows that are answered one by one, many at once: the n-th row of each window is its n-th turn, and what it makes of the window is a total over its turns so far.

What is said of one window does not hang on another, so turns of different windows need no order among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from eventide.kernel.columns import COVERED, ORDER, SEQUENCE

TURN = "__turn"
FIRST = "__first"
"""Whether a result is the first of its window in this batch: what stood before it is in the store."""
AT_ONCE = 64
"""So many turns of a window are answered together: each of its rows is then copied half as often, on average."""


def totals_in_turn(
    base: pl.DataFrame, fresh: pl.DataFrame, by: Sequence[str], merged: Callable[[pl.DataFrame, list[str]], pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """What each late row makes of its window, by TURN, with the ORDER of the row; a block of turns after the other.

    >>> rows = pl.DataFrame({"end": [9, 9, 5], ORDER: [0, 2, 1], "n": [1, 2, 4]})
    >>> base = pl.DataFrame({"end": [9], "n": [10]})
    >>> adding = lambda frame, by: frame.group_by(by).agg(pl.col("n").sum())
    >>> [block] = totals_in_turn(base, rows, ["end"], adding)
    >>> block.sort(ORDER).select("end", TURN, "n").rows()
    [(9, 0, 11), (5, 0, 4), (9, 1, 13)]
    """
    by = list(by)
    fresh = fresh.with_columns((pl.col(ORDER).rank("dense").over(by).cast(pl.Int64) - 1).alias(TURN))
    for start in range(0, int(fresh[TURN].max()) + 1, AT_ONCE):  # type: ignore[arg-type]
        block = fresh.filter(pl.col(TURN).is_between(start, start + AT_ONCE, closed="left"))
        turns = block.select([*by, TURN, ORDER]).unique()
        last = turns.group_by(by).agg(pl.col(TURN).max().alias("__last"))
        base = base.join(last, on=by, how="semi", nulls_equal=True)
        beneath = base.with_columns(pl.lit(start, dtype=pl.Int64).alias(TURN))
        rows = pl.concat([beneath, block.drop(ORDER)], how="diagonal_relaxed").join(last, on=by, nulls_equal=True)
        spread = rows.with_columns(pl.int_ranges(TURN, pl.col("__last") + 1).alias(TURN)).drop("__last").explode(TURN)
        totals = merged(spread, [*by, TURN])
        ended = last.rename({"__last": TURN})
        base = totals.join(ended, on=[*by, TURN], how="semi", nulls_equal=True).drop(TURN)
        yield totals.join(turns, on=[*by, TURN], nulls_equal=True)


def what_stood_before(
    both: pl.DataFrame, by: Sequence[str], names: Sequence[str], absence: tuple[str, str] | None
) -> pl.DataFrame:
    """Results beside what was said of their windows; of several in turn each but the first beside the one before it.

    Where results may be absent: the columns that say whether one is there, and whether nothing stands.
    """
    both = both.with_columns(pl.col(SEQUENCE).fill_null(-1), pl.lit(True).alias(FIRST))
    if TURN not in both.columns:
        return both

    def previous(name: str) -> pl.Expr:
        return pl.col(name).shift(1).over(list(by), order_by=TURN)

    first = pl.col(TURN) == pl.col(TURN).min().over(list(by))
    was = [pl.when(first).then(pl.col(f"__was_{n}")).otherwise(previous(n)).alias(f"__was_{n}") for n in (*names, COVERED)]
    if absence is not None:
        there, old = absence[0], f"__was_{absence[1]}"
        was.append(pl.when(first).then(pl.col(old)).otherwise(~previous(there)).alias(old))
    return both.with_columns(*was, first.alias(FIRST))


def numbered(both: pl.DataFrame, by: Sequence[str], says: str) -> pl.DataFrame:
    """The sequence before each result, where a column tells which of them are said."""
    if TURN not in both.columns:
        return both
    said = pl.col(says).cast(pl.Int64)
    return both.with_columns(pl.col(SEQUENCE) + (said.cum_sum().over(list(by), order_by=TURN) - said))


def last_in_turn(both: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """What stands of each window after its last turn."""
    return both if TURN not in both.columns else both.filter(pl.col(TURN) == pl.col(TURN).max().over(list(by)))
