"""A batch that is run again is the batch that was begun, whatever the world did in between; one that nobody has seen may be another."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from feeding import SECOND, Feeding

import eventide as ev
from eventide.engine.batch.beginning import FileChanged
from eventide.engine.batch.lane_task import LaneAccount
from eventide.engine.batch.row_task import RowScan
from eventide.state.archive import files_of
from eventide.state.journal import JournalError, RecordTaken
from eventide.state.lease import EXPIRES_AFTER, Lease, StateInUse
from eventide.state.state import is_committed


class Killed(Exception):
    pass


def dying(point: str) -> Callable[[str], None]:
    def hook(here: str) -> None:
        if here == point:
            raise Killed

    return hook


class Ledgered(Feeding):
    """Two lanes, of which one may fall idle, into a table of deltas and a keyed one."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, idle_after="30 s")

    def pipeline(self, **more: Any) -> ev.Pipeline:
        base = ev.sqlite(str(self.root / "out.db"))
        return super().pipeline(
            more=[
                lambda a: a.to(
                    "deltas", base, late=ev.accumulate("1 minute", refused=ev.divert(base)), accumulation="discarding"
                ),
                lambda a: a.to("totals", base, late=ev.accumulate("1 minute")),
            ]
        )

    def table(self, name: str) -> list[Any]:
        with sqlite3.connect(self.root / "out.db") as base:
            return sorted(base.execute(f'select window_start, bank, n, total from "{name}"').fetchall())

    def crash(self, point: str, *lanes: str, **how: Any) -> None:
        """The next batch dies at a point; the process that held the lease is gone."""
        self.run.hook = dying(point)
        with pytest.raises(Killed):
            self.batch(*lanes, **how)
        self.run.close()


def story(feeding: Ledgered, between: Callable[[Ledgered], None], point: str | None) -> None:
    """Lane b falls silent, so that W goes on without it; the batch that notices is killed, and the world moves on before it runs again."""
    feeding.land("a", (1, 1, "x", 1))
    feeding.land("b", (2, 2, "x", 2))
    feeding.open()
    feeding.batch("a", "b")
    feeding.land("a", (25, 26, "x", 4))
    if point is not None:
        feeding.crash(point, "a")
        between(feeding)
        feeding.open()
        feeding.now -= SECOND
    feeding.batch("a") if point is None else feeding.again("a")
    if point is None:
        between(feeding)
    feeding.batch("b")
    feeding.batch(drain=True)
    feeding.run.close()


def a_file_lands(feeding: Ledgered) -> None:
    feeding.land("b", (3, 3, "x", 8), (4, 40, "x", 16))


@pytest.mark.parametrize("point", ["begun", "between sinks", "deliver"])
def test_a_lane_that_has_news_on_the_second_try_changes_nothing_of_what_was_delivered(tmp_path: Path, point: str) -> None:
    told, again = Ledgered(tmp_path / "told"), Ledgered(tmp_path / "again")
    story(told, a_file_lands, None)
    story(again, a_file_lands, point)
    for name in ("deltas", "totals"):
        assert again.table(name) == told.table(name), name
    assert sum(row[3] for row in again.table("totals")) == 1 + 2 + 4 + 8 + 16
    assert again.table("totals") == again.table("deltas")


@pytest.mark.parametrize("point", ["begin", "scan", "store"])
def test_what_nobody_has_seen_may_become_another_batch(tmp_path: Path, point: str) -> None:
    feeding = Ledgered(tmp_path)
    story(feeding, a_file_lands, point)
    assert feeding.table("totals") == feeding.table("deltas")
    assert sum(row[3] for row in feeding.table("totals")) == 1 + 2 + 4 + 8 + 16


def begun(feeding: Ledgered) -> Ledgered:
    """A batch that was delivered in part."""
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    feeding.open()
    feeding.crash("deliver", "a")
    return feeding


def test_a_file_that_was_touched_keeps_the_arrival_that_it_had(tmp_path: Path) -> None:
    feeding = begun(Ledgered(tmp_path))
    (file,) = (tmp_path / "in/a").iterdir()
    os.utime(file, (1_800_000_000,) * 2)
    feeding.open()
    feeding.again("a")
    facts = feeding.run.journal.begun(0)
    assert facts is not None and facts["landed"]["0"][0][1] == 1_700_000_000 * SECOND


