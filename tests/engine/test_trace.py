"""The trace that runs leave for pages and scrapes: every committed batch is counted in it, however it was thinned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.stated import at, defined, ran

from eventide.engine.batch.tracing import Tracer
from eventide.state.state import State
from eventide.state.store import Store
from eventide.state.trace import COMPACT_EVERY, FINE, Entry, compact, note_batch, read_trace, thinned


def traced(root: Path) -> State:
    return State(str(root / "state"), "p")


def test_the_last_line_says_what_the_commit_says(tmp_path: Path) -> None:
    batches = [{"quick": [10 + 20 * n, 15 + 20 * n], "slow": [5 + 20 * n]} for n in range(4)]
    ran(defined(tmp_path), batches, [20, 40, 60, 80])
    state = traced(tmp_path)
    lines = read_trace(state)
    assert [line.clock for line in lines] == [at(clock) for clock in (20, 40, 60, 80)]
    last = lines[-1]
    assert (last.watermark, last.facts["rows"]) == (state.ledger.frontier.watermark, dict(state.ledger.rows))
    assert last.facts["outputs"] == {name: dict(counts) for name, counts in state.ledger.outputs.items()}
    assert last.facts["holder"] == [0, "slow", at(20)]
    assert list(last.facts["stages"]) == ["begin", "scan", "store", "begun", "deliver"]


def test_lines_are_put_together_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.state.trace.COMPACT_EVERY", 4)
    clocks = [20 * (n + 1) for n in range(4 + 3)]
    ran(defined(tmp_path), [{"only": [20 * n]} for n in range(len(clocks))], clocks)
    lines = read_trace(traced(tmp_path))
    assert [line.batch for line in lines] == list(range(len(clocks)))
    files = Store(str(tmp_path / "state")).files("trace")
    assert len(files) == 1 + 3 and "/merged/" in files[-1]


def test_the_line_of_a_batch_that_was_never_committed_does_not_count(tmp_path: Path) -> None:
    ran(defined(tmp_path), [{"only": [1]}, {"only": [30]}], [20, 40])
    state = traced(tmp_path)
    before = read_trace(state)
    strayed = Store(state.path, "deadbeef")
    note_batch(strayed, Entry(1, at(41), None, None, {}))  # of a run that lost the state before its commit
    note_batch(strayed, Entry(2, at(60), None, None, {}))
    assert read_trace(traced(tmp_path)) == before


def test_a_hundred_thousand_batches_take_some_thousand_lines_and_the_longest_lag_stays() -> None:
    kept: list[Entry] = []
    for batch in range(100_000):
        kept.append(Entry(batch, batch, None, 10**6 if batch == 777 else 1, {"files": ["a"], "rows": {"in": batch}}))
        if len(kept) > 12 * FINE:
            kept = thinned(kept, batch)
    kept = thinned(kept, batch)
    assert len(kept) < 3_000 and max(line.lag or 0 for line in kept) == 10**6
    assert [line.batch for line in kept[-FINE + 1 :]] == list(range(100_000 - FINE + 1, 100_000))
    assert "files" in kept[-1].facts and "files" not in kept[0].facts


def test_a_file_that_a_power_cut_left_empty_stops_neither_a_run_nor_a_page(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"only": [20 * n]} for n in range(3)], [20, 40, 60])
    state = traced(tmp_path)
    for path in state.store.files("trace")[1:]:
        (tmp_path / "state" / path).write_bytes(b"PAR1")
    assert [line.batch for line in read_trace(traced(tmp_path))] == [0]
    assert Tracer(state.store, state.ledger) is not None
    compact(state.store, replace(state.ledger, batch=COMPACT_EVERY - 1))
    assert [line.batch for line in read_trace(traced(tmp_path))] == []  # what is ahead of the newest commit does not count


def test_lines_that_are_put_together_while_they_are_read_are_found_under_their_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = [20 * (n + 1) for n in range(4)]
    ran(defined(tmp_path), [{"only": [20 * n]} for n in range(4)], clocks)
    state, batches = traced(tmp_path), Store.batches
    monkeypatch.setattr("eventide.state.trace.COMPACT_EVERY", 4)
    meddled: list[bool] = []

    def meddling(store: Store, paths: list[str]) -> Iterator[pa.RecordBatch]:
        if not meddled:
            meddled.append(True)
            compact(state.store, state.ledger)
        return batches(store, paths)

    monkeypatch.setattr(Store, "batches", meddling)
    assert [line.batch for line in read_trace(state)] == [0, 1, 2, 3]
