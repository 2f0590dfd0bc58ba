"""The journal's small files: the same on a local disk and through Spark's own checkpoint files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventide.engine.journal import Journal, LocalFiles
from eventide.engine.ledger import Ledger
from eventide.engine.records import HadoopFiles, record_files


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
    assert journal.begin(0, {"clock": 5}) == {"clock": 5}
    assert journal.begin(0, {"clock": 9}) == {"clock": 5}, "a batch run again takes the clock of its first try"
    journal.commit(Ledger(batch=0), {"clock": 5})
    last = journal.last()
    assert last is not None and last["clock"] == 5 and Ledger.from_json(last["ledger"]).batch == 0


def test_a_local_directory_needs_no_session(tmp_path: Path) -> None:
    assert isinstance(record_files(str(tmp_path)), LocalFiles)
