"""The large files of a place, opened by what its address says that it is."""

from __future__ import annotations

from eventide.storage.address import OBJECT_STORES, scheme_of
from eventide.storage.arrow import ArrowFiles
from eventide.storage.files import DataFiles
from eventide.storage.objects import ObjectFiles


def data_files(root: str) -> DataFiles:
    """The files of a place, wherever it is."""
    return ObjectFiles(root) if scheme_of(root) in OBJECT_STORES else ArrowFiles(root)


__all__ = ["data_files"]
