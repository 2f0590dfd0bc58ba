"""Lateness over history: the same definition over the archive (or any rows), measured by columns that the run did not ask for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from eventide.definition.pipeline import Pipeline
from eventide.engine.backfill import PlaceColumns, backfill, without_sinks
from eventide.lateness.measured import Lateness, read_lateness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def past_lateness(
    pipeline: Pipeline,
    by: Sequence[str] = (),
    history: DataFrame | dict[str, DataFrame] | None = None,
    spark: SparkSession | None = None,
    **columns: Unpack[PlaceColumns],
) -> Lateness:
    """What the pipeline would have measured of its past; nothing is delivered anywhere."""
    bare = replace(pipeline, outputs=without_sinks(pipeline.outputs), dead_letter_sink=None, measure=tuple(by))
    state = tempfile.mkdtemp(prefix="eventide-lateness-")
    try:
        return read_lateness(backfill(bare, history, spark, state, **columns).pipeline)
    finally:
        shutil.rmtree(state, ignore_errors=True)
