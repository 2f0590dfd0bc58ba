"""Files that have landed below a directory, as a listing shows them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

import pyarrow.fs as pafs

from eventide.errors import SourceUnavailable, StoreError
from eventide.model.event import LaneId
from eventide.model.time import saturate
from eventide.redaction import masked
from eventide.sources.filenames import is_read
from eventide.storage.address import is_local, scheme_of
from eventide.storage.arrow import file_system

NO_TEXT = "its name is not UTF-8, so that Spark cannot take it: rename it, and it is read as a new file"

NOT_PLAIN = (
    "Spark's Java runs in a locale without the letters of its name, and does not see it: start Spark with LC_ALL=C.UTF-8, and it is read as a new "
    "file"
)


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


def list_files(root: str, form: str, lane: str, *, plain: bool = False) -> list[LandedFile]:
    """The files of a format below a directory, oldest first; those that Spark cannot take because of their names say so.

    `plain` says that Spark's Java runs in a locale that has plain letters (ASCII) only.
    """
    files, base = file_system(root)
    scheme = "" if is_local(root) else f"{scheme_of(root)}://"
    found = []
    for info in looked_up(files, pafs.FileSelector(base, recursive=True, allow_not_found=True), root):
        path = _path(info)
        if info.type == pafs.FileType.File and is_read(path[len(base) :].lstrip("/"), form):
            file = LandedFile(f"{scheme}{path}", modified_at(info), lane_of(path, base, lane), info.size)
            found.append(_unnamed(file) if not _is_text(path) else _foreign(file) if plain and not path.isascii() else file)
    return in_order(_in_known_lanes(found))


def looked_up(files: pafs.FileSystem, what: pafs.FileSelector | list[str], place: str) -> list[pafs.FileInfo]:
    """What is there now; where that cannot be seen (no rights, no answer) the run stops, for nobody can tell what it would miss."""
    try:
        return list(files.get_file_info(what))
    except OSError as error:
        raise SourceUnavailable(
            f"{masked(place)} cannot be looked at now, so that nobody knows which files are there: {error}. Nothing was taken for read: mend that, and "
            "run again."
        ) from error


def modified_at(info: pafs.FileInfo) -> int:
    """When a file was last modified, as Spark's file source has it: it tells no finer times apart than milliseconds."""
    return saturate((info.mtime_ns or 0) // 1_000_000 * 1_000)


def in_order(files: Iterable[LandedFile]) -> list[LandedFile]:
    """Files in the order in which they are read: the oldest first."""
    return sorted(files, key=lambda f: (f.modified, f.path))


def _path(info: pafs.FileInfo) -> str:
    """As Python has paths: bytes that are no text stand as lone surrogates."""
    try:
        return str(info.path)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")


def _is_text(path: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in path)


def _unnamed(file: LandedFile) -> LandedFile:
    """A file whose path is no text, by an address that is one; no path of a file that can be read begins like it."""
    return replace(file, path=f"file://{_encoded(file.path)}", lane=_encoded(file.lane), fault=NO_TEXT)


def _foreign(file: LandedFile) -> LandedFile:
    return replace(file, path=f"file://{_encoded(file.path)}", fault=NOT_PLAIN)


def _encoded(path: str) -> str:
    return quote(path, encoding="utf-8", errors="surrogateescape")


def _in_known_lanes(files: list[LandedFile]) -> list[LandedFile]:
    """A lane of dead letters alone would say no time and hold W for ever: they stand in a lane of files that can be read."""
    known = {file.lane for file in files if file.fault is None}
    return [file if file.lane in known or not known else replace(file, lane=min(known)) for file in files]


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
