"""Records on a Hadoop file system, written by the same means by which Spark writes its own checkpoints: whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.engine.spark_compat import Java, checkpoint_files
from eventide.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def through_spark(root: str) -> HadoopFiles:
    """The records of an address, reached through the Spark that runs in this process; all its sessions know the same file systems."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None:
        raise StoreError(f"what is kept in {root} can be read through Spark only, and no session of it runs here.")
    return HadoopFiles(root, session)


class HadoopFiles:
    """The records below one address."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        self.root = root.rstrip("/")
        self._jvm: Java = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        self._files = checkpoint_files(self._jvm, self._path(""), configuration)

    def _path(self, inner: str) -> Java:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{inner}" if inner else self.root)

    @property
    def what_to_change(self) -> str:
        """The setting by which Spark is told to write its files otherwise."""
        return (
            f"Spark writes there by {self._files.getClass().getName()}: set spark.sql.streaming.checkpointFileManagerClass to one that replaces "
            "files and creates them once, or leave it unset."
        )

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

    def delete(self, *paths: str) -> None:
        """Remove files, those that are there."""
        for path in paths:
            self._files.delete(self._path(path))


__all__ = ["HadoopFiles", "through_spark"]
