"""Where the journal's small records are kept: on a local disk, in an object store, or on a Hadoop file system."""

from __future__ import annotations

from eventide.errors import StoreError
from eventide.state.journal import LocalFiles
from eventide.storage.address import OBJECT_STORES, from_here, scheme_of
from eventide.storage.files import RecordFiles, hadoop_files, prove
from eventide.storage.objects import ObjectFiles

HADOOP = ("hdfs", "viewfs", "ofs", "o3fs", "maprfs")
"""File systems on which a file gets its name by a rename that only one of two can win."""


def record_files(root: str) -> RecordFiles:
    """The records of a state directory."""
    scheme = scheme_of(root)
    if not scheme:
        return LocalFiles(from_here(root))
    if scheme in OBJECT_STORES:
        return ObjectFiles(root)
    if scheme not in HADOOP:
        raise StoreError(
            f"state cannot be kept in {root}: on {scheme} two runs could both create the same record. It may be a local path, or one of "
            f"{', '.join((*OBJECT_STORES, *HADOOP))}."
        )
    return hadoop_files(root)


def proven_files(root: str) -> RecordFiles:
    """The records of a state directory that a run is about to write, once it is known that the place keeps them as they are written."""
    files = record_files(root)
    if scheme_of(root):
        prove(files, root)
    return files


__all__ = ["HADOOP", "proven_files", "record_files"]
