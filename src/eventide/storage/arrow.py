"""Files that Arrow's own file systems reach: on a disk of this machine, and on HDFS; and what file sources read, wherever it is."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.fs as pafs

from eventide.errors import StoreError, beneath
from eventide.storage.address import for_arrow, is_local, local_path
from eventide.storage.files import delete_each

TRIAL = ".trial-"


class ArrowFiles:
    """The files below one directory."""

    at_once = 1

    def __init__(self, root: str) -> None:
        self._files, self._base = file_system(root)

    def put(self, path: str, body: memoryview) -> None:
        """Write a whole file at once: it gets its name at the end."""
        put(self._files, f"{self._base}/{path}", body)

    def open(self, path: str) -> pa.NativeFile:
        """A file as Arrow reads it."""
        return self._files.open_input_file(f"{self._base}/{path}")

    def sizes(self, directory: str) -> dict[str, int]:
        """The files below a directory, at any depth."""
        here = f"{self._base}/{directory}" if directory else self._base
        chosen = pafs.FileSelector(here, recursive=True, allow_not_found=True)
        infos = [info for info in self._files.get_file_info(chosen) if info.type == pafs.FileType.File]
        found = {info.path: info.size for info in infos if not info.base_name.startswith(TRIAL)}
        return {full[full.index(self._base) + len(self._base) + 1 :]: size for full, size in found.items()}

    def directories(self, path: str) -> list[str]:
        """The names of the directories directly below a path."""
        chosen = pafs.FileSelector(f"{self._base}/{path}", allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(chosen) if info.type == pafs.FileType.Directory)

    def delete(self, *paths: str) -> None:
        """Remove files."""
        delete_each(self._files.delete_file, (f"{self._base}/{path}" for path in paths))

    def delete_directory(self, path: str) -> None:
        """Remove a directory and all below it."""
        delete_each(self._files.delete_dir, [f"{self._base}/{path}"])

    def prune(self, path: str) -> None:
        """Remove a directory, and whatever may be left in it."""
        self.delete_directory(path)


def put(files: pafs.FileSystem, path: str, body: memoryview) -> None:
    """Write a file that is there as a whole or not at all: it gets its name at the end.

    A disk replaces a file that has the name already; HDFS gives a name once, and there the first one stays: it is of an earlier try of the same
    task, and holds the same.
    """
    directory = path.rpartition("/")[0]
    files.create_dir(directory, recursive=True)
    trial = f"{directory}/{TRIAL}{uuid.uuid4().hex}"
    try:
        with files.open_output_stream(trial) as stream:
            stream.write(body)
        _name(files, trial, path)
    except BaseException as error:  # no room left, most often: what is there of it takes some
        with beneath(error):
            delete_each(files.delete_file, [trial])
        raise


def _name(files: pafs.FileSystem, trial: str, path: str) -> None:
    try:
        files.move(trial, path)
    except OSError:
        if files.get_file_info(path).type != pafs.FileType.File:
            raise
        files.delete_file(trial)


def file_system(root: str) -> tuple[pafs.FileSystem, str]:
    """The Arrow file system of an address, and the path in it."""
    if is_local(root):
        return pafs.LocalFileSystem(), local_path(root).rstrip("/")
    try:
        files, base = pafs.FileSystem.from_uri(for_arrow(root))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise StoreError(
            f"{root!r} cannot be opened ({error}). It may be a local path, or one of file, s3, s3a, gs, abfs, abfss and hdfs."
        ) from error
    return files, base.rstrip("/")


__all__ = ["ArrowFiles", "file_system", "put"]
