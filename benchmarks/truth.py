"""The answers of a case computed another way: all rows at once, W before each of them, and what was on time for its window.

Nothing of Eventide takes part. W is the least of the lanes' running maxima of event time less the bound, once all have been heard.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from cases import LATENESS, Case

SECOND = 1_000_000


def micros(span: str) -> int:
    return int(span.split()[0]) * SECOND


def with_watermark(rows: pl.DataFrame, lanes: int) -> tuple[pl.DataFrame, int]:
    """Rows in order of arrival, each with W before it; and W after the last one."""
    clocks = [
        pl.when(pl.col("lane") == lane).then(pl.col("time")).cum_max().forward_fill().alias(f"lane_{lane}")
        for lane in range(lanes)
    ]
    timed = rows.with_columns(pl.col("ts").dt.epoch("us").alias("time")).with_columns(clocks)
    heard = [pl.col(f"lane_{lane}") for lane in range(lanes)]
    least = pl.when(pl.all_horizontal(clock.is_not_null() for clock in heard)).then(pl.min_horizontal(heard))
    timed = timed.with_columns((least - micros(LATENESS)).alias("w_after"))
    last = timed["w_after"][-1]
    return timed.with_columns(pl.col("w_after").shift(1).fill_null(-(2**62)).alias("w")).drop("w_after"), int(last)


def answers(case: Case, rows: pl.DataFrame, lanes: int, allowed: int = 0) -> pl.DataFrame:
    """Results of all windows that have closed by the end: end, key, total, n."""
    rows, last = with_watermark(rows, lanes)
    if case.dedupe:
        rows = first_of_equals(rows, micros(LATENESS))
    if case.gap:
        return sessions(rows, micros(case.gap), last)
    size, slide = micros(case.size), micros(case.slide or case.size)
    ends = pl.int_ranges(
        (pl.col("time") - size) // slide * slide + slide + size, pl.col("time") // slide * slide + size + 1, slide
    )
    pieces = []
    for piece in rows.iter_slices(500_000):
        pairs = piece.select("time", "w", "key", "value").with_columns(ends.alias("end")).explode("end")
        pairs = pairs.filter((pl.col("w") < pl.col("end") + allowed) & (pl.col("end") <= last))
        pieces.append(
            pairs.group_by("end", "key").agg(pl.col("value").sum().alias("total"), pl.len().cast(pl.Int64).alias("n"))
        )
    return pl.concat(pieces).group_by("end", "key").agg(pl.col("total", "n").sum()).sort("end", "key")


def first_of_equals(rows: pl.DataFrame, within: int) -> pl.DataFrame:
    """Without rows that repeat the id of an earlier one within a span of event time, while it is remembered."""
    kept: dict[int, list[int]] = {}
    marks = []
    for id_, time, w in rows.select("id", "time", "w").iter_rows():
        times = kept.get(id_)
        if times is None:
            kept[id_] = [time]
            marks.append(True)
            continue
        first = not any(abs(time - other) < within and w < other + within for other in times)
        if first:
            times.append(time)
        marks.append(first)
    return rows.filter(pl.Series(marks))


def sessions(rows: pl.DataFrame, gap: int, last: int) -> pl.DataFrame:
    """Sessions, row by row."""
    live: dict[int, list[list[int]]] = {}
    done = []
    for key, time, value, w in rows.select("key", "time", "value", "w").iter_rows():
        mine = live.setdefault(key, [])
        done += [(one[1], key, one[2], one[3]) for one in mine if one[1] <= w]
        mine[:] = [one for one in mine if one[1] > w]
        joined = [one for one in mine if one[0] <= time + gap and time <= one[1]]
        start, end = min([time, *(one[0] for one in joined)]), max([time + gap, *(one[1] for one in joined)])
        if end <= w:
            continue
        for one in joined:
            mine.remove(one)
        mine.append([start, end, value + sum(one[2] for one in joined), 1 + sum(one[3] for one in joined)])
    done += [(one[1], key, one[2], one[3]) for key, mine in live.items() for one in mine if one[1] <= last]
    return pl.DataFrame(done, schema=dict.fromkeys(("end", "key", "total", "n"), pl.Int64), orient="row").sort("end", "key")


def found(work: Path, output: str = "totals") -> pl.DataFrame:
    """What stands of an output of Eventide, by its panes."""
    panes = pl.read_parquet(str(work / "state" / "panes" / output / "**" / "*.parquet"), missing_columns="insert")
    last = panes.sort("sequence").group_by("window_end", "key").last()
    ends = pl.col("window_end").dt.epoch("us").alias("end")
    return last.select(ends, "key", "total", pl.col("n").cast(pl.Int64)).sort("end", "key")


def check_ours(case: Case, work: Path, truth: pl.DataFrame) -> str:
    """Equal, row for row."""
    mine = found(work)
    if not mine.equals(truth.select(mine.columns).cast(dict(mine.schema))):
        odd = mine.join(truth, on=["end", "key", "total", "n"], how="anti")
        raise SystemExit(f"{case.name}: {len(mine):,} results where {len(truth):,} are right; of ours wrong: {odd.head(5)}")
    return f"{len(mine):,} results, all equal to the batch computation of the rows on time"


def check_native(work: Path, truth: pl.DataFrame) -> str:
    """Spark lets in what comes before its own watermark, which moves between batches: how many of its results are the same."""
    theirs = pl.read_parquet(str(work / "out" / "*.parquet")).with_columns(
        pl.col("end").dt.epoch("us"), pl.col("n").cast(pl.Int64)
    )
    same = truth.join(theirs.select("end", "key", "total", "n"), on=["end", "key", "total", "n"], how="semi")
    return f"{len(theirs):,} results, of which {len(same) / max(1, len(truth)):.1%} are those of one event at a time"
