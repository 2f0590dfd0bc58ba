"""Which columns a pipeline reads of its sources, and which of them all sources share."""

from __future__ import annotations

from typing import Any

import polars as pl

from eventide.definition import Aggregation
from eventide.engine.feed import Feed, FileFeed
from eventide.errors import DefinitionError


def needed_columns(aggregation: Aggregation) -> list[str]:
    """Those that are computed with: keys, inputs of aggregates, and what tells duplicates."""
    inputs = [column for _, what in aggregation.aggregates for column in what.columns]
    return [*aggregation.keys, *inputs, *aggregation.stream.dedupe_keys]


def common_kinds(feeds: list[Feed], needed: list[str]) -> dict[str, pl.DataType]:
    """The columns that every source has, with one type; those that are needed must be among them."""
    given = [feed.reading.given for feed in feeds]
    first, name = given[0], feeds[0].source.name
    for feed, other in zip(feeds[1:], given[1:], strict=True):
        for column in needed:
            if first.get(column) != other.get(column):
                raise DefinitionError(
                    f"sources {name!r} and {feed.source.name!r} must have the same columns to be merged, but {column!r} is "
                    f"{first.get(column, 'missing')} in one and {other.get(column, 'missing')} in the other. Map each to the common "
                    "columns with .transform(…)."
                )
    for column in needed:
        if column not in first:
            raise DefinitionError(f"source {name!r} has no column {column!r}. Its columns are {', '.join(first)}.")
    return {column: kind for column, kind in first.items() if all(other.get(column) == kind for other in given)}


def read_kinds(feed: FileFeed, pipeline: Any, needed: list[str]) -> dict[str, pl.DataType]:
    """The columns of a file that are read at all: every one where rows are kept whole, otherwise those that are computed with."""
    source, kinds = feed.source, feed.reading.kinds
    diverts = any(output.late.refused is not None for output in pipeline.outputs)
    custom = any(what.kind == "custom" for _, what in pipeline.aggregation.aggregates)
    if pipeline.archive or diverts or custom:
        return kinds
    if not all(hasattr(change, "columns") for change in source.maps):
        return kinds  # a map that does not say which columns it reads may read any
    own = {source.event_time, source.arrival, *needed, *(pipeline.measure or ())}
    own |= {column for change in source.maps for column in getattr(change, "columns", ())}
    strategy = str(source.watermark)
    return {name: kind for name, kind in kinds.items() if name in own or name in strategy}
