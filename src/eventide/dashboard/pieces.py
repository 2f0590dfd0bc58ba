"""Files that batches wrote, each read once: what a page shows of them is kept, as long as the file is among the newest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import pyarrow as pa

from eventide.errors import StoreError

Piece = TypeVar("Piece")
GONE = (StoreError, FileNotFoundError, OSError, pa.ArrowInvalid)


class Pieces(Generic[Piece]):
    """What was read of files, by their paths; the newest are read first, and only so many rows are held."""

    def __init__(self, read: Callable[[str], Piece], size: Callable[[Piece], int], files: int, rows: int) -> None:
        self._read, self._size, self._files, self._rows = read, size, files, rows
        self._held: dict[str, Piece | None] = {}
        self.gone = 0
        """Files that are no more: what a state keeps is removed after a while."""
        self.left = 0
        """Files that were not read, because newer ones fill the page."""

    def of(self, paths: Iterable[str]) -> list[Piece]:
        """The pieces of files, newest first, as the paths come."""
        found: list[Piece] = []
        held: dict[str, Piece | None] = {}
        rows = self.gone = self.left = 0
        for path in paths:
            if len(held) >= self._files or rows >= self._rows:
                self.left += 1
                continue
            held[path] = piece = self._held[path] if path in self._held else self._tried(path)
            if piece is None:
                self.gone += 1
                continue
            found.append(piece)
            rows += self._size(piece)
        self._held = held
        return found

    def _tried(self, path: str) -> Any:
        try:
            return self._read(path)
        except GONE:
            return None


__all__ = ["Pieces"]
