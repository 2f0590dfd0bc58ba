"""Lateness measured while a pipeline runs: arrival minus event time, as sketches by source, lane, hour and chosen columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import datasketches as ds
import numpy as np
import polars as pl

from eventide.engine.journal import Journal
from eventide.engine.records import record_files
from eventide.engine.store import Store
from eventide.errors import DefinitionError
from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, TIME
from eventide.measure.quantiles import KLL_K, Weighted
from eventide.model.event import LaneId
from eventide.model.window import Sliding, Window

LATENESS = "lateness"
HOUR = 3_600_000_000
STRIDE, STRIDE_ABOVE = 16, 65_536
"""Of chunks larger than this every 16th row is sketched: 4,096 rows are enough for a rank error below 1%, at little cost."""
COMPACT_EVERY = 64
ALL = ""
"""The dimension that stands for all rows of a lane."""
SCHEMA: dict[str, Any] = {
    "source": pl.String, "lane": pl.String, "hour": pl.Int64, "dimension": pl.String, "value": pl.String, "stride": pl.Int64,
    "rows": pl.Int64, "seen": pl.Int64, "late_at_source": pl.Int64, "late_at_window": pl.Int64,
    "longest": pl.Int64, "sketch": pl.Binary,
}  # fmt: skip
KEY = ("source", "lane", "hour", "dimension", "value", "stride")
SUMS = ("rows", "seen", "late_at_source", "late_at_window")


@dataclass
class LatenessWitness:
    """Sees one lane in one batch, and leaves a small table of sketches in the store."""

    store: Store
    batch: int
    lane: LaneId
    source: str
    window: Window
    dimensions: tuple[str, ...] = ()
    sketches: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False)

    def see(self, rows: pl.DataFrame) -> None:
        """Measure a chunk; dead letters and markers have no lateness."""
        first, last = rows[ARRIVAL][0] // HOUR, rows[ARRIVAL][-1] // HOUR
        if first == last:
            self._hour(rows, first)
            return
        # Arrivals never go back, so an hour is a run of rows.
        edges = np.searchsorted(rows[ARRIVAL].to_numpy(), np.arange(first + 1, last + 1) * HOUR)
        start = 0
        for hour, end in zip(range(first, last + 1), [*edges.tolist(), len(rows)], strict=True):
            if end > start:
                self._hour(rows[start:end], hour)
            start = end

    def _hour(self, rows: pl.DataFrame, hour: int) -> None:
        stride = STRIDE if len(rows) > STRIDE_ABOVE else 1
        longest = rows.select((pl.col(ARRIVAL) - pl.col(TIME)).max()).item() or 0
        if rows[DEAD].null_count() == len(rows) and not rows[MARKER].any():
            # Views of every nth value: taking the rows out of the frame would cost more than the sketch.
            arrival, time, before = (rows[name].to_numpy()[::stride] for name in (ARRIVAL, TIME, "__before"))
            values = [rows[name].gather_every(stride) for name in self.dimensions]
        else:
            seen = rows.gather_every(stride).filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
            arrival, time, before = (seen[name].to_numpy() for name in (ARRIVAL, TIME, "__before"))
            values = [seen[name] for name in self.dimensions]
        late, behind, missed = arrival - time, time < before, self._end(time) <= before
        self._add(hour, ALL, ALL, stride, len(rows), longest, late, behind, missed)
        for dimension, column in zip(self.dimensions, values, strict=True):
            whole = pl.DataFrame({"late": late, "behind": behind, "missed": missed, "value": column})
            for (value,), part in whole.partition_by("value", as_dict=True).items():
                text, some = "null" if value is None else str(value), part["late"].to_numpy()
                measured = (some, part["behind"].to_numpy(), part["missed"].to_numpy())
                self._add(hour, dimension, text, stride, len(some) * stride, int(some.max()), *measured)

    def _end(self, time: np.ndarray) -> np.ndarray:
        """The end of each row's first window, as `grid.first_end` has it."""
        if not isinstance(self.window, Sliding):
            return time + self.window.gap
        grid = self.window.offset + self.window.size
        return (time - grid) // self.window.slide * self.window.slide + self.window.slide + grid

    def _add(
        self,
        hour: int,
        dimension: str,
        value: str,
        stride: int,
        rows: int,
        longest: int,
        late: np.ndarray,
        behind: np.ndarray,
        missed: np.ndarray,
    ) -> None:
        key = (self.source, self.lane[1], hour, dimension, value, stride)
        if key not in self.sketches:
            self.sketches[key] = (ds.kll_doubles_sketch(KLL_K), dict.fromkeys((*SUMS, "longest"), 0))
        sketch, sums = self.sketches[key]
        # Where a column is measured, the sketch of all rows is put together from its values' at the end.
        if len(late) and (dimension != ALL or not self.dimensions):
            sketch.update(late.astype(np.float64))
        for name, number in zip(SUMS, (rows, len(late), int(behind.sum()), int(missed.sum())), strict=True):
            sums[name] += number
        sums["longest"] = max(sums["longest"], longest)

    def close(self) -> None:
        """Write what was seen."""
        if not self.sketches:
            return
        for key, (sketch, _) in self.sketches.items() if self.dimensions else ():
            if key[3] == self.dimensions[0]:
                self.sketches[(*key[:3], ALL, ALL, key[5])][0].merge(sketch)
        rows = [
            (*key, *(sums[n] for n in (*SUMS, "longest")), bytes(k.serialize())) for key, (k, sums) in self.sketches.items()
        ]
        self.store.write_table(LATENESS, self.batch, pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def merge_parts(parts: pl.DataFrame, key: tuple[str, ...] = KEY) -> pl.DataFrame:
    """One row for each key."""
    made = []
    for values, part in parts.partition_by(list(key), as_dict=True).items():
        sketch = ds.kll_doubles_sketch(KLL_K)
        for body in part["sketch"].to_list():
            sketch.merge(ds.kll_doubles_sketch.deserialize(body))
        made.append((*values, *(int(part[n].sum()) for n in SUMS), int(part["longest"].max() or 0), bytes(sketch.serialize())))  # type: ignore[arg-type]
    kinds = {**{n: SCHEMA[n] for n in key}, **dict.fromkeys((*SUMS, "longest"), pl.Int64), "sketch": pl.Binary}
    return pl.DataFrame(made, schema=kinds, orient="row")


def compact(store: Store, batch: int) -> None:
    """Now and then put the parts of many batches together; a crash in between leaves the old parts or both, never none."""
    if batch == 0 or batch % COMPACT_EVERY:
        return
    parts, old = _standing(store, batch)
    if parts.is_empty():
        return
    store.write_table(f"{LATENESS}/merged", batch, merge_parts(parts))
    store.delete(old)


def _standing(store: Store, upto: int) -> tuple[pl.DataFrame, list[str]]:
    """The newest merged part and the parts after it."""
    files = [(path, "/merged/" in path, int(path.split("batch=")[1].split("/")[0])) for path in store.files(LATENESS)]
    newest = max((batch for _, merged, batch in files if merged and batch <= upto), default=-1)
    live = [p for p, merged, batch in files if (merged and batch == newest) or (not merged and newest < batch <= upto)]
    old = [path for path, _, batch in files if batch <= upto]
    frames = [pl.DataFrame(pl.from_arrow(batch)) for batch in store.batches(live)]
    return (pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)), old


