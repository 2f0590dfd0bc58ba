"""The end of the input: the last windows come out, nothing waits, the state is finished and says so; killed anywhere, it is finished later."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from feeding import Feeding
from machine import Killed

import eventide as ev
from eventide.engine.changes import StateFinished
from eventide.engine.handle import Handle, StoppedBeforeTheEnd
from eventide.engine.restart import start_over
from eventide.errors import DefinitionError
from eventide.model.time import MAX_TIME

ROWS = [
    ("a", (1, 1, "x", 1), (12, 12, "x", 2)),
    ("b", (3, 14, "y", 4), (31, 33, "x", 8)),
    ("a", (2, 35, "x", 16), (36, 36, "y", 32)),
]


def fed(root: Path) -> Feeding:
    """Three batches of two lanes, one of which is behind: rows wait, and windows are open."""
    feeding = Feeding(root)
    for number, (lane, *rows) in enumerate(ROWS):
        feeding.land(lane, *rows)
        if number == 0:
            feeding.open()
        feeding.batch(lane)
    return feeding


def panes(feeding: Feeding) -> list[tuple[Any, ...]]:
    names = ("window_start", "window_end", "bank", "sequence", "op", "n", "total")
    return sorted((tuple(pane[name] for name in names) for pane in feeding.said()), key=str)


def whole(root: Path) -> Feeding:
    feeding = fed(root)
    feeding.run.drain()
    feeding.run.close()
    return feeding


def test_every_window_comes_out_and_nothing_waits(tmp_path: Path) -> None:
    feeding = fed(tmp_path)
    before = len(panes(feeding))
    feeding.run.drain()
    assert feeding.run.ledger.waiting == 0 and feeding.rows()["in"] == 6
    counts = feeding.run.ledger.outputs["out"]
    assert counts["rows_on_time"] + counts["rows_admitted"] + counts["rows_refused"] == 6
    last = {(p["window_start"], p["bank"]): p["n"] for p in sorted(feeding.said(), key=lambda p: p["sequence"])}
    assert len(panes(feeding)) > before
    assert sum(last.values()) + counts["rows_refused"] == 6


def test_a_finished_state_says_so_and_starts_over(tmp_path: Path) -> None:
    feeding = whole(tmp_path)
    with pytest.raises(StateFinished, match=r"is finished.*eventide run FILE --start-over"):
        feeding.open()
    with pytest.raises(StateFinished):  # and again: the first refusal left nothing behind
        feeding.open()
    fresh, aside = start_over(feeding.pipe)
    assert aside is not None and fresh.generation == 1
    feeding.open(fresh)
    feeding.run.close()


@pytest.mark.parametrize("point", ["begin", "scan", "store", "begun", "between sinks", "deliver", "commit", "evict"])
def test_killed_while_it_ends_it_is_finished_by_the_next_run(tmp_path: Path, point: str) -> None:
    undisturbed = panes(whole(tmp_path / "whole"))
    feeding = fed(tmp_path / "killed")
    feeding.run.hook = _kill_at(point)
    with pytest.raises(Killed):
        feeding.run.drain()
    feeding.run.lease.release()
    if point in ("commit", "evict"):
        with pytest.raises(StateFinished, match="is finished"):
            feeding.open()
        assert panes(feeding) == undisturbed
        left = {str(path.relative_to(feeding.root / "state")) for path in (feeding.root / "state" / "data").rglob("*.parquet")}
        assert left <= {part.path for part in feeding.run.ledger.parts}, (
            "what nothing refers to any more is cleared all the same"
        )
        return
    run = feeding.open()
    if point in ("begun", "between sinks", "deliver"):
        with pytest.raises(StateFinished, match="--until-caught-up --drain"):
            run.is_ending(drain=False)
        assert run.is_ending(drain=True)
    else:
        assert not run.is_ending(drain=False)  # nobody has seen anything of it: it may go on as if nothing had been said
    run.drain()
    run.close()
    assert panes(feeding) == undisturbed


def _kill_at(point: str) -> Any:
    def hook(now: str) -> None:
        if now == point:
            raise Killed

    return hook


def test_the_end_is_reached_when_all_was_read_that_was_in_sight(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    for lane, *rows in ROWS:
        feeding.land(lane, *rows)
    first, second, third = sorted((tmp_path / "in").rglob("*.parquet"), key=lambda p: p.name)
    run = feeding.open()
    seen = run.in_sight()
    assert run.unread(seen) == ["payments"], "nothing was read"
    feeding.batch_of(first)
    assert run.unread(seen) == ["payments"]
    feeding.batch_of(third)
    feeding.land("a", (50, 50, "x", 1))
    assert run.unread(seen) == ["payments"], "one of those that were there is left"
    second.unlink()
    assert run.unread(seen) == [], "one that is gone cannot be read, and one that came later is not asked for"


def test_a_query_that_somebody_else_stops_does_not_finish_its_state(spark: Any, tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, files_per_batch=1)
    for lane, *rows in ROWS:
        feeding.land(lane, *rows)

    def stop_after(progress: Any) -> None:
        """The batch is committed; Spark ends its query as quietly as if there were no more."""
        threading.Thread(target=handle.query.stop, daemon=True).start()
        time.sleep(1)

    handle = Handle.start(feeding.pipe, spark, available_now=True, drain=True, on_progress=stop_after)
    with pytest.raises(StoppedBeforeTheEnd, match="payments"):
        handle.wait()
    assert handle.rows["in"] < 6
    whole = feeding.pipe.run(spark, drain=True)
    assert whole.rows["in"] == 6 and whole.watermark == MAX_TIME


def test_an_input_that_goes_on_for_ever_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="drain=True"):
        Handle.start(Feeding(tmp_path).pipe, object(), drain=True, available_now=False)


def test_a_table_that_a_killed_run_left_behind_is_brought_up_to_date_when_the_state_is_finished(tmp_path: Path) -> None:
    """Readers of a Parquet table see what came last when the run closes it, or the next one opens it; after the end there is no next batch."""

    def dies(point: str) -> None:
        if point == "commit":
            raise Killed

    feeding = fed(tmp_path)
    feeding.run.close()
    lake = feeding.pipeline(more=[lambda minutes: minutes.to("lake", ev.parquet(str(tmp_path / "lake")), late=ev.drop())])
    feeding.open(lake, hook=dies)
    with pytest.raises(Killed):
        feeding.run.drain()
    feeding.run.lease.release()  # and nothing is closed
    with pytest.raises(StateFinished):
        feeding.open(lake)
    said = {(p["window_start"], p["bank"]) for p in feeding.said("panes/lake")}
    assert said and {*pl.read_parquet(tmp_path / "lake/lake/current.parquet").select("window_start", "bank").rows()} == said