@pytest.mark.parametrize("change", ["grew", "gone"])
def test_a_file_that_is_no_longer_the_same_stops_the_run_in_words(tmp_path: Path, change: str) -> None:
    feeding = begun(Ledgered(tmp_path))
    (file,) = (tmp_path / "in/a").iterdir()
    feeding.open()
    files = ["a"]
    if change == "grew":
        file.write_bytes(file.read_bytes() + b"more")
    else:
        files = []
    with pytest.raises(FileChanged, match=r"batch 0 .*bytes then; now .*Put the file back.*--start-over"):
        feeding.again(*files)


@pytest.mark.parametrize("paise", [3, 2])
def test_a_file_that_was_replaced_by_one_of_the_same_size_stops_the_run_if_it_holds_other_rows(
    tmp_path: Path, paise: int
) -> None:
    feeding = begun(Ledgered(tmp_path))
    delivered = feeding.table("totals"), feeding.table("deltas")
    (file,) = (tmp_path / "in/a").iterdir()
    size = file.stat().st_size
    feeding.files = 0
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", paise))
    os.utime(file, (1_800_000_000,) * 2)
    assert file.stat().st_size == size
    feeding.open()
    if paise == 2:  # the same rows, landed again
        feeding.again("a")
        return
    with pytest.raises(
        FileChanged, match=rf"batch 0 .*{file} \(of 2023-11-14.*2027-01-15.*other rows.*Put .* back.*--start-over"
    ):
        feeding.again("a")
    assert (feeding.table("totals"), feeding.table("deltas")) == delivered


@pytest.mark.parametrize("of_files", [True, False])
def test_rows_of_files_that_come_through_spark_are_told_apart_too(tmp_path: Path, of_files: bool) -> None:
    """A transform works on them, or a column names their lanes."""
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    run = feeding.open()

    def content(*paise: int) -> str:
        places = {"__source": 0, "__lane": "a", "__offset": -1, "__arrival": feeding.now}
        times = {"ts": datetime.fromtimestamp(1_700_000_000, UTC), "at": datetime.fromtimestamp(1_700_000_001, UTC)}
        rows = [pa.RecordBatch.from_pylist([{**places, **times, "bank": "x", "paise": value}]) for value in paise]
        read = frozenset({0}) if of_files else frozenset()
        (lines,) = RowScan(run.shape, run.store, 0, {0: run.feeds[0].reading}, {}, None, feeding.now, read)(rows)
        return LaneAccount.from_json(lines["line"][0].as_py()).content

    told = [content(1, 2), content(1, 2), content(2, 1)]
    assert (told[0] == told[1] != told[2]) if of_files else told == ["", "", ""]


class Mapped(Ledgered):
    """Its rows go through a function, of which nobody can tell whether it is still the same."""

    breaks = False

    def pipeline(self, **more: Any) -> ev.Pipeline:
        pipe = super().pipeline(**more)
        (source,), breaks = pipe.sources, self.breaks

        def change(rows: pl.DataFrame) -> pl.DataFrame:
            broken = pl.lit(breaks) & (pl.col("paise") == 2)
            return rows.with_columns(pl.when(~broken).then(pl.col("ts")).alias("ts"))

        changed = source.map(change)
        outputs = [
            replace(o, aggregation=o.aggregation.on(replace(o.aggregation.stream, sources=(changed,)))) for o in pipe.outputs
        ]
        return ev.Pipeline("bad", *outputs, state=pipe.state, buckets=1)


def test_a_function_that_makes_other_dead_letters_on_the_second_try_stops_the_run_in_words(tmp_path: Path) -> None:
    feeding = begun(Mapped(tmp_path))
    delivered = feeding.table("totals"), feeding.table("deltas")
    feeding.breaks = True
    feeding.open(feeding.pipeline())
    with pytest.raises(
        JournalError, match=r"batch 0 .*had 2 rows of lane 'a', 0 of them.*now it has 2, 1 of them.*--start-over"
    ):
        feeding.again("a")
    assert (feeding.table("totals"), feeding.table("deltas")) == delivered
    feeding.run.close()
    feeding.breaks = False
    feeding.open(feeding.pipeline())
    feeding.again("a")
    assert feeding.rows()["in"] == 2


def test_a_changed_definition_waits_until_the_batch_that_was_being_delivered_is_done(tmp_path: Path) -> None:
    feeding = begun(Ledgered(tmp_path))
    old = feeding.pipe
    late = old.outputs[0].aggregation.to("news", late=ev.drop())
    feeding.pipe = ev.Pipeline("bad", *old.outputs, late, state=str(tmp_path / "state"), buckets=1)
    feeding.open()
    with pytest.raises(JournalError, match=r"batch 0 was being delivered.*definition has changed.*as it was once more"):
        feeding.again("a")
    feeding.run.close()
    feeding.open(old)
    feeding.again("a")
    feeding.run.close()
    feeding.open()
    feeding.batch(drain=True)
    assert feeding.table("totals") == feeding.table("deltas") and len(feeding.said("panes/news")) == 1


