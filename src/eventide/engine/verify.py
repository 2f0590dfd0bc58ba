"""Whether a pipeline's answers hang on how its stream was cut, and whether what stands in its state and sinks is what they are."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.recut import ONE_BATCH, Recut, recut
from eventide.engine.why import Asking
from eventide.kernel.kinds import KINDS
from eventide.model.policy import DISCARDING
from eventide.model.time import MAX_TIME, plus
from eventide.model.window import Session
from eventide.sinks.base import ReadableSink
from eventide.sinks.shape import PaneShape
from eventide.state.results import Results
from eventide.state.retention import removed_upto
from eventide.storage.scratch import scratch

BILLIONTH = 1e-9
Standing = Mapping[str, tuple[Any, ...]]
"""What stands under each window_id: its values."""


@dataclass(frozen=True)
class Difference:
    """The first result that is not the same on two sides."""

    output: str
    sides: tuple[str, str]
    window_id: str
    column: str
    """Empty: one side has the result, and the other has none."""
    values: tuple[Any, Any]


@dataclass
class Certificate:
    """What was compared, and what came of it."""

    rows: int
    cuts: list[dict[str, Any]] = field(default_factory=list)
    compared: list[dict[str, Any]] = field(default_factory=list)
    """For each output and side, how many results were compared."""
    left_out: list[str] = field(default_factory=list)
    """What was not compared, and why."""
    difference: Difference | None = None
    digest: str = ""
    """Of everything that stands, by which two certificates can be told to be of the same answers."""


def verify(pipeline: Pipeline, cuts: int, seed: int, tell: Callable[[str], None]) -> Certificate:
    """Cut the archive so many ways beside the backfill's, compare them with each other, with the state's panes and with sinks that can be read."""
    asking = Asking.open(pipeline)
    found = Certificate(asking.archive.count())
    found.left_out += [f"sketches of {name}: {columns} may differ within their bound" for name, columns in _sketched(pipeline)]
    found.left_out += [
        f"before batch {c['after_batch']}, when {c['setting']} was {c['from']}: {c['why']}" for c in asking.changes
    ]
    tell(f"{found.rows:,} rows in one batch")
    first = _cut(asking, ONE_BATCH, found)
    truth = {output.name: standing(first.results[output.name]) for output in pipeline.outputs}
    found.digest = hashlib.sha256(json.dumps(truth, sort_keys=True, default=str).encode()).hexdigest()
    for number in range(1, cuts + 1):
        tell(f"cut {number} of {cuts}")
        other = _cut(asking, seed + number, found)
        found.difference = _between(pipeline, first, truth, other, f"cut {seed + number}", found)
        if found.difference is not None:
            return found
    for output in pipeline.outputs:
        found.difference = _against_what_stands(asking, output, truth[output.name], first.shapes[output.name], found)
        if found.difference is not None:
            return found
    return found


def _cut(asking: Asking, cut: int, found: Certificate) -> Recut:
    made = recut(asking.archive, scratch("verify"), cut)
    found.cuts.append({"cut": cut, "batches": made.batches, "rows": made.rows["in"]})
    return made


def _between(
    pipeline: Pipeline, first: Recut, truth: Mapping[str, Standing], other: Recut, name: str, found: Certificate
) -> Difference | None:
    sides = ("one batch", name)
    for output in pipeline.outputs:
        for verdict in sorted({*first.verdicts[output.name], *other.verdicts[output.name]} - {"panes"}):
            values = (first.verdicts[output.name][verdict], other.verdicts[output.name][verdict])
            if values[0] != values[1]:
                return Difference(output.name, sides, "", f"rows counted as {verdict}", values)
        gone = first.late[output.name] ^ other.late[output.name]
        if gone:
            row = min(gone, key=str)
            kept = (row in first.late[output.name], row in other.late[output.name])
            return Difference(output.name, sides, "", f"whether {'/'.join(map(str, row[:3]))} is a late row", kept)
        if _spread(output):
            continue
        difference = _first(output, sides, truth[output.name], standing(other.results[output.name]), first.shapes[output.name])
        if difference is not None:
            return difference
        found.compared.append({"output": output.name, "with": name, "results": len(truth[output.name])})
    return None


def _against_what_stands(
    asking: Asking, output: Output, truth: Standing, shape: PaneShape, found: Certificate
) -> Difference | None:
    """Results that can change no more, as the state said them and as its sink holds them."""
    state, mark = asking.state, asking.state.ledger.frontier.watermark
    reach = output.aggregation.reach if isinstance(output.aggregation, Join) else 0
    if _spread(output):
        found.left_out.append(
            f"{output.name}: deltas of sessions stay under the bounds that they were said with, which hang on the cut"
        )
        return None
    if mark is None:
        found.left_out.append(f"{output.name}: no window has closed yet")
        return None
    until = None if mark == MAX_TIME else plus(plus(mark, -output.late.allowed), -reach - (1 if reach else 0))
    since = state.ledger.joined_at.get(output.name)
    final = {w: v for w, v in truth.items() if _counts(v, until, since)}
    sides: list[tuple[str, Standing, Standing]] = []
    if removed_upto(state) < 0:
        said = standing(Results(state.store, tuple(state.panes(output.name)), shape))
        sides.append(("what the state said", final, said))
    else:
        found.left_out.append(
            f"{output.name}: what the state said, of which keep=… or eventide state --clean has removed the oldest files"
        )
    waiting = output.name in {*(state.definition or {}).get("withheld", [])} - {*state.ledger.settled}
    if isinstance(output.sink, ReadableSink) and not waiting and output.accumulation != DISCARDING:
        held = output.sink.stands(output.name, shape, state.generation)
        sides.append(("its sink", _as_stored(output.sink, final, shape), held))
    elif output.sink is not None:
        found.left_out.append(f"{output.name}: its sink was not asked what it holds, only the state what it handed to it")
    for name, mine, theirs in sides:
        known = {w: v for w, v in theirs.items() if _counts(v, until, since)}
        difference = _first(output, ("the archive", name), mine, known, shape)
        if difference is not None:
            return difference
        found.compared.append({"output": output.name, "with": name, "results": len(mine)})
    return None


def _as_stored(sink: ReadableSink, standing: Standing, shape: PaneShape) -> Standing:
    """The same values in the form in which a sink stores them."""
    if not shape.values:
        return standing
    columns = list(zip(*(values[1:] for values in standing.values()), strict=True)) or [()] * len(shape.values)
    schema = pa.schema(list(shape.values))
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
    stored = sink.as_stored(table)
    return {w: (values[0], *row) for (w, values), row in zip(standing.items(), stored, strict=True)}


def _counts(values: tuple[Any, ...], until: int | None, since: int | None) -> bool:
    """Whether a result, whose first value is the end of its window, is compared."""
    return (until is None or values[0] <= until) and (since is None or values[0] > since)


def _spread(output: Output) -> bool:
    return output.accumulation == DISCARDING and isinstance(output.aggregation.grid, Session)


def _sketched(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    for output in pipeline.outputs:
        names = [name for name, what in output.aggregation.aggregates if KINDS[what.kind].approximate]
        if names:
            yield output.name, ", ".join(names)


def standing(results: Results) -> Standing:
    """Inserts by window_id: the window's end, then the values; deltas put together."""
    tables, shape = [pa.Table.from_batches([batch]) for batch in results.inserts()], results.shape
    frame = pl.from_arrow(pa.concat_tables(tables)) if tables else pl.DataFrame()
    assert isinstance(frame, pl.DataFrame)
    if frame.is_empty():
        return {}
    window_id, end = shape.meta("window_id"), shape.meta("window_end")
    columns = [pl.col(end).dt.epoch("us").alias("__end"), *(pl.col(name) for name in shape.value_names)]
    if shape.accumulation == DISCARDING:
        newest = frame.filter(pl.col(shape.meta("generation")) == pl.col(shape.meta("generation")).max().over(window_id))
        added = [getattr(pl.col(name), shape.added_by(name))() for name in shape.value_names]
        rows = newest.group_by(window_id).agg(pl.col(end).first().dt.epoch("us").alias("__end"), *added).iter_rows()
    else:
        rows = frame.select(window_id, *columns).iter_rows()
    return {row[0]: row[1:] for row in rows}


