"""Files in an object store (S3, Google Cloud Storage, Azure): one request for each thing that is done, and conditional creation.

An object is there as a whole or not at all, and can be created on the condition that there is none of its name (If-None-Match): the store
itself decides which of two runs wins. Settings and keys come from the environment (AWS_…, GOOGLE_…, AZURE_…), on every machine alike.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from eventide.errors import StoreError, StoreUnavailable
from eventide.storage.address import OBJECT_STORES, scheme_of
from eventide.storage.files import delete_each
from eventide.storage.ranges import RangeReader

FIRST = 1 << 20
"""Bytes that are asked for first: most files are whole with them, and need no second request."""
AT_ONCE = 64 << 20
"""Larger files are sent in parts."""
TRIES = 5
"""How often the line may break before an object is created; whatever arrives late says whose it is."""
WRITER = "writer"
"""Under this name an object says who created it: an answer that was lost on the way is found out by asking."""


class ObjectFiles:
    """The objects below one prefix of a bucket."""

    at_once = 1000
    what_to_change = "Use a store that honours conditional writes (PutObject with If-None-Match), as S3 does."

    def __init__(self, root: str) -> None:
        self.root = root
        self._library = _library(root)
        self._store = _opened(self._library, root)

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[str]]:
        return (ObjectFiles, (self.root,))

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        with self._asking():
            try:
                return bytes(self._library.get(self._store, path).bytes())
            except FileNotFoundError:
                return None

    def write(self, path: str, body: bytes) -> None:
        """Write a whole object, replacing an earlier one."""
        self.put(path, memoryview(body))

    def put(self, path: str, body: memoryview) -> None:
        """Write a whole object at once."""
        with self._asking():
            self._library.put(self._store, path, body, use_multipart=len(body) > AT_ONCE)

    def create(self, path: str, body: bytes) -> bool:
        """Write a whole object if there is none of that name; the store decides, and says so."""
        writer, tries_left = uuid.uuid4().hex, TRIES
        with self._asking():
            while True:
                tries_left -= 1
                try:
                    self._library.put(self._store, path, body, mode="create", use_multipart=False, attributes={WRITER: writer})
                    return True
                except self._library.exceptions.AlreadyExistsError:
                    return self._writer_of(path) == writer  # it may be our own, sent twice because its first answer was lost
                except self._library.exceptions.GenericError:
                    if (found := self._writer_of(path)) is not None:
                        return found == writer
                    if not tries_left:
                        raise

    def _writer_of(self, path: str) -> str | None:
        try:
            return str(self._library.get(self._store, path).attributes.get(WRITER, ""))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> Any:
        """An object as Arrow reads it: as a rule whole, by one request."""
        with self._asking():
            answer = self._library.get(self._store, path, options={"range": (0, FIRST)})
            size, first = int(answer.meta["size"]), bytes(answer.bytes())
        if len(first) >= size:
            return pa.BufferReader(first)
        return pa.PythonFile(RangeReader(first, size, lambda start, end: self._between(path, start, end)), mode="r")

    def _between(self, path: str, start: int, end: int) -> bytes:
        with self._asking():
            return bytes(self._library.get_range(self._store, path, start=start, end=end))

    def names(self, directory: str) -> list[str]:
        """The names in a directory."""
        found = self._listed(directory)
        return sorted({_name(entry["path"]) for entry in found["objects"]} | {_name(p) for p in found["common_prefixes"]})

    def directories(self, path: str) -> list[str]:
        """The names of the directories directly below a path."""
        return sorted(_name(prefix) for prefix in self._listed(path)["common_prefixes"])

    def _listed(self, directory: str) -> Any:
        with self._asking():
            return self._library.list_with_delimiter(self._store, directory.strip("/") or None)

    def sizes(self, directory: str) -> dict[str, int]:
        """The objects below a directory, at any depth."""
        with self._asking():
            entries = self._library.list(self._store, directory.strip("/") or None).collect()
        return {entry["path"]: int(entry["size"]) for entry in entries}

    def delete(self, *paths: str) -> None:
        """Remove objects; S3 takes many in one request."""
        if not paths:
            return
        with self._asking():
            if OBJECT_STORES[scheme_of(self.root)] == "s3":
                self._library.delete(self._store, list(paths))
            else:
                delete_each(lambda path: self._library.delete(self._store, path), paths)

    def delete_directory(self, path: str) -> None:
        """Remove all objects below a path."""
        self.delete(*self.sizes(path))

    def prune(self, path: str) -> None:
        """Nothing: a directory is gone with its last object."""

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except self._library.exceptions.BaseError as error:
            raise StoreUnavailable(
                f"the object store of {self.root} did not do what was asked: {_first_line(error)} The same run may succeed later. If not: "
                "keys, region and address come from the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL and the like) or from the "
                "machine's role, on the driver and on every worker."
            ) from error


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()[0][:300]
    return text if text.endswith(".") else f"{text}."


def _library(root: str) -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        extra = OBJECT_STORES[scheme_of(root)]
        raise StoreError(
            f"{root} is in an object store, and obstore, which reaches it, is not installed here: pip install 'eventide[{extra}]'"
        ) from None
    return obstore


_open: dict[tuple[int, str, str | None], Any] = {}
"""Connections and keys are used again by the tasks of one process, and by no process that was forked from it."""


def _opened(library: Any, root: str) -> Any:
    parts = urlsplit(root)
    if "?" in root or (parts.username is not None and not scheme_of(root).startswith("abfs")):
        raise StoreError(
            f"{root} holds keys or options. Write the address alone, s3://bucket/path, and give those by the environment: AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL."
        )
    endpoint = s3_endpoint() if OBJECT_STORES[scheme_of(root)] == "s3" else None
    place = (os.getpid(), root, endpoint)
    if place not in _open:
        options: dict[str, Any] = {}
        if endpoint is not None:
            options = {"endpoint": endpoint, "client_options": {"allow_http": endpoint.startswith("http://")}}
        _open[place] = library.store.from_url(root.rstrip("/"), **options)
    return _open[place]


def s3_endpoint() -> str | None:
    """Where S3 is, if not at AWS; under the names by which AWS's own tools know it."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


__all__ = ["ObjectFiles", "s3_endpoint"]