def test_a_lease_that_is_lost_in_the_middle_of_a_batch_stops_it_before_the_next_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    monkeypatch.setattr("eventide.state.lease._alive", lambda held: False)
    thief: list[Lease] = []

    def steal(point: str) -> None:
        if point == "begun":
            thief.append(Lease.take(feeding.run.lease.files, "here"))

    feeding.open(hook=steal)
    with pytest.raises(StateInUse, match="took over"):
        feeding.batch("a")
    assert feeding.table("totals") == [] and not list((tmp_path / "state/journal").glob("commit-*"))


def test_a_commit_that_another_run_has_written_makes_this_one_fail(tmp_path: Path) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1))

    def overtaken(point: str) -> None:
        if point == "deliver":
            (tmp_path / "state/journal/commit-000000000000.json").write_text("{}")

    feeding.open(hook=overtaken)
    with pytest.raises(RecordTaken, match="another run has written journal/commit-000000000000"):
        feeding.batch("a")


@pytest.mark.parametrize("point", ["store", "begun", "deliver"])
def test_a_driver_that_is_restarted_on_another_machine_takes_over_when_the_lease_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The first one is cut off, not dead: it wakes up in the middle of its batch when the other has long gone on."""
    whole = Ledgered(tmp_path / "undisturbed")
    for feeding in (whole, cut_off := Ledgered(tmp_path / "taken over")):
        feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    whole.open()
    whole.batch("a")
    clock, there = [time.time()], "machine-2"
    monkeypatch.setattr("eventide.state.lease.time.time", lambda: clock[0])
    monkeypatch.setattr("eventide.state.lease.BEAT_EVERY", 3600)

    def elsewhere(here: str) -> None:
        if here != point:
            return
        monkeypatch.setattr("eventide.state.lease.socket.gethostname", lambda: there)
        with pytest.raises(StateInUse, match=r"in use by process .* \(last seen 0 s ago\)"):
            other.open()
        clock[0] += EXPIRES_AFTER + 1
        monkeypatch.setattr("eventide.state.lease.BEAT_EVERY", 0.01)  # how long it watches whether the other one is heard again
        other.open()
        other.batch("a")

    other = Ledgered.__new__(Ledgered)
    other.__dict__.update(cut_off.__dict__)
    first = cut_off.open(hook=elsewhere)
    with pytest.raises((StateInUse, RecordTaken)):
        cut_off.batch("a")
    assert other.run is not first and other.run.ledger.batch == 0
    assert cut_off.table("totals") == whole.table("totals") and cut_off.table("deltas") == whole.table("deltas")
    assert len(list((cut_off.root / "state/journal").glob("commit-*"))) == 1
    other.run.close()


def test_a_lease_is_renewed_while_a_batch_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.state.lease.BEAT_EVERY", 0.01)
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1))

    def wait_for_a_beat(point: str) -> None:
        if point == "scan":
            first = feeding.run.lease.beat
            while feeding.run.lease.beat < first + 3:
                pass

    feeding.open(hook=wait_for_a_beat)
    feeding.batch("a")
    feeding.run.close()
    assert len(list((tmp_path / "state/lease").iterdir())) == 2, "the first record and the newest"


def test_a_straggler_of_a_dead_run_cannot_touch_what_users_read(tmp_path: Path) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    feeding.open()
    feeding.crash("store", "a")
    dead = feeding.run.store
    feeding.open()
    feeding.again("a")
    ledger, panes = feeding.run.ledger, sorted(feeding.run.store.files("panes/totals"))
    assert len(panes) == 1 and is_committed(panes[0], ledger)
    late = dead.write_table("panes/totals", 0, "bucket-00000", pl.DataFrame({"n": [1]}))
    assert sorted(feeding.run.store.files("panes/totals")) == sorted([*panes, late])
    assert not is_committed(late, ledger), "written after all by a task of the run that died"


class Suspended(Ledgered):
    """A run that stands still, after it has looked for the last time whether the state is its own, while another one takes it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root)
        monkeypatch.setattr("eventide.state.lease._alive", lambda held: False)
        monkeypatch.setattr("eventide.state.lease._within", lambda seconds, happens: False)  # nor is it heard by who watches
        monkeypatch.setattr("eventide.state.lease._machine", lambda: uuid.uuid4().hex)  # each of them on a machine of its own
        self.land("a", (1, 1, "x", 1), (15, 16, "x", 2), (3, 17, "x", 4))
        self.open()
        self.batch("a")
        self.land("a", (4, 18, "x", 8), (35, 36, "x", 16))
        self.first, self.archived = self.run, root / "archive"

    def pipeline(self, **more: Any) -> ev.Pipeline:
        pipe = super().pipeline(**more)
        return ev.Pipeline(
            "bad", *pipe.outputs, state=pipe.state, buckets=1, archive=str(self.root / "archive"), measure="bank",
        )  # fmt: skip

    def stand_still(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
        """The next batch of the first run, with something that happens right before its commit."""
        commit = self.first.journal.commit

        def later(*facts: Any) -> None:
            meanwhile()
            commit(*facts)

        monkeypatch.setattr(self.first.journal, "commit", later)
        try:
            self.batch("a")
        finally:
            self.first.lease._over.set()

    def whole(self) -> None:
        """What is committed can be read, from the state, the archive and the measures, and says all there is."""
        self.open()
        run = self.run
        assert len(run.store.read(run.ledger.parts)) == len(run.ledger.parts)
        said = [(p["sequence"], p["total"]) for p in self.said("panes/totals")]
        assert sorted(said) == [(0, 1), (0, 2), (1, 5), (2, 13)], said
        rows = sum(pl.read_parquet(f.url).height for f in files_of(str(self.archived), 0, run.ledger))
        assert rows == 5 and run.pipeline.lateness().parts.filter(pl.col("dimension") == "")["rows"].sum() == 5


def test_a_run_that_wakes_up_and_commits_first_finds_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeding = Suspended(tmp_path, monkeypatch)
    feeding.stand_still(monkeypatch, lambda: [feeding.open()])
    with pytest.raises(RecordTaken, match="commit-000000000001"):
        feeding.batch("a")
    feeding.run.close()
    feeding.whole()


def test_a_run_that_wakes_up_after_the_other_has_committed_fails_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeding = Suspended(tmp_path, monkeypatch)
    with pytest.raises(RecordTaken, match="commit-000000000001"):
        feeding.stand_still(monkeypatch, lambda: (feeding.open(), feeding.again("a"), feeding.run.close()))
    feeding.whole()
    mine = feeding.first.lease.attempt
    left = [path for path in tmp_path.rglob(f"*{mine}*") if "batch=1" in str(path) or "-b000000000001-" in path.name]
    assert not left, "what the loser had written was cleared by the one that committed"


def test_what_tries_leave_that_fail_again_and_again_is_cleared_where_they_are_known_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))

    def left() -> int:
        return len(list((tmp_path / "state/data").rglob("*.parquet")))

    feeding.open()
    feeding.crash("begun", "a")
    once = left()
    for _ in range(3):
        feeding.open()
        feeding.crash("deliver", "a")
        assert left() == once > 0, "a target that is down for days must not fill the disk"
    monkeypatch.setattr("eventide.state.lease._machine", lambda: uuid.uuid4().hex)
    monkeypatch.setattr(Lease, "release", lambda lease: lease._over.set())
    monkeypatch.setattr("eventide.state.lease._alive", lambda held: False)
    monkeypatch.setattr("eventide.state.lease._within", lambda seconds, happens: False)
    feeding.open()
    feeding.crash("deliver", "a")
    feeding.open()
    assert left() == once, "whoever wrote these may only be suspended"
    feeding.again("a")
    assert {str(p.relative_to(tmp_path / "state")) for p in (tmp_path / "state/data").rglob("*.parquet")} == {
        part.path for part in feeding.run.ledger.parts
    }, "now it cannot commit any more"


def test_a_disk_that_is_full_leaves_no_half_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def fill(point: str) -> None:
        if point == "deliver":
            monkeypatch.setattr("eventide.state.journal.os.fsync", full)

    feeding.open(hook=fill)
    with pytest.raises(OSError, match="No space left"):
        feeding.batch("a")
    monkeypatch.undo()
    assert not [path for path in (tmp_path / "state/journal").iterdir() if path.name.startswith(".")]
    feeding.run.close()
    feeding.open()
    feeding.again("a")
    assert feeding.table("totals") == feeding.table("deltas") and len(feeding.table("totals")) == 1
