"""Generations in a run: above all that stand, shown when caught up, in the place of another shape, beneath or above a backfill."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crash_driver import Here, Listed, note
from feeding import SECOND, Feeding, at
from landing import START
from listening import Listener

import eventide as ev
from eventide.engine.backfill import backfill, without_sinks
from eventide.engine.restart import start_over
from eventide.engine.run import Run
from eventide.engine.supersede import Superseding
from eventide.errors import LossWarning, TargetMismatch
from eventide.state.archive import archived_files
from eventide.state.generations import noted, states_aside
from eventide.state.journal import Journal, LocalFiles
from eventide.state.lease import Lease, StateInUse


class Generations(Feeding):
    """One lane into a table and into a function."""

    def __init__(self, root: Path) -> None:
        self.counting = {"n": ev.count()}
        self.heard, self.window, self.bound = Listener(), ev.tumbling("10 s"), "0 s"
        super().__init__(root)

    def pipeline(self, **_: Any) -> ev.Pipeline:
        payments = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded(self.bound)
        )
        made = payments.window(self.window, by="bank").agg(**self.counting, total=ev.sum("paise"))
        base = ev.sqlite(str(self.root / "out.db"))
        late = ev.accumulate("20 s", refused=ev.divert(base))
        return ev.Pipeline(
            "bad", made.to("out", base, late=late), made.to("deltas", base, late=late, accumulation="discarding"),
            made.to("told", ev.function(self.heard, keyed=True), late=late), state=str(self.root / "state"), buckets=2,
            archive=str(self.root / "archive"),
        )  # fmt: skip

    def table(self, name: str = "out") -> dict[str, int]:
        with sqlite3.connect(self.root / "out.db") as base:
            return dict(base.execute(f'select window_id, total from "{name}"').fetchall())

    def all_agree(self) -> dict[str, int]:
        assert self.table() == self.table("deltas") == self.heard.totals()
        return self.table()

    def rows_in(self) -> int:
        return sum(self.all_agree().values())

    def again(self, *_: str, **how: Any) -> None:
        """The next generation, by the definition as it is now."""
        self.run.close()
        pipe, aside = start_over(self.pipeline())
        assert aside is not None
        self.open(pipe)

    def caught_up(self, *files: Path) -> None:
        self.batch_of(*(files or sorted((self.root / "in").rglob("*.parquet"), key=lambda p: p.name)))


def seconds(*times: int) -> list[tuple[float, float, str, int]]:
    return [(t, t, "x", 1) for t in times]


@pytest.fixture
def live(tmp_path: Path) -> Generations:
    """Three windows of ten seconds have closed, and a fourth is open."""
    feeding = Generations(tmp_path)
    feeding.land("a", *seconds(1, 2, 12, 23, 24, 31))
    feeding.open()
    feeding.caught_up()
    assert feeding.rows_in() == 5 and feeding.run.generation == 0
    return feeding


def test_a_state_that_was_lost_begins_above_what_stands_in_its_sinks(live: Generations) -> None:
    live.run.close()
    (live.root / "state").rename(live.root / "elsewhere")
    live.land("a", *seconds(41))
    live.open()
    assert live.run.generation == 1
    live.caught_up()
    assert live.table() == live.table("deltas") and sum(live.table().values()) == 6
    live.run.close()
    assert live.open().generation == 1, "a state keeps its own"


def test_a_generation_is_taken_once_even_if_its_run_died_before_the_first_batch(live: Generations) -> None:
    live.run.close()
    start_over(live.pipeline())
    live.open().close()
    assert live.open().generation == 1
    live.again()
    assert live.run.generation == 2


def test_a_generation_that_waited_when_its_state_was_removed_is_not_taken_again(live: Generations) -> None:
    live.window = ev.tumbling("20 s")
    live.again()
    assert live.run.generation == 1 and live.run.deliverer.outlets["out"].withheld
    for generation in (2, 3):
        live.run.close()
        shutil.rmtree(live.root / "state")
        shutil.rmtree(live.root / "archive", ignore_errors=True)
        assert live.open(live.pipeline()).generation == generation, "late rows of the one before may stand under its number"
    live.caught_up()
    assert live.rows_in() == 3, "one of the wider windows has closed"
    live.again()
    assert live.run.generation == 4


def test_other_windows_replace_the_old_ones_whole_and_not_before_they_have_caught_up(live: Generations) -> None:
    live.window = ev.tumbling("20 s")
    live.land("a", *seconds(32, 45))
    files = sorted((live.root / "in").rglob("*.parquet"))
    before = live.all_agree()
    live.again()
    live.batch_of(files[0])
    assert live.all_agree() == before, "a generation that has not read all is seen by nobody"
    live.run.close()
    live.open(live.pipeline())
    live.batch_of(files[1])
    assert live.rows_in() == 7
    assert {window.split(":")[1] for window in live.all_agree()} == {str(START + s * SECOND) for s in (20, 40)}
    assert {*live.heard.retracted} >= set(before)
    live.land("a", *seconds(61))
    live.batch("a")
    assert live.rows_in() == 8


def test_other_windows_again_and_again_never_double_a_sum(live: Generations) -> None:
    for generation, size in enumerate(("20 s", "5 s", "10 s", "10 s", "7 s"), 1):
        live.window = ev.tumbling(size)
        live.again()
        assert live.run.generation == generation
        live.land("a", *seconds(100 * generation))
        live.caught_up()
        live.batch_of()
        assert live.rows_in() == 5 + generation, size


def test_an_aggregate_that_is_gone_replaces_the_table_that_has_its_column(live: Generations) -> None:
    live.counting = {}
    live.land("a", *seconds(45))
    live.again()
    assert live.all_agree() and live.run.deliverer.outlets["out"].withheld
    live.caught_up()
    assert live.rows_in() == 6
    with sqlite3.connect(live.root / "out.db") as base:
        assert "n" not in [column[1] for column in base.execute("pragma table_info(out)")]


@pytest.mark.parametrize("point", ["begun", "between sinks", "deliver", "commit"])
def test_killed_while_it_takes_the_place_of_another_shape_it_does_so_again(live: Generations, point: str) -> None:
    class Killed(Exception):
        pass

    def hook(here: str) -> None:
        if here == point:
            raise Killed

    live.window = ev.tumbling("20 s")
    live.land("a", *seconds(45))
    live.again()
    live.run.hook = hook
    with pytest.raises(Killed):
        live.caught_up()
    live.run.close()
    live.open(live.pipeline())
    if live.run.ledger.batch < 0:
        live.caught_up()
    assert live.rows_in() == 6
    live.land("a", *seconds(61))
    live.batch("a")
    assert live.rows_in() == 7


def test_what_the_new_generation_does_not_have_is_withdrawn_where_it_has_read_all(live: Generations) -> None:
    """The row of the second window is gone from the input, and W has not passed the third again."""
    first = live.all_agree()
    (file,) = (live.root / "in/a").iterdir()
    frame = pl.read_parquet(file)
    live.again()
    frame.filter(~pl.col("ts").is_in([at(12), at(31)])).write_parquet(file)
    live.caught_up()
    kept = {w: n for w, n in first.items() if not w.startswith(str(START + 10 * SECOND))}
    assert live.all_agree() == kept and len(kept) == 2
    assert live.heard.retracted == sorted({*first} - {*kept})


def test_what_a_lane_has_lost_to_retention_is_not_absent(live: Generations) -> None:
    """Lane b's first file is gone: whatever lies before its first row that is left may have been its."""
    live.bound = "5 s"
    live.land("b", *seconds(2, 13))
    live.land("b", *seconds(23, 41))
    live.land("a", *seconds(41, 71))
    live.again()
    live.caught_up()
    live.land("b", *seconds(45, 72))
    live.batch("b")
    before = live.all_agree()
    assert sum(before.values()) == 12
    files = sorted((live.root / "in").rglob("*.parquet"), key=lambda p: p.name)
    frame = pl.read_parquet(files[0])
    frame.filter(~pl.col("ts").is_in([at(12), at(31)])).write_parquet(files[0])  # lane a is whole, and has two rows less
    os.utime(files[0], (1_700_000_000,) * 2)
    files[1].unlink()
    live.again()
    assert live.run.definition["lost"] == {"payments": ["b"]}
    live.caught_up()
    starts = {int(window.split(":")[0]) // SECOND - START // SECOND: n for window, n in live.all_agree().items()}
    # 0: the part that is left; 10: lane b may have had it; 30: absent, and withdrawn.
    assert starts == {0: 2, 10: 2, 20: 3, 40: 3}, starts


@pytest.fixture
def short(live: Generations) -> Generations:
    """Lane b had two files, and the first is gone; both generations so far have told of its rows."""
    live.land("b", *seconds(2, 13))
    live.land("b", *seconds(23, 41))
    live.land("a", *seconds(41, 71))
    live.again()
    live.caught_up()
    sorted((live.root / "in/b").iterdir())[0].unlink()
    live.again()
    assert live.run.definition["lost"] == {"payments": ["b"]}
    return live


@pytest.mark.parametrize("aside", ["kept", "only the last is kept"])
def test_what_a_lane_has_lost_is_lost_to_every_generation_after(short: Generations, aside: str) -> None:
    short.caught_up()
    stood = short.all_agree()
    if aside != "kept":
        for number in (0, 1):
            shutil.rmtree(short.root / f"state.generation-{number}")
    short.again()
    assert short.run.definition["lost"] == {"payments": ["b"]}
    short.caught_up()
    assert short.table() == stood


def test_a_generation_that_never_read_what_is_gone_does_not_vouch_for_those_that_did(short: Generations) -> None:
    """The one that noted the loss was set aside before its first batch, and its note is gone."""
    stood = short.all_agree()
    short.run.close()
    shutil.rmtree(short.root / "state")
    short.open(short.pipeline())
    assert short.run.definition["lost"] == {"payments": ["b"]}
    short.caught_up()
    assert set(short.all_agree()) == set(stood)


@pytest.mark.parametrize("damaged", ["journal/commit-*", "checkpoint/sources/0/0", "checkpoint/offsets/0"])
def test_where_nobody_can_tell_what_was_read_every_lane_has_lost_its_beginning(live: Generations, damaged: str) -> None:
    live.run.close()
    (path,) = (live.root / "state").glob(damaged)
    cut_off(path)
    pipe, _ = start_over(live.pipeline())
    with pytest.warns(LossWarning) if "commit" in damaged else nullcontext():
        live.open(pipe)
    assert live.run.definition["lost"] == {"payments": ["*"]}


def test_what_is_gone_is_seen_after_the_end_of_the_input_too(live: Generations) -> None:
    """The end of the input is a batch of which Spark notes nothing."""
    live.batch_of()
    live.run.batch(None, live.run.ledger.batch + 1, drain=True)
    (file,) = (live.root / "in/a").iterdir()
    file.unlink()
    live.land("a", *seconds(41))
    live.again()
    assert live.run.definition["lost"] == {"payments": ["a"]}


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("window", ["10 s", "20 s"])
@pytest.mark.parametrize(
    "damaged",
    ["journal/commit-*", "journal/definition-*", "journal/begin-*", "checkpoint/sources/0/0", "journal/*", "no definition"],
)
def test_a_damaged_state_can_be_started_over_from(live: Generations, damaged: str, window: str) -> None:
    """Its sinks go on; one that cannot be asked is not told what the damaged state said and the new one does not replace."""
    live.run.close()
    told = live.heard.totals()
    for path in (live.root / "state").glob("journal/definition-*" if damaged == "no definition" else damaged):
        path.unlink() if damaged == "no definition" else cut_off(path)
    live.window = ev.tumbling(window)
    live.land("a", *seconds(45))
    pipe, aside = start_over(live.pipeline())
    assert aside == live.root / "state.generation-0"
    unreadable = not damaged.startswith(("checkpoint", "journal/begin"))
    with (
        pytest.warns(LossWarning, match=r"generation-0 cannot be read.*'told'.*not retracted") if unreadable else nullcontext()
    ):
        assert live.open(pipe).generation == 1
    live.caught_up()
    assert sum(live.table().values()) == sum(live.table("deltas").values()) == 6
    assert live.heard.totals() == (live.table() if window == "10 s" or not unreadable else {**told, **live.table()})
    live.again()
    assert live.run.generation == 2


def test_a_state_whose_records_tell_nothing_is_put_beside_those_before_it(live: Generations) -> None:
    live.again()
    live.run.close()
    for path in (live.root / "state/journal").iterdir():
        cut_off(path)
    pipe, aside = start_over(live.pipeline())
    assert aside == live.root / "state.generation-1" and pipe.generation == 2


def test_nobody_takes_a_state_while_it_is_set_aside(live: Generations, monkeypatch: pytest.MonkeyPatch) -> None:
    live.run.close()
    state, tried, rename = live.root / "state", [], Path.rename

    def meanwhile(path: Path, to: Any) -> Path:
        with pytest.raises(StateInUse):
            Lease.take(LocalFiles(str(state)), str(state)).release()
        tried.append(path)
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", meanwhile)
    _, aside = start_over(live.pipeline())
    assert tried == [state] and not state.exists()
    Lease.take(LocalFiles(str(aside)), str(aside)).release()


def test_a_state_that_cannot_be_set_aside_is_let_go_of(live: Generations, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Path:
        raise PermissionError("not yours")

    live.run.close()
    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(PermissionError):
        start_over(live.pipeline())
    assert live.open().generation == 0


def test_older_results_of_windows_that_are_not_closed_stand_until_they_are(live: Generations) -> None:
    live.bound = "15 s"
    (file,) = (live.root / "in/a").iterdir()
    frame = pl.read_parquet(file)
    first = live.all_agree()
    live.again()
    frame.filter(pl.col("ts") != at(12)).write_parquet(file)
    live.caught_up()
    assert live.run.ledger.frontier.watermark == START + 16 * SECOND
    assert live.all_agree() == first, "the second window may still get its row"
    live.run.close()
    live.open(live.pipeline())
    live.land("a", *seconds(37))
    live.batch("a")
    assert len(live.all_agree()) == 2, "now it cannot"


def test_a_sink_that_holds_a_newer_generation_is_not_written_beneath(live: Generations) -> None:
    live.run.close()
    (live.root / "state").rename(live.root / "old")
    live.open().close()
    (live.root / "state").rename(live.root / "new")
    (live.root / "old").rename(live.root / "state")
    with pytest.raises(TargetMismatch, match=r"'out' holds results of generation 1.*state.*generation 0.*--start-over"):
        live.open()


def backfilled(live: Generations, *rows: tuple[float, float, str, int], drain: bool = True) -> int:
    """What a backfill does, over these rows, with a Run of its own; gives its generation."""
    superseding = Superseding.of(live.pipeline(), from_archive=False)
    history = Feeding(live.root / f"history {noted(LocalFiles(str(live.root / 'state')))}")
    history.land("a", *rows)
    minutes = history.pipe.aggregation.stream.sources[0].window(live.window, by="bank")
    made = minutes.agg(n=ev.count(), total=ev.sum("paise"))
    late = ev.accumulate("20 s", refused=ev.divert())
    outputs = (
        made.to("out", late=late), made.to("deltas", late=late, accumulation="discarding"), made.to("told", late=late),
    )  # fmt: skip
    pipe = ev.Pipeline("bad", *outputs, state=str(history.root / "state"), buckets=1)
    run = Run(pipe, Here(), pipe.state or "", clock=lambda: live.now, numbered=superseding.take)
    run.open()
    listed = [(str(file), START) for file in (history.root / "in/a").iterdir()]
    note(history.root / "state", 0, listed)
    run.batch(Listed(listed), 0, drain=drain)
    superseding.deliver(run)
    run.close()
    return run.generation


def test_a_backfill_supersedes_what_is_final_and_the_live_run_goes_on(live: Generations) -> None:
    """W is 31 s and the lateness allowed 20 s: only the first window is final."""
    assert backfilled(live, *seconds(1, 2, 3, 4, 12, 13, 23, 24, 31)) == 1
    assert sorted(live.all_agree().values()) == [1, 2, 4]
    live.land("a", (13, 42, "x", 1), *seconds(55))
    live.batch("a")
    assert sorted(live.all_agree().values()) == [1, 2, 2, 4], "a late row into a window that the backfill left alone"
    assert live.run.generation == 0
    assert backfilled(live, *seconds(1, 12, 13, 14, 23, 24, 31)) == 2, "ranks never tie"
    assert sorted(live.all_agree().values()) == [1, 1, 2, 3]
    live.run.close()
    assert live.open().generation == 0
    live.again()
    assert live.run.generation == 3
    live.caught_up()
    assert sorted(live.all_agree().values()) == [1, 2, 2, 2]


def test_rows_that_come_while_a_backfill_reads_do_not_stand_for_those_that_the_archive_lacks(
    live: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old files of the archive were removed; what it holds is counted against what had been read when the backfill began."""
    gone = live.run.ledger.rows["in"]
    shutil.rmtree(live.root / "archive")
    superseding = Superseding.of(live.pipeline(), from_archive=True)

    def asked(pipeline: Any, session: Any, upto: Any = None) -> Any:
        live.land("a", *seconds(*range(200, 200 + 2 * gone)))
        live.batch("a")
        rows = sum(file.open().metadata.num_rows for file in archived_files(pipeline, upto))
        superseding._refuse_part_of_an_archive(rows)
        raise AssertionError("taken for a whole archive")

    monkeypatch.setattr("eventide.engine.backfill.session_for", lambda pipeline, spark: Here())
    monkeypatch.setattr("eventide.engine.backfill.Superseding.of", lambda *_, **__: superseding)
    monkeypatch.setattr("eventide.engine.backfill.archived", asked)
    with pytest.raises(ev.DefinitionError, match=f"holds 0 of the {gone} rows"):
        backfill(live.pipeline(), None, None, str(live.root / "history"), deliver=True)


def test_a_backfill_is_not_delivered_to_what_sessions_added_before_they_grew(live: Generations) -> None:
    """A session's deltas stand under each of the bounds that it had; those of a session that is open yet may lie among the final ones."""
    live.window = ev.session("5 s")
    live.again()
    live.caught_up()
    with pytest.raises(ev.DefinitionError, match=r"output deltas .*session that grew.*deliver=\['out', 'told'\].*--start-over"):
        Superseding.of(live.pipeline(), from_archive=False)
    only = Superseding.of(live.pipeline(), from_archive=False, only=["told", "out"])
    assert [output.name for output in only.outputs] == ["told", "out"]
    with pytest.raises(ev.DefinitionError, match=r"no output totals; it has out, deltas, told"):
        Superseding.of(live.pipeline(), from_archive=False, only=["totals"])


def test_a_backfill_is_delivered_to_the_outputs_that_were_named_whatever_the_others_wait_for(live: Generations) -> None:
    live.window = ev.tumbling("20 s")
    live.land("a", *seconds(32, 45))
    pipe = live.pipeline()
    fresh, quiet = replace(pipe.outputs[0], name="fresh"), replace(pipe.outputs[0], name="quiet", sink=None)
    pipe = replace(pipe, outputs=(*pipe.outputs, fresh, quiet))
    live.run.close()
    live.open(start_over(pipe)[0])
    live.batch_of(min((live.root / "in").rglob("*.parquet")))
    with pytest.raises(ev.DefinitionError, match=r"not caught up yet, so that readers of deltas, out, told see"):
        Superseding.of(pipe, from_archive=False)
    with pytest.raises(ev.DefinitionError, match=r"readers of out see .* Let it catch up first"):
        Superseding.of(pipe, from_archive=False, only=["fresh", "out"])
    assert Superseding.of(pipe, from_archive=False, only=["fresh"]).outputs == (fresh,)
    with pytest.raises(ev.DefinitionError, match=r"output quiet .* has no sink .*deliver=\['out', 'deltas', 'told', 'fresh'\]"):
        Superseding.of(pipe, from_archive=False, only=["quiet", "fresh"])


def test_a_backfill_withdraws_final_results_that_it_does_not_have(live: Generations) -> None:
    live.land("a", *seconds(61))
    live.batch("a")
    backfilled(live, *seconds(1, 23, 31, 61))
    assert sorted(w.split(":")[0] for w in live.all_agree()) == [str(START + s * SECOND) for s in (0, 20, 30)]


def test_what_a_backfill_told_a_function_is_taken_back_when_another_shape_takes_its_place(live: Generations) -> None:
    backfilled(live, *seconds(1, 2, 3, 4))
    live.window = ev.tumbling("20 s")
    live.land("a", *seconds(45))
    live.again()
    live.caught_up()
    assert live.rows_in() == 6 and live.run.generation == 2


def test_states_set_aside_are_known_by_their_names_only(tmp_path: Path) -> None:
    for name in ("state", "state.generation-2", "state.generation-10", "state.generation-x", "states.generation-7"):
        (tmp_path / name).mkdir()
    assert [n for n, _ in states_aside(str(tmp_path / "state"))] == [2, 10]
    assert Journal(LocalFiles(str(tmp_path / "state"))).definition() is None


class Archived(Feeding):
    """No sink that could be asked which generation it holds, and an archive."""

    def pipeline(self, **_: Any) -> ev.Pipeline:
        outputs = super().pipeline().outputs
        return ev.Pipeline("bad", *outputs, state=str(self.root / "state"), buckets=1, archive=str(self.root / "archive"))


def test_a_fresh_state_leaves_the_archive_of_the_lost_one_alone(tmp_path: Path) -> None:
    feeding = Archived(tmp_path)
    feeding.land("a", *seconds(1, 12))
    feeding.open()
    feeding.batch("a")
    feeding.run.close()
    before = {path: path.read_bytes() for path in (tmp_path / "archive").rglob("*.parquet")}
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    assert before and feeding.open().generation == 1
    feeding.batch("a")
    assert {path: path.read_bytes() for path in before} == before


def test_results_of_a_first_batch_that_was_delivered_and_not_committed_are_taken_back(tmp_path: Path) -> None:
    feeding = Generations(tmp_path)
    feeding.land("a", *seconds(1, 2, 12, 23, 24, 31))
    run = feeding.open()

    def dies(point: str) -> None:
        if point == "deliver":
            raise KeyboardInterrupt

    run.hook = dies
    with pytest.raises(KeyboardInterrupt):
        feeding.caught_up()
    told = set(feeding.heard.totals())
    assert told
    feeding.window = ev.tumbling("20 s")
    feeding.again()
    feeding.caught_up()
    assert {*feeding.heard.retracted} >= told and feeding.heard.totals() == feeding.table()


def test_a_sink_that_cannot_be_closed_does_not_keep_the_state(live: Generations, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError("the disk is gone")

    outlets = live.run.deliverer.outlets.values()
    monkeypatch.setattr(next(iter(outlets)).panes, "close", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        live.run.close()
    assert live.open().generation == 0


class Viewed(Generations):
    """Only results of at least so much are shown."""

    least = 1

    def pipeline(self, **_: Any) -> ev.Pipeline:
        payments = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s")
        )
        shown = payments.window(self.window, by="bank").agg(total=ev.sum("paise")).where(f"total >= {self.least}")
        told, base = ev.function(self.heard, keyed=True), ev.sqlite(str(self.root / "out.db"))
        outputs = (shown.to(name, sink, late=ev.accumulate("20 s")) for name, sink in (("out", base), ("told", told)))
        return ev.Pipeline("bad", *outputs, state=str(self.root / "state"), buckets=2)

    def shown(self) -> list[int]:
        assert self.table() == self.heard.totals()
        return sorted(self.table().values())


@pytest.mark.parametrize("window", [ev.tumbling("10 s"), ev.session("5 s")])
@pytest.mark.parametrize("least", [2, 3, 100])
def test_what_a_changed_view_no_longer_shows_is_withdrawn_wherever_it_stands(tmp_path: Path, window: Any, least: int) -> None:
    """Also before the first result that is shown, and where none is: the windows were read, and hold nothing to be seen."""
    feeding = Viewed(tmp_path)
    feeding.window = window
    feeding.land("a", *seconds(1, 12, 13, 23, 24, 25, 41))
    feeding.open()
    feeding.caught_up()
    assert feeding.shown() == [1, 2, 3]
    feeding.least = least
    feeding.again()
    feeding.caught_up()
    assert feeding.shown() == [total for total in (1, 2, 3) if total >= least]


def test_a_delivered_backfill_withdraws_what_its_view_shows_nothing_of(tmp_path: Path) -> None:
    feeding = Viewed(tmp_path)
    feeding.land("a", *seconds(1, 12, 13, 23, 24, 25, 71))
    feeding.open()
    feeding.caught_up()
    feeding.run.close()
    feeding.least = 3
    superseding = Superseding.of(feeding.pipeline(), from_archive=False)
    again = replace(feeding.pipeline(), outputs=without_sinks(feeding.pipeline().outputs), state=str(tmp_path / "history"))
    run = Run(again, Here(), str(tmp_path / "history"), clock=lambda: feeding.now, numbered=superseding.take)
    run.open()
    listed = [(str(p), p.stat().st_mtime_ns // 1000) for p in (tmp_path / "in").rglob("*.parquet")]
    note(tmp_path / "history", 0, listed)
    run.batch(Listed(listed), 0, drain=True)
    superseding.deliver(run)
    run.close()
    assert feeding.shown() == [3]
