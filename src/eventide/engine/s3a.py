"""S3 as Spark knows it: under the name s3a, by jars that Spark does not ship, with settings of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventide.engine.java import SparkUnavailable
from eventide.engine.spark_compat import Java, connector, is_class
from eventide.storage.address import from_here, scheme_of
from eventide.storage.objects import s3_endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE_OR_NOT = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""Writes a file of the checkpoint in one request; Spark's own way writes another one, copies it and removes it."""


def spark_address(spark: SparkSession, address: str) -> str:
    """An address as this session reaches it, wherever its JVM stands: s3 is s3a, unless the session has a file system of that name (EMR's has)."""
    if scheme_of(address) != "s3" or spark._jsc.hadoopConfiguration().get("fs.s3.impl") is not None:
        return from_here(address)
    return f"s3a://{address.partition('://')[2]}"


def refuse_without_s3a(spark: SparkSession, address: str) -> None:
    """Stop before the query does, if its checkpoint is to be where this session cannot write."""
    if scheme_of(spark_address(spark, address)) != "s3a":
        return
    jvm: Java = spark._jvm
    if not is_class(jvm.org.apache.hadoop.fs.s3a.S3AFileSystem):
        raise SparkUnavailable(
            f"Spark keeps its checkpoint in {address}, and this session has no jars for S3. Make it with them: spark-submit --packages "
            f"{','.join(connector('s3'))}; sessions that Eventide makes have them."
        )


def s3a_settings(packages: Iterable[str]) -> dict[str, str]:
    """What a session needs to be told, beside the jars, to find the S3 that the environment leads to."""
    names = [package.split(":")[1] for package in packages]
    if "hadoop-aws" not in names:
        return {}
    settings = {}
    if any(name.startswith("spark-hadoop-cloud") for name in names):
        settings["spark.sql.streaming.checkpointFileManagerClass"] = WHOLE_OR_NOT
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := s3_endpoint():
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return settings


__all__ = ["refuse_without_s3a", "s3a_settings", "spark_address"]
