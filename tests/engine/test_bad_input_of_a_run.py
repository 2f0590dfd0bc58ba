"""What goes wrong outside: bad rows, empty batches, late lanes, jumping clocks, damaged state, changed definitions."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from crash_driver import Here, Listed
from feeding import SECOND, Feeding, at
from landing import START, land, lane_rows
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

import eventide as ev
from eventide.engine.changes import DefinitionChanged
from eventide.engine.gate import BatchFailed
from eventide.engine.java import SparkUnavailable
from eventide.engine.run import Run
from eventide.engine.spark_session import refuse_connect
from eventide.state.generations import noted
from eventide.state.journal import JournalError, LocalFiles
from eventide.state.lease import Lease, StateInUse
from eventide.state.store import StoreError


@pytest.fixture
def feeding(tmp_path: Path) -> Feeding:
    return Feeding(tmp_path)


def test_a_batch_of_bad_rows_only_moves_nothing_and_loses_nothing(feeding: Feeding) -> None:
    feeding.land("a", (None, 1, "x", 1), (10**9, 1, "x", 2), (None, 2, None, None))
    feeding.open()
    feeding.batch("a")
    assert feeding.rows()["dead"] == feeding.rows()["in"] == 3
    assert feeding.run.ledger.frontier.watermark is None and not feeding.said()
    reasons = {letter["reason"] for letter in feeding.said("dead")}
    assert len(reasons) == 2 and any("null" in r for r in reasons) and any("too far" in r for r in reasons)


@pytest.mark.parametrize(
    "output",
    [
        lambda minutes: minutes.where("bank > 5").to("rich", late=ev.drop()),
        lambda minutes: minutes.select(bank5="bank + 5").to("rich", late=ev.drop()),
        lambda minutes: minutes.where("n > 1").results(late=ev.drop()).window(ev.tumbling("1 minute")).agg(n=ev.count(where="bank = 5")).to("rich", late=ev.drop()),
        lambda minutes: minutes.to("rich", late=ev.drop(), early=ev.when("total = 'much'")),
    ],
    ids=["where", "select", "a stage", "when"],
)  # fmt: skip
def test_what_is_null_in_every_row_is_refused_before_the_first_batch_and_writes_nothing(feeding: Feeding, output: Any) -> None:
    feeding.land("a", (1, 1, "x", 5))
    with pytest.raises(ev.DefinitionError, match=r"null in every row"):
        feeding.open(feeding.pipeline(more=(output,)))
    assert not (feeding.root / "state" / "definition-1.json").exists()


def test_an_empty_batch_and_an_empty_file_change_nothing(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 5))
    feeding.open()
    feeding.batch("a")
    before = feeding.run.ledger.frontier.watermark
    feeding.batch()
    feeding.land("a")
    feeding.batch("a")
    assert feeding.run.ledger.frontier.watermark == before and feeding.rows()["in"] == 1 and feeding.run.ledger.batch == 2


def test_a_null_key_is_a_key_and_a_null_value_counts_as_a_row(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, None, 5), (2, 2, None, None), (3, 3, "x", 1))
    feeding.open()
    feeding.batch("a", drain=True)
    assert {(p["bank"], p["n"], p["total"]) for p in feeding.said()} == {(None, 2, 5), ("x", 1, 1)}


def test_an_aggregation_without_a_key_has_one_result_for_each_window(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 5), (2, 2, "y", 6), (11, 11, "x", 1))
    feeding.open(feeding.pipeline(by=()))
    feeding.batch("a", drain=True)
    assert sorted((p["n"], p["total"]) for p in feeding.said()) == [(1, 1), (2, 11)]


def test_times_before_1970_fall_into_windows_like_any_others(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    early = -START / SECOND - 5
    feeding.land("a", (early, 1, "x", 5), (early + 1, 2, "x", 6))
    feeding.open()
    feeding.batch("a", drain=True)
    (pane,) = feeding.said()
    assert pane["window_end"] == datetime(1970, 1, 1, tzinfo=UTC) and pane["total"] == 11


def test_a_lane_that_appears_later_joins_with_its_first_row(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 1), (25, 25, "x", 1))
    feeding.open()
    feeding.batch("a")
    assert feeding.run.ledger.frontier.watermark == START + 25 * SECOND
    feeding.land("b", (12, 30, "x", 7), (31, 31, "x", 1))
    feeding.batch("b")
    assert (0, "b") in feeding.run.ledger.frontier.lanes
    late = [p for p in feeding.said() if p["timing"] == "late"]
    assert [(p["window_start"], p["n"], p["total"]) for p in late] == [(at(10), 1, 7)]


def test_a_clock_that_jumps_neither_goes_back_in_the_journal_nor_changes_an_answer(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    feeding.batch("a")
    clocks = []
    for jump in (-3600, 7200, -86_400):
        feeding.now += jump * SECOND
        feeding.land("a", (20 + len(clocks), 20 + len(clocks), "x", 1))
        feeding.batch("a")
        clocks.append(feeding.run.last_clock)
    assert clocks == sorted(clocks)
    feeding.batch(drain=True)
    assert sum(p["n"] for p in feeding.said()) == 4


def test_two_runs_on_one_state_directory_are_refused_and_the_second_says_who_holds_it(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    with pytest.raises(StateInUse, match=f"in use by process {os.getpid()}"):
        Run(feeding.pipe, Here(), str(feeding.root / "state")).open()
    feeding.run.close()
    feeding.open().close()


def test_a_run_whose_lease_was_taken_over_stops_before_it_writes(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    (lease,) = (feeding.root / "state/lease").iterdir()
    lease.with_name("00000002-00000000.json").write_text(json.dumps({**json.loads(lease.read_text()), "holder": "another"}))
    with pytest.raises(StateInUse, match="took over"):
        feeding.batch("a")
    assert not list((feeding.root / "state/journal").glob("begin-*"))


def test_why_a_run_could_not_begin_is_told_even_if_its_lease_cannot_be_released(
    feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(lease: Lease) -> None:
        raise OSError("no answer")

    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    feeding.run.close()
    with monkeypatch.context() as patched, pytest.raises(DefinitionChanged) as raised:
        patched.setattr(Lease, "release", fail)
        feeding.open(feeding.pipeline(window=ev.tumbling("20 s")))
    assert raised.value.__notes__ == ["After that, letting go failed too: OSError: no answer"]


def test_a_damaged_lease_is_an_error_that_says_what_to_remove(feeding: Feeding) -> None:
    feeding.land("a", (1, 1, "x", 1))
    (feeding.root / "state/lease").mkdir(parents=True)
    (feeding.root / "state/lease/00000001-00000000.json").write_text("{")
    with pytest.raises(StateInUse, match=r"lease/00000001-00000000\.json.*remove that file"):
        feeding.open()


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and p.parent.name != "lease"
    }


@pytest.fixture
def stopped(feeding: Feeding) -> Feeding:
    """Three batches, with open windows, then stopped."""
    for second in (1, 5, 12):
        feeding.land("a", (second, second, "x", second))
        if second == 1:
            feeding.open()
        feeding.batch("a")
    feeding.run.close()
    return feeding


def newest(feeding: Feeding) -> Path:
    return max((feeding.root / "state/journal").glob("commit-*"))


def cut_short(feeding: Feeding) -> None:
    newest(feeding).write_bytes(newest(feeding).read_bytes()[:100])


def one_bit(feeding: Feeding) -> None:
    newest(feeding).write_bytes(newest(feeding).read_bytes().replace(b'"in":3', b'"in":7'))


def emptied(feeding: Feeding) -> None:
    newest(feeding).write_bytes(b"")


def newer_format(feeding: Feeding) -> None:
    newest(feeding).write_text(json.dumps({"version": 99, "facts": {}}))


def no_definition(feeding: Feeding) -> None:
    (feeding.root / "state/journal/definition-000001.json").unlink()


def no_commits(feeding: Feeding) -> None:
    for path in (feeding.root / "state/journal").glob("commit-*"):
        path.unlink()
    (feeding.root / "state/journal/begin-000000000000.json").unlink()


def lost_commits(feeding: Feeding) -> None:
    for path in sorted((feeding.root / "state/journal").glob("commit-*"))[1:]:
        path.unlink()


DAMAGES = {
    cut_short: r"commit-0+2\.json is damaged.*Nothing was overwritten.*--start-over",
    one_bit: r"commit-0+2\.json is damaged.*checksum",
    emptied: r"commit-0+2\.json is damaged",
    newer_format: r"has format 99; this Eventide reads up to 3\. Upgrade",
    no_definition: r"definition-\*\.json.*are missing",
    no_commits: r"holds no commit: earlier records are missing",
    lost_commits: r"begun batch 2, but its newest commit is of batch 0",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_or_missing_record_is_a_clear_error_and_nothing_is_overwritten(stopped: Feeding, damage: Any) -> None:
    damage(stopped)
    before = contents(stopped.root / "state")
    with pytest.raises(JournalError, match=DAMAGES[damage]):
        stopped.open()
    assert contents(stopped.root / "state") == before


def test_what_others_put_into_a_state_directory_is_left_alone(stopped: Feeding) -> None:
    """File servers keep their snapshots in every directory, and people their copies."""
    (stopped.root / "state/generations").mkdir(exist_ok=True)
    foreign = [stopped.root / "state" / name for name in ("data/.snapshot/x", "data/old copy/x", "generations/notes.txt")]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    stopped.open()
    stopped.land("a", (40, 40, "x", 1))
    stopped.batch("a")
    assert noted(LocalFiles(str(stopped.root / "state"))) == -1
    assert all(path.exists() for path in foreign)


def test_a_batch_that_spark_skipped_to_is_refused(stopped: Feeding) -> None:
    newest(stopped).unlink()
    run = stopped.open()
    before = contents(stopped.root / "state")
    with pytest.raises(BatchFailed, match=r"JournalError: Spark goes on with batch 3, but the newest commit .* is of batch 1"):
        run._on_batch(Listed([]), 3)
    assert contents(stopped.root / "state") == before


def test_a_checkpoint_that_is_gone_is_refused(stopped: Feeding) -> None:
    run = stopped.open()
    shutil.rmtree(stopped.root / "state/checkpoint")
    with pytest.raises(JournalError, match="has committed batch 2, but Spark's checkpoint beside it remembers none"):
        run.start(available_now=True)
    run.close()


@pytest.mark.parametrize("how", ["missing", "cut short"])
def test_a_part_that_is_missing_or_damaged_stops_the_batch_with_its_name(stopped: Feeding, how: str) -> None:
    run = stopped.open()
    part = stopped.root / "state" / max((p.low, p.path) for p in run.ledger.parts if p.kind == "partial")[1]
    body = part.read_bytes()
    part.unlink() if how == "missing" else part.write_bytes(body[: len(body) // 2])
    committed = newest(stopped).read_bytes()
    stopped.land("a", (40, 40, "x", 1))
    with pytest.raises(StoreError, match=f"{part.name}.*cannot be read.*Nothing was overwritten"):
        stopped.batch("a")
    assert newest(stopped).read_bytes() == committed
    part.write_bytes(body)
    run.close()
    stopped.open()
    stopped.batch("a")
    stopped.batch(drain=True)
    assert sum(p["n"] for p in stopped.said()) == 4, "with the file restored the run goes on as if nothing had happened"


def test_sinks_new_outputs_and_trigger_intervals_may_change_across_a_restart(stopped: Feeding) -> None:
    changed = stopped.pipeline(more=[lambda minutes: minutes.to("second", late=ev.drop(), early=ev.every("1 s"))])
    with_sink = replace_sink(changed, ev.sqlite(str(stopped.root / "out.db")))
    stopped.open(with_sink)
    stopped.land("a", (30, 30, "x", 1))
    stopped.batch("a")
    assert {(p["window_start"], p["timing"]) for p in stopped.said("panes/second")} == {(at(10), "on_time")}


def replace_sink(pipe: Any, sink: Any) -> Any:
    return ev.Pipeline(pipe.name, *(replace(o, sink=sink) for o in pipe.outputs), state=pipe.state, buckets=1)


def test_a_changed_window_key_aggregate_or_policy_is_refused_with_the_reason_and_the_command(stopped: Feeding) -> None:
    before = contents(stopped.root / "state")
    for changed, what in (
        (stopped.pipeline(window=ev.tumbling("20 s")), "window"),
        (stopped.pipeline(by=()), "keys"),
        (stopped.pipeline(allowed="2 minutes"), "output 'out'"),
    ):
        with pytest.raises(DefinitionChanged, match=f"{what}.*changed from.*--start-over"):
            stopped.open(changed)
    agg = stopped.pipe.aggregation
    other = replace(agg, aggregates=(("n", ev.count()),))
    pipe = ev.Pipeline(
        "bad", *(replace(o, aggregation=other) for o in stopped.pipe.outputs), state=stopped.pipe.state, buckets=1
    )
    with pytest.raises(DefinitionChanged, match=r"aggregates.*--start-over"):
        stopped.open(pipe)
    assert contents(stopped.root / "state") == before


def test_spark_connect_is_refused_with_the_reason() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SparkUnavailable, match=r"Spark Connect session.*JVM gateway"):
        refuse_connect(remote)


def test_a_run_that_failed_goes_on_where_it_stopped(spark: Any, tmp_path: Path) -> None:
    """On Spark: a damaged file stops the query with its name, if the source says so; mended, the same state goes on and nothing is lost."""
    land(tmp_path / "in", lane_rows(2_000), [2, 1, 1, 1], "evenly")
    pipe = ev.Pipeline(
        "mended",
        ev.files("p", str(tmp_path / "in"), event_time="ts", arrival="at", watermark=ev.bounded("2 s"), lane="directory", files_per_batch=2,
                 on_bad_file="stop")
        .window(ev.tumbling("1 minute"))
        .agg(n=ev.count())
        .to("out", late=ev.drop()),
        state=str(tmp_path / "state"),
    )  # fmt: skip
    broken, copy = max((tmp_path / "in/l0").iterdir()), tmp_path / "copy"
    times = broken.stat()
    shutil.copy2(broken, copy)
    broken.write_bytes(b"PAR1 nothing of the sort")
    os.utime(broken, (times.st_atime, times.st_mtime))
    with pytest.raises(Exception, match=r"source 'p': the file .*bytes\) cannot be read: Parquet"):
        pipe.run(spark)
    shutil.copy2(copy, broken)
    os.utime(broken, (times.st_atime, times.st_mtime))
    assert pipe.run(spark).rows["in"] == 2_000


def test_a_file_that_one_source_cannot_read_is_no_dead_letter_of_another_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sources over one directory ask for other columns; the batch dies while it is delivered, and is run again."""
    root = tmp_path / "in"
    root.mkdir()
    file = root / "1.csv"
    file.write_text("ts,bank,paise,note\n2023-11-14T22:13:21Z,x,5,a\n2023-11-14T22:13:31Z,x,6,b\n")
    ddl = "ts timestamp, bank string, paise bigint"
    monkeypatch.setattr("eventide.engine.feeds.files.parse_ddl", _typed)  # without Spark
    sources = [
        ev.files(name, str(root), format="csv", schema=schema, event_time="ts", watermark=ev.bounded("0 s"))
        for name, schema in [("can", ddl), ("cannot", f"{ddl}, Note string")]
    ]
    tens = ev.merge(*sources).window(ev.tumbling("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
    pipe = ev.Pipeline("both", tens.to("out", late=ev.drop()), state=str(tmp_path / "state"), buckets=1)
    listed = Listed([(str(file), file.stat().st_mtime_ns // 1000)] * 2, [0, 1])

    def dies(point: str) -> None:
        if point == "deliver":
            raise KeyboardInterrupt

    run = Run(pipe, Here(), str(pipe.state), hook=dies)
    run.open()
    with pytest.raises(KeyboardInterrupt):
        run.batch(listed, 0)
    faults = {source: [fault for *_, fault in files] for source, files in (run.journal.begun(0) or {})["landed"].items()}
    run.close()
    run = Run(pipe, Here(), str(pipe.state))
    run.open()
    run.batch(listed, 0)
    assert faults["0"] == [None] and "its header names the column 'note'" in faults["1"][0]
    assert run.ledger.rows["in"] == 3 and run.ledger.rows["dead"] == 1
    run.close()


def _typed(ddl: str) -> StructType:
    kinds = {"timestamp": TimestampType(), "string": StringType(), "bigint": LongType()}
    return StructType([StructField(name, kinds[kind]) for name, kind in (field.split() for field in ddl.split(", "))])