@dataclass(frozen=True)
class Lateness:
    """What a pipeline has measured of itself."""

    parts: pl.DataFrame
    rows: dict[str, int]
    outputs: dict[str, dict[str, int]]

    def by(self, *names: str, dimension: str = ALL) -> list[dict[str, Any]]:
        """Percentiles of arrival minus event time (microseconds) and shares, by any of source, lane, hour and value.

        Without names: everything in one line.
        """
        chosen = self.parts.filter(pl.col("dimension") == dimension)
        if chosen.is_empty() and dimension != ALL:
            known = sorted(set(self.parts["dimension"]) - {ALL})
            raise DefinitionError(
                f"lateness was not measured by {dimension!r}, but by {', '.join(known) or 'no column'}. Name it in Pipeline(…, measure=[…])."
            )
        key = (*names, "stride")
        merged = merge_parts(chosen, key) if len(chosen) else chosen
        lines = []
        for values, part in merged.partition_by(list(names), as_dict=True).items() if names else [((), merged)]:
            seen = max(1, int(part["seen"].sum()))
            quantiles = Weighted.of(zip(part["sketch"], part["stride"], strict=True))
            lines.append(
                {
                    **dict(zip(names, values, strict=True)),
                    "rows": int(part["rows"].sum()),
                    **{
                        label: quantiles.at(share)
                        for label, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
                    },
                    "max": int(part["longest"].max() or 0),  # type: ignore[arg-type]
                    "late_at_source": int(part["late_at_source"].sum()) / seen,
                    "late_at_window": int(part["late_at_window"].sum()) / seen,
                }
            )
        return sorted(lines, key=lambda line: tuple(str(line[n]) for n in names))

    def verdicts(self, output: str) -> dict[str, int]:
        """Pairs of row and window by an output's verdict, exact; why they were late is told by `tune`, which sees all lanes."""
        counts = self.outputs[output]
        return {name: counts.get(name, 0) for name in ("on_time", "admitted", "refused")}

    def counts(self, dimension: str) -> dict[str, tuple[int, int]]:
        """For each value: (late at window, rows), as `bias` takes it."""
        chosen = (
            self.parts.filter(pl.col("dimension") == dimension).group_by("value").agg(pl.col("late_at_window", "seen").sum())
        )
        return {value: (late, seen) for value, late, seen in chosen.iter_rows()}

    @property
    def shares(self) -> dict[str, float]:
        """Shares of all rows, counted exactly by the lanes' clocks."""
        total = max(1, self.rows.get("in", 0))
        return {name: self.rows.get(name, 0) / total for name in ("out_of_order", "late_at_source", "dead", "raised")}


def read_lateness(pipeline: Any) -> Lateness:
    """What the committed batches of a pipeline measured."""
    if pipeline.measure is None:
        raise DefinitionError(
            f'pipeline {pipeline.name!r} does not measure its lateness. Say so: Pipeline(…, measure=True), or measure=["region"].'
        )
    last = Journal(record_files(str(pipeline.state))).last()
    if last is None:
        raise DefinitionError(f"pipeline {pipeline.name!r} has committed nothing in {pipeline.state} yet; run it first.")
    parts, _ = _standing(Store(str(pipeline.state)), last["ledger"]["batch"])
    return Lateness(parts, last["ledger"]["rows"], last["ledger"]["outputs"])


__all__ = ["LATENESS", "Lateness", "LatenessWitness", "compact", "read_lateness"]
