"""Where the journal's small records are kept: on a local disk, or on any file system that can hold a Spark checkpoint."""

from __future__ import annotations

from typing import Any

from eventide.engine.spark_compat import Java, checkpoint_files
from eventide.state.journal import LocalFiles, RecordFiles


def is_local(root: str) -> bool:
    """Whether a state directory is on a disk of this machine."""
    return "://" not in root or root.startswith("file:")


def record_files(root: str, spark: Any = None) -> RecordFiles:
    """The records of a state directory; a remote one is reached through a session, by default the one that runs."""
    if is_local(root):
        return LocalFiles(root)
    from pyspark.sql import SparkSession

    return HadoopFiles(root, spark or SparkSession.active())


class HadoopFiles:
    """Written by the same means by which Spark writes its own checkpoints: whole, or not at all."""

    def __init__(self, root: str, spark: Any) -> None:
        self.root = root.rstrip("/")
        self._jvm = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        self._files = checkpoint_files(self._jvm, self._path(""), configuration)

    def _path(self, inner: str) -> Java:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{inner}" if inner else self.root)

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        place = self._path(path)
        if not self._files.exists(place):
            return None
        stream = self._files.open(place)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, body: bytes) -> None:
        """Write a whole file at once, replacing an earlier one."""
        self._put(path, body, overwrite=True)

    def create(self, path: str, body: bytes) -> bool:
        """Write a whole file at once if there is none of that name."""
        from py4j.protocol import Py4JJavaError

        if self._files.exists(self._path(path)):
            return False
        try:
            self._put(path, body, overwrite=False)
        except Py4JJavaError as error:
            if "FileAlreadyExists" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def _put(self, path: str, body: bytes, *, overwrite: bool) -> None:
        place = self._path(path)
        self._files.mkdirs(place.getParent())
        stream = self._files.createAtomic(place, overwrite)
        try:
            stream.write(body)
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    def names(self, directory: str) -> list[str]:
        """The names in a directory."""
        place = self._path(directory)
        if not self._files.exists(place):
            return []
        found = (status.getPath().getName() for status in self._files.list(place))
        return sorted(name for name in found if not name.startswith("."))

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._files.delete(self._path(path))
