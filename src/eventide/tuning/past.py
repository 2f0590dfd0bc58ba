"""Lateness over history: the same definition over the archive (or any rows), measured by columns that the run did not ask for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

from eventide.engine.backfill import backfill, without_sinks
from eventide.lateness.measured import Lateness, read_lateness
from eventide.pipeline import Pipeline


def past_lateness(pipeline: Any, by: Sequence[str] = (), history: Any = None, spark: Any = None, **columns: Any) -> Lateness:
    """What the pipeline would have measured of its past; nothing is delivered anywhere."""
    bare = Pipeline(
        pipeline.name, *without_sinks(pipeline.outputs), state=pipeline.state, when_all_idle=pipeline.when_all_idle, buckets=pipeline.buckets,
        archive=pipeline.archive, measure=list(by) or True,
    )  # fmt: skip
    state = tempfile.mkdtemp(prefix="eventide-lateness-")
    try:
        return read_lateness(backfill(bare, history, spark, state, **columns).pipeline)
    finally:
        shutil.rmtree(state, ignore_errors=True)
