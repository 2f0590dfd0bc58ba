"""The lanes brought together: W's steps under a bound of zero, and from them the bound that each row needs."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.kernel.columns import ARRIVAL, OFFSET
from eventide.model.event import LaneId, end_of
from eventide.model.frontier import Frontier, SourceTiming
from eventide.model.lane import Progress
from eventide.model.sweep import sweep
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.model.window import Sliding
from eventide.tuning.curve import ALWAYS
from eventide.tuning.lane_scan import END, NUMBER, WINDOWS, Question

STEP_SCHEMA = {
    "arrival": pl.Int64, "source": pl.Int64, "lane": pl.String, "offset": pl.Int64, "mark": pl.Int64, "newest": pl.Int64,
}  # fmt: skip


def packed(frame: pl.DataFrame) -> bytes:
    """A frame as bytes for the shuffle."""
    body = io.BytesIO()
    frame.write_ipc(body, compression="lz4")
    return body.getvalue()


def unpacked(body: bytes) -> pl.DataFrame:
    """A frame from its bytes."""
    return pl.read_ipc(io.BytesIO(body))


def common_steps(question: Question, lanes: dict[LaneId, pl.DataFrame], without: LaneId | None = None) -> pl.DataFrame:
    """W under a bound of zero, step by step on the grid, with the newest event time that any lane had seen by then.

    The lane in a step's position is the one that had held W until then.
    """
    progress = [
        Progress((arrival, lane[0], lane[1], offset), top, until, joins)
        for lane, steps in lanes.items()
        if lane != without
        for arrival, offset, top, until, joins in steps.iter_rows()
    ]
    # Every lane that history knows is waited for from the start, as the partitions of a topic are.
    timing = [
        SourceTiming(tuple(sorted(lane[1] for lane in lanes if lane[0] == index and lane != without)), idle)
        for index, idle in enumerate(question.idle_after)
    ]
    swept, _ = sweep(Frontier(timing), progress, end_of(MAX_TIME))
    grid, rows, last = question.resolution, [], None
    for step in swept.steps:
        mark = None if step.watermark is None else step.watermark // grid * grid
        if mark is not None and mark != last:
            rows.append((*step.position, mark))
            last = mark
    found = pl.DataFrame(rows, schema=dict(list(STEP_SCHEMA.items())[:5]), orient="row")
    return found.with_columns(pl.Series("newest", _newest(found, lanes), dtype=pl.Int64))


def _newest(steps: pl.DataFrame, lanes: dict[LaneId, pl.DataFrame]) -> np.ndarray:
    """The largest event time known at each step."""
    known = [
        tops.select("arrival", "offset", "top").with_columns(pl.lit(lane[0]).alias("source"), pl.lit(lane[1]).alias("lane"))
        for lane, tops in lanes.items()
    ]
    order = ["arrival", "source", "lane", "offset"]
    every = pl.concat(known).drop_nulls("top").select(*order, "top").with_columns(pl.lit(False).alias("asks"))
    asked = steps.select(*order).with_columns(pl.lit(None, dtype=pl.Int64).alias("top"), pl.lit(True).alias("asks"))
    both = pl.concat([every.cast({"source": pl.Int64}), asked]).sort(*order, "asks")
    both = both.with_columns(pl.col("top").cum_max().forward_fill())
    return both.filter("asks")["top"].fill_null(MIN_TIME).to_numpy()


def mark_before(steps: pl.DataFrame, lane: LaneId, rows: pl.DataFrame) -> pl.Series:
    """W's step just before each row of a lane, under a bound of zero; null while W was undefined."""
    after = (pl.col("source") > lane[0]) | ((pl.col("source") == lane[0]) & (pl.col("lane") > lane[1]))
    same = (pl.col("source") == lane[0]) & (pl.col("lane") == lane[1])
    place = pl.when(same).then(pl.col("offset")).when(after).then(MAX_TIME).otherwise(MIN_TIME)
    moves = steps.select("arrival", place.alias("offset"), pl.lit(1, dtype=pl.Int8).alias("kind"), "mark", _none("index"))
    asks = rows.select(
        pl.col(ARRIVAL).alias("arrival"),
        pl.col(OFFSET).alias("offset"),
        pl.lit(0, dtype=pl.Int8).alias("kind"),
        _none("mark"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("index"),
    )
    # Where a row itself makes the step, the row is judged by what stood before it.
    both = pl.concat([moves, asks]).sort("arrival", "offset", "kind", maintain_order=True)
    both = both.with_columns(pl.col("mark").forward_fill())
    return both.filter(pl.col("kind") == 0).sort("index")["mark"]


def _none(name: str) -> pl.Expr:
    return pl.lit(None, dtype=pl.Int64).alias(name)


@dataclass
class Judged:
    """What one share of the rows gave: needs by lane, and the least need seen in each window."""

    needs: dict[tuple[LaneId, str], Counter[int]] = field(default_factory=dict)
    """By lane and cause."""
    windows: dict[int, int] = field(default_factory=dict)
    """End of a window: the least bound that some row of it needs."""

    def take(self, question: Question, steps: pl.DataFrame, lane: LaneId, cause: str, rows: pl.DataFrame) -> None:
        """Judge rows that were counted together."""
        if rows.is_empty():
            return
        judged = rows.with_columns(mark_before(steps, lane, rows).alias("__mark"))
        slide = question.window.slide if isinstance(question.window, Sliding) else 1
        each = judged.with_columns(pl.int_ranges(pl.lit(0), pl.col(WINDOWS)).alias("__nth")).explode("__nth")
        each = each.with_columns((pl.col(END) + pl.col("__nth") * slide).alias(END))
        need = (pl.col("__mark") - pl.col(END)).fill_null(ALWAYS)
        each = each.with_columns(pl.when(need < 0).then(ALWAYS).otherwise(need).alias("__need"))
        counts = each.group_by("__need").agg(pl.col(NUMBER).sum())
        self.needs.setdefault((lane, cause), Counter()).update(dict(counts.iter_rows()))
        for end, least in each.group_by(END).agg(pl.col("__need").min()).iter_rows():
            self.windows[end] = min(self.windows.get(end, least), least)

    def add(self, other: Judged) -> None:
        """Another share."""
        for key, counts in other.needs.items():
            self.needs.setdefault(key, Counter()).update(counts)
        for end, least in other.windows.items():
            self.windows[end] = min(self.windows.get(end, least), least)


def judge_all(question: Question, steps: pl.DataFrame, shares: Iterable[tuple[LaneId, str, bytes]]) -> Judged:
    """Judge every share of rows, one after the other."""
    judged = Judged()
    for lane, cause, body in shares:
        judged.take(question, steps, lane, cause, unpacked(body))
    return judged
