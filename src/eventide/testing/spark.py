"""A transcript through the real engine: each step is one micro-batch, scanned and settled by Spark's executors."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from eventide.model.event import Event
from eventide.model.pane import LateRow, Pane
from eventide.model.plan import Plan
from eventide.model.window import Session

if TYPE_CHECKING:
    from eventide.engine.batch.microbatch import Engine
    from eventide.testing.transcript import Step

LANE_ID = (0, "0")


def through_spark(plan: Plan, steps: Sequence[Step]) -> list[tuple[list[Pane], list[LateRow]]]:
    """Run the steps as micro-batches on a local Spark session."""
    from eventide.engine.batch.runner import SparkRunner
    from eventide.engine.spark_session import local_session

    with tempfile.TemporaryDirectory(prefix="eventide-replay-") as root:
        return through_engine(plan, steps, root, SparkRunner(local_session()))


def through_engine(plan: Plan, steps: Sequence[Step], root: str, runner: Any) -> list[tuple[list[Pane], list[LateRow]]]:
    """Run the steps as micro-batches of the engine, with tasks run by a given runner."""
    import polars as pl

    from eventide.engine.batch.microbatch import BatchInput, Engine
    from eventide.kernel.bound_plan import BoundPlan
    from eventide.state.ledger import Ledger
    from eventide.state.store import Store

    kinds = {"key": pl.String(), "value": _value_kind(steps)}
    engine = Engine(BoundPlan(plan, ("key",), (), 2, tells_watermark=True), kinds, (True,), Store(root), runner)
    ledger, clock, said = engine.first_ledger(), 0, []
    for number, step in enumerate(steps):
        if step.restore:
            ledger = Ledger.from_json(ledger.to_json())
        clock = clock if step.clock is None else max(clock, step.clock)
        accounts = _scan(engine, ledger, number, clock, step.events, kinds)
        result = engine.process(ledger, BatchInput(number, clock, accounts, frozenset()))
        ledger = result.ledger
        name = plan.outputs[0].name
        panes = [_pane(name, row, plan) for row in _rows(engine, result.panes[name])]
        late = [_late(name, row, plan) for row in _rows(engine, result.late[name])]
        said.append((panes, late))
    return said


def _scan(engine: Engine, ledger: Any, number: int, clock: int, events: Sequence[Event], kinds: dict[str, Any]) -> list[Any]:
    from eventide.engine.batch.lane_task import LaneAccount
    from eventide.kernel.scan import Arrivals, LaneCarry

    if not events:
        return []
    carry, arrivals = ledger.carries.get(LANE_ID, LaneCarry()), Arrivals.of(LANE_ID, ledger.swept, clock)
    task = partial(_scan_events, engine.shape, engine.store, number, carry, arrivals, list(events), kinds)
    return [LaneAccount.from_json(line) for line in engine.runner.run([task])]


def _scan_events(
    shape: Any, store: Any, number: int, carry: Any, arrivals: Any, events: list[Event], kinds: dict[str, Any]
) -> str:
    from eventide.engine.batch.lane_task import scan_lane

    return scan_lane(shape, store, number, LANE_ID, carry, arrivals, [event_chunk(events, kinds)]).to_json()


def event_chunk(events: Sequence[Event], kinds: dict[str, Any]) -> Any:
    """Events of the model as rows for the kernel; columns other than the key and the deduplication key come from the row."""
    import polars as pl

    from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, TIME

    own: dict[str, list[Any]] = {"key": [e.key for e in events], "id": [e.dedupe_key for e in events]}
    columns: dict[str, list[Any]] = {name: own[name] if name in own else [e.row.get(name) for e in events] for name in kinds}
    places = {ARRIVAL: pl.Int64, OFFSET: pl.Int64, TIME: pl.Int64, CANDIDATE: pl.Int64, MARKER: pl.Boolean, DEAD: pl.String}
    columns |= {
        ARRIVAL: [e.arrival for e in events],
        OFFSET: [e.offset for e in events],
        TIME: [e.event_time for e in events],
        CANDIDATE: [e.candidate for e in events],
        MARKER: [e.marker for e in events],
        DEAD: [e.dead for e in events],
    }
    return pl.DataFrame(columns, schema={**kinds, **places})


def _value_kind(steps: Sequence[Step]) -> Any:
    import polars as pl

    values = [e.row["value"] for step in steps for e in step.events if not e.marker]
    if all(isinstance(v, int) for v in values):
        return pl.Int64()
    return pl.Float64() if all(isinstance(v, int | float) for v in values) else pl.String()


def _rows(engine: Engine, paths: list[str]) -> list[dict[str, Any]]:
    return [row for batch in engine.store.batches(paths) for row in _micros(batch).to_pylist()]


def _micros(batch: Any) -> Any:
    """Instants as whole numbers: a transcript's times may lie where no calendar reaches."""
    import pyarrow as pa

    columns = [c.cast(pa.timestamp("us")).cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _pane(output: str, row: dict[str, Any], plan: Plan) -> Pane:
    values = {name: row[name] for name, _ in plan.aggregates}
    bounds = (row["window_start"], row["window_end"])
    return Pane(output, bounds, row["key"], row["sequence"], row["op"], row["timing"], values, row["generation"])


def _late(output: str, row: dict[str, Any], plan: Plan) -> LateRow:
    event = Event(row["_arrival"], row["_event_time"], row["key"], {"value": row["value"]}, 0, row["_lane"], row["_offset"])
    window = plan.window
    if isinstance(window, Session):
        missed: tuple[tuple[int, int], ...] = (window.own(row["_event_time"]),)
    else:
        ends = range(row["_missed_first_end"], row["_missed_last_end"] + 1, window.slide)
        missed = tuple((end - window.size, end) for end in ends)
    return LateRow(output, event, row["_watermark"], missed)
