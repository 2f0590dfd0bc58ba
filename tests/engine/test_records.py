"""The journal's small files: the same on a local disk, in an object store, and through Spark's own checkpoint files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.object_store import ObjectStore, environment_at

from eventide.engine.hadoop_files import HadoopFiles, through_spark
from eventide.errors import StoreError
from eventide.state.journal import Journal, LocalFiles, RecordTaken
from eventide.state.ledger import Ledger
from eventide.state.records import proven_files, record_files
from eventide.storage import files as storage
from eventide.storage.files import prove, reach_hadoop
from eventide.storage.objects import ObjectFiles


@pytest.fixture(params=["local", "objects", "hadoop"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "local":
        return LocalFiles(str(tmp_path))
    if request.param == "objects":
        return ObjectFiles(request.getfixturevalue("lake"))
    return HadoopFiles(f"file://{tmp_path}", request.getfixturevalue("spark"))


def test_a_record_is_read_as_it_was_written_last(files: Any) -> None:
    assert files.read("a/b.json") is None
    files.write("a/b.json", b"one")
    files.write("a/b.json", b"\x00two")
    assert files.read("a/b.json") == b"\x00two"
    assert files.names("a") == ["b.json"]
    files.write("a/c.json", b"three")
    files.delete("a/b.json", "a/c.json")
    files.delete("a/b.json")
    assert files.names("a") == [] and files.names("nowhere") == []


def test_a_journal_goes_on_where_it_was_left(files: Any) -> None:
    journal = Journal(files)
    assert journal.last() is None
    assert journal.begun(0) is None
    journal.begin(0, {"clock": 5})
    assert journal.begun(0) == {"clock": 5}, "a batch run again takes the clock of its first try"
    journal.commit(Ledger(batch=0), {"clock": 5})
    last = journal.last()
    assert last is not None and last["clock"] == 5 and Ledger.from_json(last["ledger"]).batch == 0


def test_a_record_is_created_once_and_never_written_over(files: Any) -> None:
    assert files.create("a/b.json", b"one") and not files.create("a/b.json", b"two")
    assert files.read("a/b.json") == b"one" and files.names("a") == ["b.json"]


def test_of_two_runs_that_commit_a_batch_one_fails(files: Any) -> None:
    Journal(files).commit(Ledger(batch=0), {"clock": 5})
    with pytest.raises(RecordTaken, match="another run has written journal/commit-000000000000"):
        Journal(files).commit(Ledger(batch=0), {"clock": 6})
    last = Journal(files).last()
    assert last is not None and last["clock"] == 5


def test_the_newest_definition_counts_and_an_equal_one_is_not_written_again(files: Any) -> None:
    journal = Journal(files)
    assert journal.definition() is None
    for facts in ({"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}):
        journal.define(facts, journal.definitions)
    assert journal.definition() == {"n": 2}
    assert files.names("journal") == ["definition-000001.json", "definition-000002.json"]


def test_of_two_runs_that_change_a_definition_the_one_that_did_not_see_the_others_fails(files: Any) -> None:
    journal = Journal(files)
    journal.define({"n": 1}, 0)
    journal.define({"n": 2}, 1)
    for facts in ({"n": 1}, {"n": 2}, {"n": 3}):
        with pytest.raises(RecordTaken, match="definition-000002"):
            journal.define(facts, 1)
    assert journal.definition() == {"n": 2}


def test_a_local_directory_needs_no_session(tmp_path: Path) -> None:
    assert isinstance(record_files(str(tmp_path)), LocalFiles)


def test_s3_and_s3a_lead_to_the_same_place_and_need_no_session(lake: str) -> None:
    assert record_files(lake).create("a", b"one")
    assert record_files(lake.replace("s3a://", "s3://")).read("a") == b"one"


def test_every_kind_of_file_is_proven_before_a_run_writes_it(files: Any) -> None:
    prove(files, "here")
    assert files.names("probe") == []


def test_a_place_that_creates_a_file_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(tmp_path, careless=True)
    try:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreError, match=r"created a second time.*If-None-Match"):
            proven_files("s3://lake/careless")
    finally:
        store.close()


def test_a_file_manager_that_loses_what_is_replaced_is_refused_with_the_setting(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HadoopFiles(f"file://{tmp_path}", spark)
    monkeypatch.setattr(files, "write", lambda path, body: None)  # as a rename onto a file that is there does on s3a
    with pytest.raises(StoreError, match=r"still reads b'first'.*spark.sql.streaming.checkpointFileManagerClass"):
        prove(files, "s3a://bucket/state")


def test_a_hadoop_file_system_is_reached_by_who_has_spark(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_hadoop", [])
    with pytest.raises(StoreError, match="hdfs://cluster/state can be read through Spark only"):
        record_files("hdfs://cluster/state")
    reach_hadoop(lambda root: through_spark(root.replace("hdfs://cluster", f"file://{tmp_path}")))
    assert proven_files("hdfs://cluster/state").create("a/b.json", b"one")
    assert (tmp_path / "state/a/b.json").read_bytes() == b"one"


def test_a_scheme_on_which_two_could_win_is_refused() -> None:
    with pytest.raises(StoreError, match=r"oss two runs could both create.*s3, s3a, gs, abfs, abfss, hdfs"):
        record_files("oss://bucket/state")


def test_an_address_holds_no_keys() -> None:
    with pytest.raises(StoreError, match=r"s3://key:\*\*\*@bucket/state holds keys or options.*AWS_ACCESS_KEY_ID"):
        record_files("s3://key:secret@bucket/state")


def test_a_store_that_does_not_answer_is_said_with_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_at(1).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=r"did not do what was asked.*AWS_ENDPOINT_URL"):
        record_files("s3://lake/nowhere").read("a")
