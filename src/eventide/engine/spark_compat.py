"""What differs between the versions of Spark that Eventide runs on: one place for all of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from eventide.definition.source import Source
from eventide.engine.java import SparkUnavailable
from eventide.errors import DefinitionError, EventideError
from eventide.storage.address import scheme_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Java = Any
"""An object of the JVM, as py4j hands it over: Python knows nothing of its type."""


class SparkUnsupported(EventideError):
    """This Spark has no counterpart of something that a pipeline needs."""


@dataclass(frozen=True)
class Line:
    """The jars beside Spark's own that one line of versions needs: coordinates, each with all that it asks for and Spark lacks."""

    kafka: tuple[str, ...]
    delta: tuple[str, ...] = ()
    s3: tuple[str, ...] = ()


def _kafka(scala: str, connector: str, tokens: str, clients: str, pool: str) -> tuple[str, ...]:
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{tokens}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    )


def _delta(name: str, version: str, *beside: str) -> tuple[str, ...]:
    return (f"io.delta:{name}:{version}", *(f"io.delta:{other}:{version}" for other in ("delta-storage", *beside)))


def _s3(hadoop: str, sdk: str, *cloud: str) -> tuple[str, ...]:
    return (f"org.apache.hadoop:hadoop-aws:{hadoop}", sdk, *(f"org.apache.spark:spark-hadoop-cloud_{at}" for at in cloud))


_SDK_1, _SDK_2 = "com.amazonaws:aws-java-sdk-bundle", "software.amazon.awssdk:bundle"
_KERNEL = ("delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")

# The connectors of a line work with every patch of it, and 4.2's with 4.3 too. The token provider is the same code since 4.0, and its
# newer releases cannot be had everywhere.
LINES = {
    "3.5": Line(
        _kafka("2.12", "3.5.0", "3.5.0", "3.4.1", "2.11.1"),
        _delta("delta-spark_2.12", "3.3.2"),
        _s3("3.3.4", f"{_SDK_1}:1.12.262", "2.12:3.5.1"),
    ),
    "4.0": Line(
        _kafka("2.13", "4.0.1", "4.0.0", "3.9.1", "2.12.0"),
        _delta("delta-spark_2.13", "4.0.1"),
        _s3("3.4.1", f"{_SDK_2}:2.24.6", "2.13:4.0.1"),
    ),
    "4.1": Line(
        _kafka("2.13", "4.1.3", "4.0.0", "3.9.1", "2.12.1"),
        _delta("delta-spark_4.1_2.13", "4.3.0", *_KERNEL),
        _s3("3.4.2", f"{_SDK_2}:2.29.52", "2.13:4.1.1"),
    ),
    "4.2": Line(_kafka("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"), (), _s3("3.5.0", f"{_SDK_2}:2.35.4")),
    "4.3": Line(_kafka("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"), (), _s3("3.5.0", f"{_SDK_2}:2.35.4")),
}


def line_of(version: str) -> Line:
    """The line that a version of Spark belongs to.

    >>> line_of("4.0.5").kafka[0]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1'
    """
    line = LINES.get(".".join(version.split(".")[:2]))
    if line is None:
        raise SparkUnsupported(
            f"this is Spark {version}; Eventide runs on {', '.join(LINES)}. Install one of them: pip install 'pyspark==4.0.*'."
        )
    return line


def packages_of(sources: Iterable[Source], places: Iterable[str | None] = ()) -> list[str]:
    """The connectors that sources, and places of files, need, in the versions that fit the Spark that is installed; most need none.

    >>> packages_of([], ["state/clicks"])
    []
    """
    in_s3 = ["s3" for place in places if scheme_of(place or "") in ("s3", "s3a")]
    wanted = dict.fromkeys([*_needs(sources), *in_s3])
    return [package for name in wanted for package in connector(name)]


def _needs(sources: Iterable[Source]) -> list[str]:
    return list(dict.fromkeys(name for source in sources for name in source.needs))


def connector(name: str) -> tuple[str, ...]:
    """The jars of one connector, `kafka`, `delta` or `s3`, for the Spark that is installed."""
    import pyspark

    packages: tuple[str, ...] = getattr(line_of(pyspark.__version__), name)
    if not packages:
        able = ", ".join(version for version, line in LINES.items() if getattr(line, name))
        raise DefinitionError(
            f"the {name} connector does not exist for Spark {pyspark.__version__} yet. Use Spark {able} with this source: "
            f"pip install 'pyspark=={able.rpartition(', ')[2]}.*'."
        )
    return packages


PROVIDERS = {"kafka": "org.apache.spark.sql.kafka010.KafkaSourceProvider", "delta": "io.delta.sql.DeltaSparkSessionExtension"}
"""A class of each connector, by which it is known to be there."""


def refuse_without(spark: SparkSession, sources: Iterable[Source]) -> None:
    """Stop where a session lacks the connectors that sources need, and say what brings them."""
    for name in _needs(sources):
        found: Java = spark._jvm
        for part in PROVIDERS[name].split("."):
            found = getattr(found, part)
        if not is_class(found):
            raise SparkUnavailable(
                f"this Spark session has no {name} connector. Bring it when Spark is started: spark-submit --packages {','.join(connector(name))}, or "
                "spark.jars.packages in the session's settings; without a session of your own Eventide brings it itself."
            )


def refuse_offset_format(spark: SparkSession) -> None:
    """Spark 4.2 and later can note how far a batch goes by the names of sources; we read it by their order, and say so before it is written."""
    asked = spark.conf.get(OFFSET_FORMAT, "1")
    if asked != "1":
        raise SparkUnsupported(
            f"this session has {OFFSET_FORMAT}={asked}: Eventide reads Spark's notes of how far a batch goes in format 1 only. Leave the setting "
            f"away, or set it for this session: spark.conf.set({OFFSET_FORMAT!r}, 1)."
        )


OFFSET_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


def arrow_schema(spark_schema: StructType) -> pa.Schema:
    """Spark's columns as Arrow's. From 4.2 on a zone must be named, since sessions have one."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(spark_schema, **zone)


def parse_ddl(text: str) -> StructType:
    """A DDL text as a Spark schema; 3.5 has only the function beneath."""
    from pyspark.sql import types

    try:
        if hasattr(types.StructType, "fromDDL"):
            return cast("StructType", types.StructType.fromDDL(text))  # Spark promises no more than some type
        return cast("StructType", types._parse_datatype_string(text))
    except Exception as error:
        raise DefinitionError(f"the schema {text!r} is not Spark DDL: {str(error).splitlines()[0]}") from error


def is_class(found: Java) -> bool:
    """Whether py4j has found a class of the JVM's: for any other name it makes up a package."""
    from py4j.java_gateway import JavaClass

    return isinstance(found, JavaClass)


def reads_every_name(spark: SparkSession) -> bool:
    """Whether Java has file names in UTF-8; otherwise only those of plain letters, whatever its other encodings are."""
    jvm: Java = spark._jvm
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding")).upper() == "UTF-8"


def checkpoint_files(jvm: Java, path: Java, configuration: Java) -> Java:
    """The file manager by which Spark writes its own checkpoints; it moved in 4.1."""
    streaming = jvm.org.apache.spark.sql.execution.streaming
    for place in (streaming, streaming.checkpointing):
        if is_class(place.CheckpointFileManager):
            return place.CheckpointFileManager.create(path, configuration)
    raise SparkUnsupported(
        "this Spark keeps its checkpoint file manager somewhere else; state can only be kept on a local disk."
    )
