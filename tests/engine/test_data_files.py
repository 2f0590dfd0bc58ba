"""A data file is there as a whole or not at all, on a disk as on HDFS, whoever writes it a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from eventide.storage.arrow import ArrowFiles

HALF, WHOLE = memoryview(b"ha"), memoryview(b"half")


class Hadoop:
    """As HDFS: what is being written can be seen, and a name that is taken is given to nobody else."""

    def __init__(self, moves: bool = True) -> None:
        self.disk, self.moves = pafs.LocalFileSystem(), moves

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def move(self, trial: str, path: str) -> None:
        if not self.moves or Path(path).exists():
            raise OSError(f"HDFS Rename failed, from {trial!r} to {path!r}")
        self.disk.move(trial, path)


@pytest.fixture(params=["disk", "hadoop"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> ArrowFiles:
    made = ArrowFiles(str(tmp_path))
    made._files = made._files if request.param == "disk" else Hadoop()
    return made


def there(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class TornStream:
    """A writer that dies in the middle of a file."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, body: memoryview) -> None:
        self.stream.write(HALF)
        raise OSError("no room left")


class Torn:
    def __init__(self, files: Any) -> None:
        self.files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    @contextmanager
    def open_output_stream(self, path: str) -> Iterator[TornStream]:
        with self.files.open_output_stream(path) as stream:
            yield TornStream(stream)


def test_a_file_that_was_written_has_its_name_and_nothing_is_beside_it(files: ArrowFiles, tmp_path: Path) -> None:
    files.put("data/7/part.parquet", WHOLE)
    assert there(tmp_path) == {"data/7/part.parquet": b"half"} and files.sizes("data") == {"data/7/part.parquet": 4}


def test_a_file_that_could_not_be_written_is_not_there(files: ArrowFiles, tmp_path: Path) -> None:
    files._files = Torn(files._files)
    with pytest.raises(OSError, match="no room left"):
        files.put("data/7/part.parquet", WHOLE)
    assert there(tmp_path) == {}


def test_a_file_that_cannot_get_its_name_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    files = ArrowFiles(str(tmp_path))
    files._files = Hadoop(moves=False)
    with pytest.raises(OSError, match="Rename failed"):
        files.put("data/7/part.parquet", WHOLE)
    assert there(tmp_path) == {}


def test_a_task_that_runs_again_where_names_are_given_once_leaves_the_file_of_its_first_try(tmp_path: Path) -> None:
    """Both hold the same; to remove the first one before the second has the name could lose it."""
    files = ArrowFiles(str(tmp_path))
    files._files = Hadoop()
    files.put("panes/bucket-00001@6a1f03bb.parquet", WHOLE)
    files.put("panes/bucket-00001@6a1f03bb.parquet", memoryview(b"once more"))
    assert there(tmp_path) == {"panes/bucket-00001@6a1f03bb.parquet": b"half"}
