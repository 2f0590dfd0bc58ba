"""Law 2, in every batch: whatever loses or doubles a row or a value stops the pipeline with the numbers, before anything is said."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from inline import run_in_batches

from eventide.engine.batch import bucket_task, lane_task
from eventide.engine.batch.conservation import ConservationBreach
from eventide.kernel import aggregate as kernel
from eventide.kernel import share
from eventide.kernel.columns import ROWS
from eventide.model import aggregate
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.state.store import Store
from eventide.testing.streams import Stream, generate, tailed_delay

PLAN = Plan(
    (SourcePlan(Bounded(2), ("0", "1")),),
    Sliding(10, 5),
    (("n", aggregate.count()), ("s", aggregate.sum("value"))),
    (OutputPlan("strict"), OutputPlan("patient", 20)),
)
EVENTS = generate(Stream(lanes=2, rows=80, uneven=False, delay=tailed_delay(2, 0.3, 60), dead=0.05), seed=4)


def run(root: Path) -> Any:
    return run_in_batches(PLAN, EVENTS, [40, 60, 80, 100], random.Random(1), str(root))


def test_a_sound_run_balances(tmp_path: Path) -> None:
    rows = run(tmp_path).ledger.rows
    assert rows["in"] == rows["ahead"] + rows["judged"] + rows["dead"] and rows["pairs"] == 2 * (rows["ahead"] + rows["judged"])


def without_one(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.head(max(0, len(frame) - 1))


def with_more(column: str) -> Any:
    return lambda frame: frame.with_columns(pl.col(column) + 1) if column in frame.columns else frame


def breaks(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Any) -> None:
    whole = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: change(whole(*a, **k)))


LOSSES = {
    "a late row is not written": (bucket_task, "late_rows", without_one, "late files"),
    "a dead letter is not written": (lane_task, "_dead_letters", without_one, "dead-letter files"),
    "a partial counts a row twice": (share.aggregate, "partial", with_more(ROWS), "rows in the partials"),
    "a partial adds up wrongly": (share.aggregate, "partial", with_more("__a1_s"), "sum of the partials"),
    "a verdict is counted twice": (bucket_task.judge, "verdict_counts", lambda c: {**c, "refused": c["refused"] + 1}, "pairs"),
    "a row is judged that never waited": (bucket_task, "swept_rows", lambda rows: pl.concat([rows, rows.head(1)]), "waiting"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_stops_the_batch_with_the_numbers(loss: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module, name, change, says = LOSSES[loss]
    breaks(monkeypatch, module, name, change)
    with pytest.raises(ConservationBreach, match=r"batch \d+: .*" + says):
        run(tmp_path)


def test_a_merge_that_loses_a_row_stops_the_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bucket_task, "COMPACT_ABOVE", 1)
    breaks(monkeypatch, kernel, "merge", with_more(ROWS))
    with pytest.raises(ConservationBreach, match=r"merged part|rows in the partials"):
        run(tmp_path)


def test_kept_rows_that_are_not_written_stop_the_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write = Store.write

    def lossy(self: Store, kind: str, batch: int, frames: Any, **more: Any) -> Any:
        return write(self, kind, batch, [(b, without_one(f) if kind == "rows" else f) for b, f in frames], **more)

    monkeypatch.setattr(Store, "write", lossy)
    with pytest.raises(ConservationBreach, match="wait to be judged"):
        run(tmp_path)
