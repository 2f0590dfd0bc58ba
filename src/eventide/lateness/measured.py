"""Lateness measured while a pipeline runs: arrival minus event time, as sketches by source, lane, hour and chosen columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import datasketches as ds
import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.errors import DefinitionError
from eventide.kernel import judge
from eventide.lateness.quantiles import KLL_K, Weighted
from eventide.lateness.witness import ALL, DISORDER, IDLENESS, LATENESS, SCHEMA, SUMS
from eventide.notebook import shown, table
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.state.store import Store, attempt_in

COMPACT_EVERY = 64
KEY = ("source", "lane", "hour", "dimension", "value", "stride")


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


def compact(store: Store, ledger: Ledger) -> None:
    """Now and then put the parts of many batches together; a crash in between leaves the old parts or both, never none."""
    if ledger.batch <= 0 or ledger.batch % COMPACT_EVERY:
        return
    parts, old = _standing(store, ledger)
    if parts.is_empty():
        return
    merged = store.write_table(f"{LATENESS}/merged", ledger.batch, "all", merge_parts(parts))
    store.delete(path for path in old if path != merged)


def _standing(store: Store, ledger: Ledger) -> tuple[pl.DataFrame, list[str]]:
    """The newest merged part (one, if two runs wrote it) and the parts after it, each of the run that committed its batch."""
    files = [(int(path.split("batch=")[1].split("/")[0]), path, "/merged/" in path) for path in store.files(LATENESS)]
    newest, merged = max(((batch, path) for batch, path, whole in files if whole and batch <= ledger.batch), default=(-1, None))
    live = [merged] if merged is not None else []
    live += [p for b, p, whole in files if not whole and newest < b <= ledger.batch and attempt_in(p) == ledger.attempt_of(b)]
    old = [path for batch, path, _ in files if batch <= ledger.batch]
    frames = [pl.DataFrame(pl.from_arrow(batch)).select(list(SCHEMA)) for batch in store.batches(live)]
    return (pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)), old


SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def _line(part: pl.DataFrame) -> dict[str, Any]:
    rows, longest = int(part["rows"].sum()), int(part["longest"].max() or 0)  # type: ignore[arg-type]
    quantiles = Weighted.of(zip(part["sketch"], part["stride"], strict=True))
    # Sketched numbers are rounded in their seventh digit; the largest is not.
    shown = {label: None if (at := quantiles.at(share)) is None else min(at, longest) for label, share in SHARES.items()}
    late = {name: int(part[name].sum()) / max(1, rows) for name in ("late_at_source", "late_at_window")}
    return {"rows": rows, **shown, "max": longest, **late}


@dataclass(frozen=True)
class Lateness:
    """What a pipeline has measured of itself."""

    parts: pl.DataFrame
    rows: dict[str, int]
    outputs: dict[str, dict[str, int]]
    window: str = ""
    """The windows by which rows are late at window, and whose they are where outputs have different ones."""

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
            lines.append({**dict(zip(names, values, strict=True)), **_line(part)})
        return sorted(lines, key=lambda line: tuple(str(line[n]) for n in names))

    def verdicts(self, output: str) -> dict[str, int]:
        """Pairs of row and window by an output's verdict, exact."""
        counts = self.outputs[output]
        return {name: counts.get(name, 0) for name in ("on_time", "admitted", "refused")}

    def causes(self, output: str) -> dict[str, int]:
        """An output's late rows, admitted or refused, by cause, exact."""
        counts = self.outputs[output]
        return {DISORDER: counts.get(judge.DISORDER, 0), IDLENESS: counts.get(judge.IDLENESS, 0)}

    def counts(self, dimension: str) -> dict[str, tuple[int, int]]:
        """For each value: (late at window, rows), as `bias` takes it."""
        chosen = (
            self.parts.filter(pl.col("dimension") == dimension).group_by("value").agg(pl.col("late_at_window", "rows").sum())
        )
        return {value: (late, rows) for value, late, rows in chosen.iter_rows()}

    @property
    def shares(self) -> dict[str, float]:
        """Shares of all rows, counted exactly by the lanes' clocks."""
        total = max(1, self.rows.get("in", 0))
        return {name: self.rows.get(name, 0) / total for name in ("out_of_order", "late_at_source", "dead", "raised")}

    def _repr_html_(self) -> str:
        """As notebooks show it: how late events were, source by source, and what the outputs made of it."""
        late = [
            (line["source"], line["rows"], *(_span(line[name]) for name in (*SHARES, "max")), f"{line['late_at_window']:.2%}")
            for line in self.by("source")
        ]
        verdicts = [(name, *self.verdicts(name).values(), *self.causes(name).values()) for name in self.outputs]
        return shown(
            "Lateness: arrival minus event time",
            table(["source", "rows", "p50", "p95", "p99", "p99.9", "max", "late at window"], late),
            table(["output", "on time", "admitted", "refused", DISORDER, IDLENESS], verdicts),
        )


def _span(span: float | None) -> str:
    return "–" if span is None else f"{span / 1_000_000:,.2f} s"


def read_lateness(pipeline: Pipeline) -> Lateness:
    """What the committed batches of a pipeline measured."""
    if pipeline.measure is None:
        raise DefinitionError(
            f'pipeline {pipeline.name!r} does not measure its lateness. Say so: Pipeline(…, measure=True), or measure=["region"].'
        )
    state = State.of(pipeline)
    ledger = state.ledger
    parts, _ = _standing(state.store, ledger)
    first = min(pipeline.outputs, key=lambda output: ledger.reads.get(output.name, ""))  # by which the run measured
    several = len({one.window for one in pipeline.aggregations}) > 1
    window = f"{first.aggregation.window} of output {first.name}" if several else str(first.aggregation.window)
    return Lateness(parts, dict(ledger.rows), {name: dict(counts) for name, counts in ledger.outputs.items()}, window)


__all__ = ["LATENESS", "Lateness", "compact", "read_lateness"]