def differences(
    output: Output, sides: tuple[str, str], mine: Standing, theirs: Standing, shape: PaneShape
) -> Iterator[Difference]:
    """What is not the same on two sides, by the ends of the windows: of each window the first column that differs."""
    names = ("", *shape.value_names)
    sketched = {name for name, what in output.aggregation.aggregates if KINDS[what.kind].approximate}
    for window in sorted({*mine, *theirs}, key=lambda w: ((mine.get(w) or theirs[w])[0], w)):
        if window not in mine or window not in theirs:
            yield Difference(output.name, sides, window, "", (mine.get(window), theirs.get(window)))
            continue
        for name, one, other in zip(names, mine[window], theirs[window], strict=True):
            if name and name not in sketched and not alike(one, other):
                yield Difference(output.name, sides, window, name, (one, other))
                break


def _first(output: Output, sides: tuple[str, str], mine: Standing, theirs: Standing, shape: PaneShape) -> Difference | None:
    return next(differences(output, sides, mine, theirs, shape), None)


def alike(one: object, other: object) -> bool:
    """Equal; of floats within a billionth, as sums of them are.

    >>> alike(0.1 + 0.2, 0.3), alike([1.0, None], [1.0, None]), alike(5, 6)
    (True, True, False)
    """
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=BILLIONTH, abs_tol=BILLIONTH) or (one != one and other != other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[name]) for name, value in one.items())
    return bool(one == other)


__all__ = ["Certificate", "Difference", "differences", "standing", "verify"]
