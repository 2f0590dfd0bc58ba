"""What a look at a landing directory says, whatever was done to its files since they were read, or while the batch was dead."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crash_driver import Here, Listed, note
from feeding import SECOND, Feeding
from pyarrow.fs import LocalFileSystem
from test_second_try import Killed, Ledgered, dying

import eventide as ev
from eventide.engine.batch.beginning import FileChanged
from eventide.engine.feeds import file_formats
from eventide.engine.feeds.file_faults import BadFile
from eventide.engine.feeds.files import FileFeed
from eventide.engine.feeds.landed import LandedFile, list_files
from eventide.engine.spark_notes import Noted, SparkNotes
from eventide.errors import LossWarning, SourceRefused, SourceUnavailable
from eventide.kernel.scan import LaneCarry
from eventide.model.event import end_of
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.state.journal import JournalError
from eventide.state.ledger import Ledger


def swept(feeding: Feeding) -> bool:
    return feeding.run.ledger.swept == end_of(feeding.run.last_clock)


def noted(feeding: Feeding, *files: Path, there: bool = True) -> Any:
    """A batch of these files, as Spark notes and finds it."""
    number = feeding.run.ledger.batch + 1
    feeding.now += SECOND
    found = [(str(p), p.stat().st_mtime_ns // 1000) for p in files if p.exists()]
    note(feeding.root / "state", number, [(str(p), 1_700_000_000 * SECOND) for p in files])
    return feeding.run.batch(Listed(found), number)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("what", ["touched", "tmp", "hidden", "gone", "spared"])
def test_what_happens_to_files_that_were_read_holds_nothing(tmp_path: Path, what: str, restarted: bool) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    first = max((tmp_path / "in/a").iterdir())
    feeding.open()
    noted(feeding, first)
    if what == "touched":
        os.utime(first, (1_800_000_000,) * 2)
    elif what == "gone":
        first.unlink()
    elif what != "spared":
        name = {"tmp": "2.parquet.tmp", "hidden": "_2.parquet"}[what]
        (tmp_path / "in/a" / name).write_bytes(b"PAR1")
    if restarted:
        feeding.land("a", (2, 2, "x", 2))  # of Parquet, the oldest file says the columns
        feeding.run.close()
        feeding.open()
        noted(feeding, max((tmp_path / "in/a").glob("0*.parquet")))
    else:
        noted(feeding)
    assert swept(feeding)


def test_a_file_older_than_the_last_one_is_not_taken_for_read(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.land("a", (2, 2, "x", 2))
    old, new = sorted((tmp_path / "in/a").iterdir())
    feeding.open()
    noted(feeding, new)
    assert not swept(feeding), "the older one is still to come"
    noted(feeding, old)
    assert swept(feeding) and feeding.rows()["in"] == 2 and feeding.rows().get("raised", 0) == 0


def test_spark_s_log_is_read_whole_after_it_was_compacted(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint/sources/0"
    place.mkdir(parents=True)

    def lines(*entries: int) -> str:
        return "\n".join(["v1", *(json.dumps({"path": f"file:///in/{n}%20a", "timestamp": n, "batchId": n}) for n in entries)])

    (place / "9.compact").write_text(lines(*range(10)))
    (place / "10").write_text(lines(10))
    from eventide.state.journal import LocalFiles

    log = SparkNotes(LocalFiles(str(tmp_path))).of(0, 5).log
    assert log is not None
    assert [f.path for f in log.between(-1, 10)] == [f"file:///in/{n} a" for n in range(11)]
    assert [f.modified for f in log.between(8, 10)] == [9_000, 10_000]
    with pytest.raises(JournalError, match=r"sources/0/11, is missing.*nobody can tell which files are new"):
        log.between(10, 11)


@pytest.mark.parametrize("milliseconds", [10**16, -(10**16)])
def test_a_file_of_a_time_that_int64_cannot_hold_is_read_as_of_the_last_one_that_it_can(
    tmp_path: Path, milliseconds: int
) -> None:
    """Some file systems keep 64 bits of seconds, and whoever sets them may be wrong by a unit."""
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    (file,) = (tmp_path / "in/a").iterdir()
    feeding.open()
    note(tmp_path / "state", 0, [(str(file), milliseconds * 1000)])
    (taken,) = SparkNotes(feeding.run.journal.files).of(0, 0).taken
    assert taken.modified == (MAX_TIME if milliseconds > 0 else MIN_TIME)
    feeding.now += SECOND
    feeding.run.batch(Listed([]), 0)
    assert feeding.rows()["in"] == 1


@pytest.mark.parametrize("to", ["in", "in/a"])
def test_what_a_link_back_that_came_during_the_run_shows_is_read_once(tmp_path: Path, to: str) -> None:
    """Spark's listing follows it some forty times, and so would ours."""
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    (feed,) = feeding.run.feeds
    (tmp_path / "in/a/back").symlink_to(tmp_path / to)
    feeding.land("a", (2, 2, "x", 2), (30, 30, "x", 3))
    seen = [Path(at) / name for at, _, names in os.walk(tmp_path / "in", followlinks=True) for name in names]
    found = [path for path in seen if os.path.exists(path)]  # the last of them no longer
    assert len(found) > 20
    facts = [(f"file:{path}", path.stat().st_mtime_ns // 1000, path.stat().st_size) for path in found]
    with pytest.warns(LossWarning, match=r"back has come, a link to .*, in which it lies itself") as told:
        own = feed.landed(facts, Noted({}, {}))
    assert [Path(file.path).name for file in own] == ["000.parquet", "001.parquet"] and len(told) == 1
    assert {Path(file.path) for file in feed.listed()} == {tmp_path / "in/a/000.parquet", tmp_path / "in/a/001.parquet"}
    noted(feeding, *found)
    assert swept(feeding) and feeding.rows()["in"] == 3
    (tmp_path / "in/a/back").unlink()
    (tmp_path / "in/b").symlink_to(tmp_path / "in/a")
    assert len(feed.listed()) == 4, "a link that does not lead back shows files under another name, as ever"


@pytest.mark.parametrize("arrival", [None, "at"])
def test_on_a_busy_directory_lanes_are_read_up_to_the_last_look(tmp_path: Path, arrival: str | None) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    source = ev.files("p", str(tmp_path / "in"), event_time="ts", arrival=arrival, watermark=ev.ascending(), lane="column:bank")
    feed = FileFeed.open(Here(), 0, source)
    ledger = Ledger(carries={(0, "x"): LaneCarry(), (0, "silent"): LaneCarry()})
    late = 1_800_000_000
    read: list[LandedFile] = []
    for look in range(1, 5):
        read, unread = list_files(source.path, "parquet", source.lane), tmp_path / f"in/a/later{look}.parquet"
        (tmp_path / "in/a/000.parquet").rename(unread) if look == 1 else unread.write_bytes(b"PAR1")
        os.utime(unread, (late + look,) * 2)
        reach = feed.reach(ledger, Noted({}, {}), read, (late + look) * SECOND + 7)
        if look == 1:
            assert reach.at_end == frozenset() and reach.read_to == {}, "nobody has looked before"
        else:
            assert set(reach.read_to) == {(0, "x"), (0, "silent")} and reach.at_end == frozenset()
            assert reach.read_to[0, "x"] == (late + look - 1) * SECOND + 7
    again = feed.reach(ledger, Noted({}, {}), read, (late + 9) * SECOND)
    assert again.read_to == {}, "a file that the last look saw is still unread"


def begun_with_a_bad_file(feeding: Ledgered, point: str) -> Path:
    """A batch of one whole file and a truncated one, which dies."""
    feeding.land("a", (1, 1, "x", 1), (15, 16, "x", 2))
    feeding.land("a", (3, 3, "x", 4))
    good, bad = sorted((feeding.root / "in/a").iterdir())
    bad.write_bytes(bad.read_bytes()[:-9])
    feeding.open(hook=dying(point))
    with pytest.raises(Killed):
        noted(feeding, good, bad)
    feeding.run.close()
    return bad


@pytest.mark.parametrize("change", ["mended", "gone", "spared"])
@pytest.mark.parametrize("point", ["begun", "deliver"])
def test_a_file_that_is_a_dead_letter_stays_one_when_the_batch_is_run_again(tmp_path: Path, point: str, change: str) -> None:
    feeding = Ledgered(tmp_path)
    bad = begun_with_a_bad_file(feeding, point)
    size = bad.stat().st_size
    if change == "mended":
        feeding.land("b", (3, 3, "x", 4))
        max((tmp_path / "in/b").iterdir()).rename(bad)
    elif change == "gone":
        bad.unlink()
    feeding.open()
    noted(feeding, tmp_path / "in/a/000.parquet", bad)
    assert (feeding.rows()["in"], feeding.rows()["dead"]) == (3, 1)
    letters = [row for row in feeding.said("dead") if row["reason"].startswith("the file")]
    letter = letters[-1]
    assert json.loads(letter["raw"]) == {"path": str(bad), "size": size}
    assert f"({size:,} bytes) cannot be read: Parquet magic bytes not found" in letter["reason"]
    assert swept(feeding)


def test_a_whole_file_that_cannot_be_read_on_the_second_try_stops_the_run_in_words(tmp_path: Path) -> None:
    feeding = Ledgered(tmp_path)
    begun_with_a_bad_file(feeding, "deliver")
    good = tmp_path / "in/a/000.parquet"
    good.write_bytes(b"\0" * good.stat().st_size)
    feeding.land("a", (20, 20, "x", 2))
    feeding.open()
    with pytest.raises(FileChanged, match=r"000.parquet, one of its files, could be read then; now .*Put the file back"):
        noted(feeding, good, tmp_path / "in/a/001.parquet")


def test_the_rows_of_a_bad_file_are_nowhere_not_even_in_the_archive(tmp_path: Path) -> None:
    """The fault lies in the last of three row groups: by then the first are read, judged and archived."""
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    path = tmp_path / "in/a/000.parquet"
    rows = pl.concat([pl.read_parquet(path)] * 3)
    rows.write_parquet(path, row_group_size=1, compression="zstd")
    body = bytearray(path.read_bytes())
    import pyarrow.parquet as pq

    column = pq.ParquetFile(path).metadata.row_group(2).column(3)
    start = column.dictionary_page_offset or column.data_page_offset
    body[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(body))
    feeding.land("a", (2, 2, "x", 2))
    pipe = feeding.pipeline()
    kept = ev.Pipeline("bad", *pipe.outputs, state=str(tmp_path / "state"), buckets=1, archive=str(tmp_path / "archive"))
    feeding.open(kept)
    noted(feeding, *sorted((tmp_path / "in/a").iterdir()))
    assert (feeding.rows()["in"], feeding.rows()["dead"]) == (2, 1)
    archived = pl.concat([pl.read_parquet(f) for f in (tmp_path / "archive").rglob("*.parquet")], how="diagonal")
    assert sorted(archived["paise"].to_list(), key=str) == [2, None]


def test_a_file_that_spark_took_and_that_is_gone_is_a_dead_letter(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    noted(feeding, tmp_path / "in/a/000.parquet", tmp_path / "in/a/was here.parquet")
    (letter,) = feeding.said("dead")
    assert json.loads(letter["raw"]) == {"path": str(tmp_path / "in/a/was here.parquet"), "size": None}
    assert "cannot be read: it is gone" in letter["reason"] and swept(feeding)


def test_a_bad_file_stops_the_run_where_the_source_says_so_and_mended_it_goes_on(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, on_bad_file="stop")
    feeding.land("a", (1, 1, "x", 1))
    feeding.land("a", (2, 2, "x", 2))
    good, bad = sorted((tmp_path / "in/a").iterdir())
    whole = bad.read_bytes()
    bad.write_bytes(b"")
    feeding.open()
    with pytest.raises(
        BadFile, match=r"001.parquet \(0 bytes\) cannot be read: it is empty. Nothing of this batch was delivered"
    ):
        noted(feeding, good, bad)
    feeding.run.close()
    bad.write_bytes(whole)
    feeding.open()
    noted(feeding, good, bad)
    assert feeding.rows()["in"] == 2 and feeding.rows().get("dead", 0) == 0


def test_storage_that_does_not_answer_is_no_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()

    def down(*_: object, **__: object) -> Any:
        raise OSError("the disk is on fire")

    monkeypatch.setattr("eventide.engine.feeds.file_formats.parquet", down)
    monkeypatch.setattr("eventide.engine.feeds.file_faults._opened", down)
    with pytest.raises(SourceUnavailable, match="cannot be read now, so that nobody knows what is in it: the disk is on fire"):
        noted(feeding, tmp_path / "in/a/000.parquet")


@pytest.mark.parametrize("when", ["before a batch of a file", "before an empty batch", "while it is read"])
def test_a_directory_that_is_gone_for_a_while_loses_no_file_and_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A network mount that went away, say: its files are not dead letters, and its lanes have not fallen silent."""
    feeding = Feeding(tmp_path, idle_after="1 second")
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    landing, file = tmp_path / "in", tmp_path / "in/a/000.parquet"
    if when == "while it is read":
        read = file_formats.parquet

        def unmounted(*arguments: Any) -> Any:
            landing.rename(tmp_path / "away")
            return read(*arguments)

        monkeypatch.setattr(file_formats, "parquet", unmounted)
    else:
        landing.rename(tmp_path / "away")
    with pytest.raises(SourceUnavailable, match=r"is not there any more \(unmounted, or renamed\)"):
        noted(feeding, *[] if when == "before an empty batch" else [file])
    (tmp_path / "away").rename(landing)
    monkeypatch.undo()
    feeding.run.close()
    feeding.open()
    noted(feeding, file)
    assert feeding.rows()["in"] == 1 and feeding.rows().get("dead", 0) == 0


@pytest.mark.parametrize("module", ["landed", "files", "file_faults"])
def test_a_right_that_was_taken_away_between_listing_and_reading_stops_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()

    class Denied:
        def get_file_info(self, _: object) -> Any:
            raise PermissionError("[Errno 13] Permission denied")

        def __getattr__(self, name: str) -> Any:
            return getattr(LocalFileSystem(), name)

    monkeypatch.setattr(f"eventide.engine.feeds.{module}.file_system", lambda path: (Denied(), str(path)))
    with pytest.raises(
        SourceUnavailable, match=r"cannot be looked at now, so that nobody knows which files are there: .*denied"
    ):
        noted(feeding, tmp_path / "in/a/000.parquet")


def test_a_bad_file_does_not_move_the_arrivals_of_those_after_it(tmp_path: Path) -> None:
    """Where a column says when rows arrived, a bad file says nothing: its own time would raise all that follow it."""
    feeding = Feeding(tmp_path)
    for second in (1, 2, 3):
        feeding.land("a", (second, second, "x", second))
    files = sorted((tmp_path / "in/a").iterdir())
    files[1].write_bytes(b"nothing")
    os.utime(files[1], (1_700_000_001,) * 2)
    feeding.open()
    noted(feeding, *files)
    carry = feeding.run.ledger.carries[0, "a"]
    assert carry.last_arrival == 1_700_000_003 * SECOND and feeding.rows()["dead"] == 1


def test_a_file_that_grows_after_it_was_read_is_told(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    first = tmp_path / "in/a/000.parquet"
    feeding.open()
    noted(feeding, first)
    first.write_bytes(first.read_bytes() + b"more")
    with pytest.warns(ev.LossWarning, match=r"000.parquet was read when it had .* what came since is not read.*rename them"):
        noted(feeding)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noted(feeding)
    assert swept(feeding)


def test_a_checkpoint_with_a_hole_is_refused_before_files_are_read_twice(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    for second in (1, 2, 3):
        feeding.land("a", (second, second, "x", second))
        if second == 1:
            feeding.open()
        if second < 3:
            feeding.batch("a")
    (tmp_path / "state/checkpoint/offsets/1").unlink()
    with pytest.raises(JournalError, match=r"checkpoint/offsets/1 is missing, and every file before it would be read again"):
        feeding.batch("a")


def unnamed(directory: Path, name: bytes, body: bytes = b"PAR1") -> None:
    """A file whose name is no text, as another system's archive leaves it."""
    place = os.fsencode(directory) + b"/" + name
    os.makedirs(os.path.dirname(place), exist_ok=True)
    Path(os.fsdecode(place)).write_bytes(body)


def letters_of(feeding: Feeding) -> list[tuple[str, str, int]]:
    said = [(json.loads(row["raw"]), row["lane"], row["reason"]) for row in feeding.said("dead")]
    assert all("cannot be read: its name is not UTF-8" in reason and "rename it" in reason for _, _, reason in said)
    return sorted((facts["path"], lane, facts["size"]) for facts, lane, _ in said)


def test_a_file_whose_name_is_no_text_is_a_dead_letter_once_and_holds_nothing(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    unnamed(tmp_path / "in/a", b"caf\xe9.parquet")
    unnamed(tmp_path / "in/a", b"\xff.parquet.tmp")
    feeding.open()
    noted(feeding, tmp_path / "in/a/000.parquet")
    here = f"file://{tmp_path}/in"
    assert letters_of(feeding) == [(f"{here}/a/caf%E9.parquet", "a", 4)]
    assert (feeding.rows()["in"], feeding.rows()["dead"]) == (2, 1) and swept(feeding)
    unnamed(tmp_path / "in", b"d\xe9/1.parquet", b"PAR1PAR1")
    noted(feeding)
    feeding.run.close()
    feeding.open()
    noted(feeding)
    assert letters_of(feeding) == [(f"{here}/a/caf%E9.parquet", "a", 4), (f"{here}/d%E9/1.parquet", "a", 8)]
    assert swept(feeding) and feeding.run.in_sight() == {0: {"a/000.parquet"}}
    assert {lane for _, lane in feeding.run.ledger.carries} == {"a"}, "no lane is made of a dead letter"


@pytest.mark.parametrize("point", ["begun", "deliver"])
def test_a_name_that_is_no_text_is_told_once_by_a_batch_that_died(tmp_path: Path, point: str) -> None:
    feeding = Ledgered(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    unnamed(tmp_path / "in/a", b"\xff.parquet")
    feeding.open(hook=dying(point))
    with pytest.raises(Killed):
        noted(feeding, tmp_path / "in/a/000.parquet")
    feeding.run.close()
    os.unlink(os.fsencode(tmp_path / "in/a") + b"/\xff.parquet")
    feeding.open()
    noted(feeding, tmp_path / "in/a/000.parquet")
    noted(feeding)
    assert [path for path, _, _ in letters_of(feeding)] == [f"file://{tmp_path}/in/a/%FF.parquet"]
    assert (feeding.rows()["in"], feeding.rows()["dead"]) == (2, 1) and swept(feeding)


def test_a_name_that_is_no_text_stops_the_run_where_the_source_says_so(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, on_bad_file="stop")
    unnamed(tmp_path / "in/a", b"\xff.parquet")
    with pytest.raises(ev.DefinitionError, match=r"holds 1 Parquet files, of which none can be read .*%FF.parquet"):
        feeding.open()
    feeding.land("a", (1, 1, "x", 1))
    feeding.open()
    with pytest.raises(BadFile, match=r"%FF.parquet \(4 bytes\) cannot be read: its name is not UTF-8"):
        noted(feeding, tmp_path / "in/a/000.parquet")


def test_a_pipe_is_a_dead_letter_and_not_waited_for(tmp_path: Path) -> None:
    """Spark takes it for an empty file."""
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    os.mkfifo(tmp_path / "in/a/pipe.parquet")
    feeding.open()
    number = feeding.run.ledger.batch + 1
    taken = [(str(tmp_path / "in/a" / name), 1_700_000_000 * SECOND) for name in ("000.parquet", "pipe.parquet")]
    note(tmp_path / "state", number, taken)
    feeding.run.batch(Listed(taken[:1]), number)
    (letter,) = feeding.said("dead")
    assert "pipe.parquet (size unknown) cannot be read: it is no file, but a pipe" in letter["reason"] and swept(feeding)


def test_names_that_java_s_locale_has_no_letters_for_are_dead_letters_until_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under LC_ALL=C a user's own session does not see them: W must not wait for them, and they must not be lost."""
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    feeding.land("a", (2, 2, "x", 1))
    one, other = sorted((tmp_path / "in/a").iterdir())
    other.rename(tmp_path / "in/a/é.parquet")
    monkeypatch.setattr(Here, "file_names", "ANSI_X3.4-1968")
    feeding.open()
    noted(feeding, one)
    (letter,) = feeding.said("dead")
    assert "a/%C3%A9.parquet" in letter["reason"] and "start Spark with LC_ALL=C.UTF-8" in letter["reason"] and swept(feeding)
    feeding.run.close()
    monkeypatch.setattr(Here, "file_names", "UTF-8")
    feeding.open()
    assert feeding.run.in_sight() == {0: {"a/000.parquet", "a/é.parquet"}}
    noted(feeding, tmp_path / "in/a/é.parquet")
    assert (feeding.rows()["in"], feeding.rows()["dead"]) == (3, 1) and swept(feeding)


@pytest.mark.parametrize("to", [".", "..", "../../in"])
def test_a_link_that_leads_back_is_refused_by_name(tmp_path: Path, to: str) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    (tmp_path / "in/a/loop").symlink_to(to)
    with pytest.raises(SourceRefused, match=r"a/loop is a link to .*, in which it lies itself: .*Remove the link"):
        feeding.open()


def test_links_to_other_places_are_followed_and_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    feeding.land("a", (1, 1, "x", 1))
    (tmp_path / "in/a").rename(tmp_path / "elsewhere")
    (tmp_path / "in/b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in/gone.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "in/c.parquet").mkdir()
    feeding.open()
    assert feeding.run.in_sight() == {0: {"b/000.parquet"}}
    one = Feeding(tmp_path / "more")
    (tmp_path / "more/in").rmdir()
    (tmp_path / "more/in").write_text("x")
    with pytest.raises(SourceRefused, match=r"which is no directory\. Name the directory that the files land in"):
        one.open()
