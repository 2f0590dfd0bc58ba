"""Which of a source's columns a pipeline needs: those it computes with, and those it only counts by."""

from __future__ import annotations

from typing import Any


def computed_with(pipeline: Any) -> frozenset[str] | None:
    """The columns that windows, keys and aggregates are made from; None where whole rows are kept or a function may read any."""
    aggregation = pipeline.aggregation
    whole = any(output.late.refused is not None for output in pipeline.outputs)
    if whole or any(what.kind == "custom" for _, what in aggregation.aggregates):
        return None
    inputs = [column for _, what in aggregation.aggregates for column in what.columns]
    return frozenset([*aggregation.keys, *inputs, *aggregation.stream.dedupe_keys])


def only_measured(pipeline: Any, source: Any) -> frozenset[str]:
    """The columns by which lateness is measured and that nothing else reads: they may come as codes instead of values."""
    needed = computed_with(pipeline)
    if needed is None or pipeline.archive is not None or source.maps:
        return frozenset()
    strategy = str(source.watermark)
    others = {source.event_time, source.arrival, *needed}
    return frozenset(name for name in pipeline.measure or () if name not in others and name not in strategy)
