"""A file that is not what its name says, told apart from storage that does not answer: the first is a dead letter, the second stops the run.

A file is read whole or not at all. Were the rows before a fault counted, nobody could land the mended file without counting them twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa

from eventide.engine.feeds.landed import LandedFile, looked_up
from eventide.errors import SourceError, SourceUnavailable
from eventide.redaction import masked
from eventide.storage.arrow import file_system

CONTENT = (OSError, ValueError, EOFError, pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What readers raise over bytes that they cannot read; those of storage are among them, and are told apart by reading the bytes alone."""
MAGICS = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "Zstandard",
          b"\x04\x22\x4d\x18": "LZ4", b"PK\x03\x04": "a zip archive", b"\xfd7zXZ\x00": "xz"}  # fmt: skip


class UnreadableFile(SourceError):
    """A file as a whole is not what its name says."""


class BadFile(SourceError):
    """A file cannot be read, and the source says that the run stops then."""


@contextmanager
def read_whole(file: LandedFile) -> Iterator[None]:
    """Around the reading of a file: its faults have one name, and it must be the same at the end as when it was listed."""
    try:
        if file.size == 0:
            raise ValueError("it is empty")
        yield
    except CONTENT as error:
        raise UnreadableFile(f"{file.path}: {_reason(file, error)}") from error
    if (change := _change(file)) is not None:
        raise UnreadableFile(f"{file.path}: {change}")


def expect_text(head: bytes) -> None:
    """Refuse the beginning of a file that is no text: its lines would be as many dead letters."""
    for magic, kind in MAGICS.items():
        if head.startswith(magic) and any((byte < 32 and byte not in b"\t\r\n") or byte > 126 for byte in head):
            raise ValueError(f"it holds {kind}, not text")


def _reason(file: LandedFile, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    if isinstance(error, OSError):
        _read_bytes(file)
    said = str(error).strip().splitlines()
    return _change(file) or (said[0] if said else type(error).__name__)


def _read_bytes(file: LandedFile) -> None:
    """Bytes that can be read, and make no sense, are the file's fault; bytes that cannot be read are not."""
    try:
        with _opened(file) as stream:
            while stream.read(16 * 1024 * 1024):
                pass
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceUnavailable(f"{file.path} cannot be read now, so that nobody knows what is in it: {error}") from error


def _opened(file: LandedFile) -> pa.NativeFile:
    files, inner = file_system(file.path)
    return files.open_input_stream(inner, compression=None)


def _change(file: LandedFile) -> str | None:
    """Whether a file is no longer the one that was listed: others are still writing it, or have replaced it."""
    if file.size < 0:
        return None
    files, inner = file_system(file.path)
    size = looked_up(files, [inner], file.path)[0].size
    if size is None:
        return "it is gone"
    return None if size == file.size else f"it had {file.size} bytes when it was found and {size} when it was read"


def fault_text(file: LandedFile) -> str:
    """Why a file is a dead letter, for people."""
    return f"the file {masked(file.path)} ({_size(file)}) cannot be read: {file.fault}"


def fault_bytes(file: LandedFile) -> bytes:
    """The facts of a file that is a dead letter, for programs."""
    return json.dumps({"path": masked(file.path), "size": None if file.size < 0 else file.size}).encode()


def refuse_bad_files(source: str, files: Iterable[LandedFile]) -> None:
    """Stop at the first file that cannot be read, where the source says so."""
    for file in files:
        if file.fault is not None:
            raise BadFile(
                f"source {source!r}: {fault_text(file)}. Nothing of this batch was delivered. Mend the file where it is and run again, or "
                'let such files become dead letters: files(…, on_bad_file="dead_letter").'
            )


def _size(file: LandedFile) -> str:
    return "size unknown" if file.size < 0 else f"{file.size:,} bytes"
