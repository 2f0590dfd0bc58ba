"""Sources of every kind, opened for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.definition.source import Source
from eventide.engine.feeds.feed import Feed
from eventide.engine.feeds.files import FileFeed
from eventide.engine.feeds.frame import FrameFeed
from eventide.engine.feeds.kafka import KafkaFeed
from eventide.errors import DefinitionError
from eventide.sources.files import FileSource
from eventide.sources.frame import FrameSource
from eventide.sources.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_feed(spark: SparkSession, index: int, source: Source) -> Feed:
    """Open a source of any kind."""
    if isinstance(source, FileSource):
        return FileFeed.open(spark, index, source)
    if isinstance(source, KafkaSource):
        return KafkaFeed.open(spark, index, source)
    if isinstance(source, FrameSource):
        return FrameFeed.open(spark, index, source)
    raise DefinitionError(f"source {source.name!r}: {type(source).__name__} is not a kind of source that Eventide can run.")
