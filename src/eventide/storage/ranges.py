"""A remote file of which the beginning is known, and the rest is asked for where it is read."""

from __future__ import annotations

import io
from collections.abc import Callable


class RangeReader(io.RawIOBase):
    """What Arrow needs of a Python file.

    >>> body = b"eventide"
    >>> reader = RangeReader(body[:3], len(body), lambda start, end: body[start:end])
    >>> reader.seek(2), reader.read(4), reader.read()
    (2, b'enti', b'de')
    """

    def __init__(self, first: bytes, size: int, between: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._first, self._size, self._between, self._at = first, size, between, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read from there."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """As many bytes, or all that are left."""
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        start, self._at = self._at, max(end, self._at)
        if start >= end:
            return b""
        return self._first[start:end] if end <= len(self._first) else self._between(start, end)


__all__ = ["RangeReader"]
