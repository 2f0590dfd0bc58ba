"""Where the journal's small records are kept: on a local disk, in an object store, or on a Hadoop file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.engine.spark_compat import Java, checkpoint_files
from eventide.errors import StoreError
from eventide.state.journal import LocalFiles
from eventide.storage.address import OBJECT_STORES, is_local, scheme_of
from eventide.storage.files import RecordFiles, prove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HADOOP = ("hdfs", "viewfs", "ofs", "o3fs", "maprfs")
"""File systems on which a file gets its name by a rename that only one of two can win."""


def record_files(root: str, spark: SparkSession | None = None) -> RecordFiles:
    """The records of a state directory; one on a Hadoop file system is reached through a session, by default the one that runs."""
    scheme = scheme_of(root)
    if not scheme:
        return LocalFiles(root)
    if scheme in OBJECT_STORES:
        from eventide.storage.objects import ObjectFiles

        return ObjectFiles(root)
    if scheme not in HADOOP:
        raise StoreError(
            f"state cannot be kept in {root}: on {scheme} two runs could both create the same record. It may be a local path, or one of "
            f"{', '.join((*OBJECT_STORES, *HADOOP))}."
        )
    from pyspark.sql import SparkSession

    return HadoopFiles(root, spark or SparkSession.active())


def proven_files(root: str, spark: SparkSession | None) -> RecordFiles:
    """The records of a state directory that a run is about to write, once it is known that the place keeps them as they are written."""
    files = record_files(root, spark)
    if isinstance(files, HadoopFiles):
        prove(files, root, files.what_to_change)
    elif scheme_of(root) in OBJECT_STORES:
        prove(files, root, "Use a store that honours conditional writes (PutObject with If-None-Match), as S3 does.")
    return files


class HadoopFiles:
    """Written by the same means by which Spark writes its own checkpoints: whole, or not at all."""

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


__all__ = ["HADOOP", "HadoopFiles", "is_local", "proven_files", "record_files"]
