"""The journal's small files: the same on a local disk and through Spark's own checkpoint files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventide.state.journal import Journal, LocalFiles, RecordTaken
from eventide.state.ledger import Ledger
from eventide.state.records import HadoopFiles, record_files


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "local":
        return LocalFiles(str(tmp_path))
    return HadoopFiles(f"file://{tmp_path}", request.getfixturevalue("spark"))


def test_a_record_is_read_as_it_was_written_last(files: Any) -> None:
    assert files.read("a/b.json") is None
    files.write("a/b.json", b"one")
    files.write("a/b.json", b"\x00two")
    assert files.read("a/b.json") == b"\x00two"
    assert files.names("a") == ["b.json"]
    files.delete("a/b.json")
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
        journal.define(facts)
    assert journal.definition() == {"n": 2}
    assert files.names("journal") == ["definition-000001.json", "definition-000002.json"]


def test_a_local_directory_needs_no_session(tmp_path: Path) -> None:
    assert isinstance(record_files(str(tmp_path)), LocalFiles)
