"""Which of its sources' columns a pipeline needs: those it computes with, those it only counts by, those that all sources share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from eventide.definition.join import Join
from eventide.definition.pipeline import Pipeline
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation
from eventide.engine.feeds.feed import Feed
from eventide.engine.feeds.joined import joined_kinds, pairs_shown
from eventide.engine.feeds.json_records import has_map
from eventide.errors import DefinitionError
from eventide.kernel.expression import columns
from eventide.kernel.kinds import kind_of
from eventide.kernel.operands import refuse_never
from eventide.model.aggregate import Aggregate
from eventide.model.window import Session
from eventide.wording import words


def needed_columns(pipeline: Pipeline) -> list[str]:
    """Those that are computed with: keys, inputs of aggregates, and what tells duplicates."""
    keys = [key for aggregation in pipeline.aggregations for key in aggregation.keys]
    inputs = [column for aggregation in pipeline.aggregations for _, what in aggregation.aggregates for column in what.columns]
    return [*dict.fromkeys([*keys, *inputs, *pipeline.stream.dedupe_keys])]


def clock_columns(source: Source, names: Iterable[str]) -> frozenset[str]:
    """Of these columns, those that a source's clock reads: its times, and what its watermark strategy names."""
    read = {source.event_time, source.arrival, *named_in(source.watermark.expressions)}
    return frozenset(name for name in names if name in read)


def named_in(expressions: Iterable[str]) -> frozenset[str]:
    """The columns that SQL expressions read.

    >>> sorted(named_in(["kind = 'marker'", "complete_to - 5"]))
    ['complete_to', 'kind']
    """
    return frozenset(name for text in expressions for name in pl.sql_expr(text).meta.root_names())


def mapped_columns(source: Source, names: Iterable[str]) -> frozenset[str]:
    """Of these columns, those that a source's maps read: every one, if a map does not say which."""
    said: list[Iterable[str] | None] = [getattr(change, "columns", None) for change in source.maps]
    known = [columns for columns in said if columns is not None]
    return frozenset(names) if len(known) < len(said) else frozenset(column for columns in known for column in columns)


def computed_with(pipeline: Pipeline) -> frozenset[str] | None:
    """The columns that windows, keys and aggregates are made from; None where whole rows are kept or a function may read any."""
    whole = bool(pipeline.audits or pipeline.join) or any(output.late.refused is not None for output in pipeline.outputs)
    if whole or any(what.kind == "custom" for aggregation in pipeline.aggregations for _, what in aggregation.aggregates):
        return None
    return frozenset(needed_columns(pipeline))


def only_measured(pipeline: Pipeline, source: Source) -> frozenset[str]:
    """The columns by which lateness is measured and that nothing else reads: they may come as codes instead of values."""
    needed = computed_with(pipeline)
    if needed is None or pipeline.archive is not None or source.maps:
        return frozenset()
    measured = frozenset(pipeline.measure or ())
    return measured - needed - clock_columns(source, measured)


def read_kinds(pipeline: Pipeline, feed: Feed) -> dict[str, pl.DataType]:
    """The columns of a file that are read at all: every one where rows are kept whole, otherwise those that are used."""
    source, kinds, needed = feed.source, feed.reading.kinds, computed_with(pipeline)
    if pipeline.archive or needed is None or not feed.takes_columns:
        return kinds
    own = {*clock_columns(source, kinds), *mapped_columns(source, kinds), *needed, *(pipeline.measure or ())}
    return {name: kind for name, kind in kinds.items() if name in own}


def common_kinds(feeds: list[Feed], pipeline: Pipeline) -> dict[str, pl.DataType]:
    """The columns that every source has, with one type; those that are needed must be among them. Of a join: those of both sides."""
    if pipeline.join is not None:
        shown = pairs_shown(pipeline, pipeline.join, feeds)
        for aggregation in pipeline.aggregations:
            refuse_aggregates(aggregation.aggregates, shown)
            _check_keys(aggregation, shown)
        return joined_kinds(pipeline.join, feeds)
    given, needed = [feed.reading.given for feed in feeds], needed_columns(pipeline)
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
    for aggregation in pipeline.aggregations:
        refuse_aggregates(aggregation.aggregates, first)
        _check_keys(aggregation, first)
    return {column: kind for column, kind in first.items() if all(other.get(column) == kind for other in given)}


def refuse_aggregates(aggregates: Iterable[tuple[str, Aggregate]], kinds: Mapping[str, pl.DataType]) -> None:
    """Refuse what the types of the columns cannot give; found here, not by the first row."""
    for one in aggregates:
        _refuse_words(*one, kinds)
        _refuse_unordered(*one, kinds)
        _refuse_condition(*one, kinds)


def _refuse_words(name: str, what: Aggregate, kinds: Mapping[str, pl.DataType]) -> None:
    """Texts, times and nested values have no sum."""
    kind = None if what.column is None else kinds[what.column]
    if kind is None or not kind_of(what.kind).numbers or kind.is_numeric() or kind == pl.Boolean():
        return
    able = ", ".join(column for column, other in kinds.items() if other.is_numeric())
    raise DefinitionError(
        f"{name}={words(what)}: the column {what.column!r} is {kind}, which has no {what.kind}. Columns with numbers: {able or 'none'}. "
        "A transform or a map can make a number of it."
    )


def _refuse_unordered(name: str, what: Aggregate, kinds: Mapping[str, pl.DataType]) -> None:
    """Nested values have no order by which one of them could lead."""
    ordered = kind_of(what.kind).ordered
    column = None if ordered is None else ordered(what)
    if column is not None and kinds[column].is_nested():
        raise DefinitionError(
            f"{name}={words(what)}: the column {column!r} is {kinds[column]}, and nested values have no order. Name a column with plain "
            "values; a transform or a map can make one."
        )


def _refuse_condition(name: str, what: Aggregate, kinds: Mapping[str, pl.DataType]) -> None:
    """A condition that is null in every row would count nothing, and nobody would know."""
    if what.where is not None:
        refuse_never(what.where, columns(kinds), f"{name}={words(what)}")


def _check_keys(aggregation: Aggregation | Join, kinds: dict[str, pl.DataType]) -> None:
    """Sessions and duplicates are told apart by keys that stand for one thing each."""
    for column in aggregation.keys:
        if has_map(kinds[column]):
            raise DefinitionError(
                f"the key {column!r} is {kinds[column]}: the entries of a map have no order, so that one key would go by several names. "
                "Make a plain value of it with .transform(…) or .map(…)."
            )
    told = [*(aggregation.keys if isinstance(aggregation.window, Session) else ()), *aggregation.stream.dedupe_keys]
    for column in told:
        if kinds[column].is_nested():
            raise DefinitionError(
                f"the column {column!r} is {kinds[column]}, and sessions and duplicates are told apart by plain values. "
                "Make one of it with .transform(…) or .map(…), such as its JSON text."
            )
