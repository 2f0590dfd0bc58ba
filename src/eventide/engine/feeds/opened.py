"""Sources of every kind, opened for a run."""

from __future__ import annotations

from collections.abc import Callable
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


FEEDS: dict[type, Callable[..., Feed]] = {FileSource: FileFeed.open, KafkaSource: KafkaFeed.open, FrameSource: FrameFeed.open}
"""How each kind of source is opened."""


def open_feed(spark: SparkSession, index: int, source: Source) -> Feed:
    """Open a source of any kind."""
    for kind in type(source).__mro__:
        if kind in FEEDS:
            return FEEDS[kind](spark, index, source)
    raise DefinitionError(f"source {source.name!r}: {type(source).__name__} is not a kind of source that Eventide can run.")
