"""Tables on files: many writers, many deliveries, stores that are away; nothing lost, nothing doubled, and never slower."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from eventide import sinks
from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.sinks import Retry
from eventide.sinks.kinds.parquet import Folder
from eventide.sinks.lake import file_error
from tests.sinks.panes import BASE, DELTAS, MINUTE, SHAPE, Pane, batch, delivery, expected, pane, random_log, seen
from tests.sinks.places import Delta, Iceberg, Parquet, Place, World

PATIENT = Retry(give_up_after=60, first=0.02, longest=0.3)
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(params=[Delta, Iceberg], ids=lambda kind: kind.name)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A table format that has commits."""
    return request.param(World(tmp_path))


def minute(number: int) -> list[Pane]:
    """A delivery: ten new windows, corrections of the three minutes before, and sometimes of one long ago."""
    panes = [pane(f"m{number}b{k}", 0, slot=number, total=k, n=1) for k in range(10)]
    for back in (1, 2, 3):
        panes += [
            pane(f"m{number - back}b{k}", back, slot=number - back, total=k + back, n=1) for k in (0, 5) if number >= back
        ]
    return panes + ([pane(f"m{number // 3}b5", 9, slot=number // 3, total=5, n=5)] if number % 10 == 9 else [])


def test_writers_at_once_lose_and_double_nothing(table: Place) -> None:
    """Four of them open a table that is not there, bring windows of their own, and correct the same one by turns."""
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def write(k: int) -> None:
        try:
            start.wait()
            writer = table.sink(retry=PATIENT, compact_every=3).open(table.output, SHAPE)
            for i in range(4):
                own, shared = (
                    pane(f"w{k}-{i}", 0, slot=i, total=k, n=i),
                    pane("shared", i * 4 + k, slot=3, total=i * 4 + k, n=0),
                )
                new = pane(f"both {i}", 0, slot=i, total=i, n=i)
                writer.deliver(batch([own, shared, new]), delivery(table.output, i))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    stored = table.logged("")
    assert len(stored) == len({row["window_id"] for row in stored}) == 4 * 4 + 1 + 4, "as a reader of the bare table sees it"
    assert {row["total"] for row in stored if row["window_id"] == "shared"} == {15}


def test_small_files_are_put_together_and_the_past_goes(table: Place) -> None:
    log: list[Pane] = []
    writer = table.sink(compact_every=5, keep_for="1 second").open(table.output, SHAPE)
    for number in range(30):
        log += minute(number)
        writer.deliver(batch(minute(number)), delivery(table.output, number))
    assert len(writer.files().near({})) < 20
    time.sleep(1.1)
    for number in range(30, 36):
        log += minute(number)
        writer.deliver(batch(minute(number)), delivery(table.output, number))
    assert seen(table.rows(SHAPE)) == expected(log)
    assert len(list(table.world.path.rglob("*.parquet"))) < 60, "what was replaced is gone"
    assert len(table.logged("")) == len({p["window_id"] for p in log})


def test_an_earlier_run_s_small_files_are_put_together_too(table: Place) -> None:
    """Runs that never live long enough for a compaction of their own."""
    for number in range(20):
        writer = table.sink(compact_every=50).open(table.output, SHAPE)
        writer.deliver(batch([pane(f"w{number}", 0, slot=number, total=1, n=1)]), delivery(table.output, number))
        writer.close()
    assert len(writer.files().near({})) <= 9
    assert len(table.rows(SHAPE)) == 20


def test_only_files_that_can_hold_the_windows_are_read(table: Place) -> None:
    writer = table.sink(compact_every=100).open(table.output, SHAPE)
    for number in range(6):
        panes = [pane(f"m{number}b{k}", 0, slot=number * 10, total=k, n=1) for k in range(3)]
        writer.deliver(batch(panes), delivery(table.output, number))
    end = BASE + 21 * MINUTE
    assert len(writer.files().near({})) == 6
    assert len(writer.files().near({"window_end": (end, end)})) == 1
    read: list[Any] = []
    files = writer.files

    def watched() -> Any:
        there = files()
        wanted = there.read
        there.read = lambda file, *rest: (read.append(file), wanted(file, *rest))[1]
        return there

    writer.files = watched
    writer.deliver(batch([pane("m2b1", 1, slot=20, total=7, n=1)]), delivery(table.output, 7))
    assert len(set(map(str, read))) == 1
    assert len(table.rows(SHAPE)) == 18


def test_a_withdrawn_delta_is_withdrawn_by_rank(table: Place) -> None:
    values = {"total": 1, "least": 1, "most": 1}
    writer = table.sink().open(table.output, DELTAS)
    deltas = [pane("w", s, slot=0, **values) for s in range(3)]
    writer.deliver(batch(deltas, DELTAS), delivery(table.output, 0))
    writer.deliver(batch([pane("w", 1, "retract", slot=0, **values)], DELTAS), delivery(table.output, 1))
    writer.deliver(batch(deltas, DELTAS), delivery(table.output, 0))
    assert [row["total"] for row in table.rows(DELTAS)] == [2]
    assert len(table.logged("")) == 3


def test_upkeep_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(DefinitionError, match="compact_every=0"):
        sinks.delta("x", compact_every=0)
    with pytest.raises(DefinitionError, match="keep_for"):
        sinks.parquet("x", keep_for="a while")


# Parquet: a log of files, and what stands.


@pytest.fixture
def folder(tmp_path: Path) -> Parquet:
    return Parquet(World(tmp_path))


def test_a_batch_that_comes_again_with_other_content_is_folded_in(folder: Parquet) -> None:
    writer = folder.sink().open(folder.output, SHAPE)
    writer.deliver(batch([pane("a", 0, total=1, n=1)]), delivery(folder.output, 7))
    writer.close()
    writer = folder.sink().open(folder.output, SHAPE)
    again = [pane("a", 0, total=1, n=1), pane("b", 0, slot=1, total=2, n=1)]
    for _ in range(2):
        writer.deliver(batch(again), delivery(folder.output, 7))
        assert set(seen(folder.rows(SHAPE))) == {"a", "b"}
    assert len(list((folder.world.path / "out" / folder.output / "panes").iterdir())) == 2


def test_late_rows_of_a_batch_that_comes_again_are_kept_once(folder: Parquet) -> None:
    schema = pa.schema([("lane", pa.string()), ("offset", pa.int64())])
    writer = folder.sink().open_log("late", schema, ("lane", "offset"))
    for offsets in ([1, 2], [2, 3], [2, 3]):
        rows = pa.RecordBatch.from_pylist([{"lane": "l", "offset": n} for n in offsets], schema=schema)
        writer.append([rows], delivery("late", 0))
    assert sorted(row["offset"] for row in folder.logged("late")) == [1, 2, 3]


def test_a_name_on_the_way_belongs_to_one_writer(tmp_path: Path) -> None:
    """Two writers of one file, such as a run and its successor: neither moves or removes what the other has half written."""
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(100):
                Folder(str(tmp_path)).write("x.parquet", pa.table({"n": [number] * 1000}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(pq.read_table(tmp_path / "x.parquet")) == 1000
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


class Hadoop(pafs.FileSystemHandler):
    """A file system that shows a file while it is written and gives a name once, as HDFS does; on a disk."""

    def __init__(self) -> None:
        self.disk = pafs.LocalFileSystem()
        self.opened: list[str] = []
        self.dies_after: int | None = None

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self.disk.get_file_info(paths)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        return self.disk.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.disk.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self.disk.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise KeyboardInterrupt
        if self.disk.get_file_info(dest).type != pafs.FileType.NotFound:
            raise OSError(f"HDFS: cannot rename to {dest}, which is there")
        self.disk.move(src, dest)

    def open_input_stream(self, path: str) -> Any:
        return self.disk.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.disk.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.opened.append(path)
        return self.disk.open_output_stream(path)

    def _none(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir = delete_dir_contents = delete_root_dir_contents = copy_file = open_append_stream = _none


@pytest.fixture
def hadoop(folder: Parquet, monkeypatch: pytest.MonkeyPatch) -> Hadoop:
    made = Hadoop()
    monkeypatch.setattr(Folder, "_opened", property(lambda self: (pafs.PyFileSystem(made), self.path)))
    return made


def test_on_hdfs_a_file_has_its_name_when_it_is_whole(folder: Parquet, hadoop: Hadoop) -> None:
    log = [p for number in range(6) for p in random_log(number)]
    sink = folder.sink()
    sink.claim(folder.output, SHAPE, 0)
    writer = sink.open(folder.output, SHAPE)
    for number in range(6):
        writer.deliver(batch(random_log(number)), delivery(folder.output, number))
    writer.close()
    sink.claim(folder.output, SHAPE, 1)
    assert seen(folder.rows(SHAPE)) == expected(log)
    assert sink.held(folder.output, SHAPE).generation == 1
    assert hadoop.opened and all(path.endswith(".tmp") for path in hadoop.opened)
    left = [path.name for path in (folder.world.path / "out" / folder.output).rglob("*") if path.name.startswith(".")]
    assert left == []


@pytest.mark.parametrize("moves", range(1, 7))
def test_on_hdfs_a_writer_that_dies_between_two_renames_loses_nothing(folder: Parquet, hadoop: Hadoop, moves: int) -> None:
    """With `keep_for` the compacted file is all that is left of the older panes: it is never gone."""
    sink = folder.sink(keep_for="1 ms")
    sink.claim(folder.output, SHAPE, 0)
    writer = sink.open(folder.output, SHAPE)
    for number in range(3):
        writer.deliver(batch([pane(f"w{number}", 0, slot=number, total=1, n=1)]), delivery(folder.output, number))
        time.sleep(0.01)
    hadoop.dies_after = moves
    with pytest.raises(KeyboardInterrupt):
        writer.deliver(batch([pane("w3", 0, slot=3, total=1, n=1)]), delivery(folder.output, 3))
    hadoop.dies_after = None
    writer = sink.open(folder.output, SHAPE)
    assert {"w0", "w1", "w2"} <= set(seen(folder.rows(SHAPE)))
    writer.deliver(batch([pane("w3", 0, slot=3, total=1, n=1)]), delivery(folder.output, 3))
    writer.close()
    assert set(seen(folder.rows(SHAPE))) == {"w0", "w1", "w2", "w3"}
    assert sink.held(folder.output, SHAPE).generation == 0


def test_a_run_that_dies_between_the_two_files_of_what_stands_is_made_up_for_by_the_next(
    folder: Parquet, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = folder.sink().open(folder.output, SHAPE)
    writer.deliver(batch([pane("a", 0, total=1, n=1)]), delivery(folder.output, 0))
    whole, written = Folder.write, []

    def dying(self: Folder, name: str, table: pa.Table) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(name)
        whole(self, name, table)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            writer.deliver(batch([pane("b", 0, slot=1, total=2, n=1)]), delivery(folder.output, 1))
    folder.sink().open(folder.output, SHAPE)
    assert set(seen(folder.rows(SHAPE))) == {"a", "b"}


def test_what_a_killed_run_left_in_the_log_is_shown_when_the_next_one_opens(folder: Parquet) -> None:
    writer = folder.sink(compact_every=100).open(folder.output, SHAPE)
    writer.deliver(batch([pane("a", 0, total=1, n=1)]), delivery(folder.output, 0))
    folder.sink(compact_every=100).open(folder.output, SHAPE)
    assert set(seen(folder.rows(SHAPE))) == {"a"}


def test_a_log_is_kept_as_long_as_asked_and_what_stands_stays(folder: Parquet) -> None:
    log = [p for number in range(8) for p in random_log(number)]
    writer = folder.sink(keep_for="1 ms").open(folder.output, SHAPE)
    for number in range(8):
        writer.deliver(batch(random_log(number)), delivery(folder.output, number))
        time.sleep(0.01)
    writer.close()
    panes = folder.world.path / "out" / folder.output / "panes"
    assert len(list(panes.glob("*.parquet"))) <= 1
    writer = folder.sink(keep_for="1 ms").open(folder.output, SHAPE)
    writer.deliver(batch(log), delivery(folder.output, 0))
    writer.close()
    assert seen(folder.rows(SHAPE)) == expected(log)


def test_readers_wait_a_minute_at_most(folder: Parquet, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many windows what stands is not written again for each delivery; a delivery without panes brings it up to date."""
    writer = folder.sink().open(folder.output, SHAPE)
    writer.deliver(batch([pane(f"w{i}", 0, slot=i, total=1, n=1) for i in range(100)]), delivery(folder.output, 0))
    writer.deliver(batch([pane("late", 0, total=1, n=1)]), delivery(folder.output, 1))
    current = folder.world.path / "out" / folder.output / "current.parquet"
    assert pq.read_metadata(current).num_rows == 100
    assert len(folder.sink().read(folder.output, SHAPE)) == 101
    monkeypatch.setattr(sys.modules[Folder.__module__], "LONGEST_WAIT", 0.0)
    writer.deliver([], delivery(folder.output, 2))
    assert pq.read_metadata(current).num_rows == 101


# A store that is away.


def away(kind: str, tmp_path: Path, retry: Retry) -> Any:
    store = {"AWS_ENDPOINT_URL": NOWHERE, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "hush"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "s3://lake/i", "s3.endpoint": NOWHERE}
    keys = {"s3.access-key-id": "k", "s3.secret-access-key": "hush", "s3.region": "us-east-1"}
    return {
        "delta": lambda: sinks.delta("s3://lake/d", storage_options={**store, "AWS_REGION": "us-east-1"}, retry=retry),
        "iceberg": lambda: sinks.iceberg({**catalog, **keys}, "sales.totals", retry=retry),
        "iceberg by rest": lambda: sinks.iceberg({"type": "rest", "uri": NOWHERE}, "sales.totals", retry=retry),
        "parquet": lambda: sinks.parquet(
            "s3://k:hush@lake/p?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1", retry=retry
        ),
    }[kind]()


@pytest.mark.parametrize("kind", ["delta", "iceberg", "iceberg by rest", "parquet"])
def test_a_store_that_is_away_is_tried_again_and_named(kind: str, tmp_path: Path) -> None:
    clock = [0.0]
    pauses: list[float] = []

    def slept(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += 10

    retry = Retry(give_up_after=15, first=0.01, clock=lambda: clock[0], sleep=slept)
    with pytest.raises(SinkUnavailable, match="gave up after") as caught:
        away(kind, tmp_path, retry).open("o", SHAPE)
    assert len(pauses) == 2
    assert "hush" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("When reading information for key 'x': AWS Error ACCESS_DENIED during HeadObject operation"), SinkRefused),
        (OSError("Generic S3 error: Error performing PUT: 403 Forbidden: InvalidAccessKeyId"), SinkRefused),
        (OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation"), SinkRefused),
        (PermissionError(13, "Permission denied"), SinkRefused),
        (OSError(30, "Read-only file system"), SinkRefused),
        (ValueError("a column that does not fit"), SinkRefused),
        (pa.ArrowInvalid("not a Parquet file"), SinkRefused),
        (OSError("AWS Error SLOW_DOWN during PutObject operation: 503"), SinkUnavailable),
        (OSError("Generic S3 error: error sending request: connection closed before message completed"), SinkUnavailable),
        (OSError(28, "No space left on device"), SinkUnavailable),
        (FileNotFoundError(2, "gone while it was read: another writer expired it"), SinkUnavailable),
        (TimeoutError("timed out"), SinkUnavailable),
    ],
    ids=str,
)
def test_what_passes_is_told_from_what_does_not(error: Exception, kind: type[SinkError]) -> None:
    assert type(file_error("here", error)) is kind
