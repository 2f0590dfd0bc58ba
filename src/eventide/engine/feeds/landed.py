"""Files that have landed below a directory, as a listing shows them."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow.fs as pafs

from eventide.errors import StoreError
from eventide.model.event import LaneId
from eventide.sources.filenames import is_read
from eventide.storage.address import is_local, scheme_of
from eventide.storage.arrow import file_system


@dataclass(frozen=True)
class LandedFile:
    """A file as the listing shows it."""

    path: str
    modified: int
    """Microseconds since 1970."""
    lane: str
    size: int = -1
    """In bytes."""
    fault: str | None = None
    """Why the file is a dead letter as a whole."""


def list_files(root: str, form: str, lane: str) -> list[LandedFile]:
    """The files of a format below a directory, oldest first."""
    files, base = file_system(root)
    scheme = "" if is_local(root) else f"{scheme_of(root)}://"
    found = []
    for info in files.get_file_info(pafs.FileSelector(base, recursive=True, allow_not_found=True)):
        if info.type == pafs.FileType.File and is_read(info.path[len(base) :].lstrip("/"), form):
            milliseconds = (info.mtime_ns or 0) // 1_000_000  # as Spark's file source has it: it tells no finer times apart
            found.append(LandedFile(f"{scheme}{info.path}", milliseconds * 1_000, lane_of(info.path, base, lane), info.size))
    return sorted(found, key=lambda f: (f.modified, f.path))


def by_lane(source: int, files: list[LandedFile]) -> dict[LaneId, list[LandedFile]]:
    """Files of one source, each lane's in the order in which they were given."""
    lanes: dict[LaneId, list[LandedFile]] = {}
    for file in files:
        lanes.setdefault((source, file.lane), []).append(file)
    return dict(sorted(lanes.items()))


def lane_of(path: str, base: str, lane: str) -> str:
    """The lane of a file: its directory below the source's path, or the whole source.

    >>> lane_of("/landing/in/l0/1.parquet", "/landing/in", "directory"), lane_of("/landing/in/1.parquet", "/landing/in", "directory")
    ('l0', '.')
    """
    return below(path, base).rpartition("/")[0] or "." if lane == "directory" else "0"


def below(path: str, base: str) -> str:
    """A file's path below its source's directory, both whole: a directory's name alone may occur anywhere in a path.

    >>> below("file:/landing/in/a/1.csv", "file:///landing/in/"), below("s3a://bucket/in/1.csv", "s3://bucket/in")
    ('a/1.csv', '1.csv')
    """
    path, base = _without_scheme(path), _without_scheme(base).rstrip("/")
    for start in (base, os.path.abspath(base)):
        if path.startswith(f"{start}/"):
            return path[len(start) + 1 :]
    raise StoreError(f"the file {path} does not lie below {base}, the directory that its source names.")


def _without_scheme(path: str) -> str:
    return path.partition("://")[2] if "://" in path else path.removeprefix("file:")
