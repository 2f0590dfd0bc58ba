"""The lines of a recommendation can be pasted into the pipeline that they are for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import eventide as ev
from eventide.tuning.advice import advice


def tuning_of(pipeline: ev.Pipeline) -> Any:
    return SimpleNamespace(
        pipeline=pipeline,
        bound=7_000_000,
        allowed=0,
        names=["p"],
        idle=list[Any],
        point=lambda bound: SimpleNamespace(refused=3),
    )


def lines_for(watermark: Any, event_time: str) -> list[str]:
    source = ev.files("p", "/in", schema="at timestamp", event_time=event_time, watermark=watermark)
    counts = source.window(ev.tumbling("1 minute")).agg(n=ev.count())
    pipeline = ev.Pipeline("p", counts.to("n", late=ev.divert()), state="/state")
    tuning = tuning_of(pipeline)
    tuning.idle = lambda: [("p", SimpleNamespace(longest=0))]
    return advice(tuning)


def test_windows_by_arrival_keep_their_watermark() -> None:
    assert lines_for(ev.processing_time(), "arrival_time")[0] == "watermark=ev.processing_time(),  # p: as it is"


def test_other_watermarks_get_the_measured_bound() -> None:
    (line, _) = lines_for(ev.ascending(), "at")
    assert line.startswith('watermark=ev.bounded("7 seconds"),  # p: takes effect') and line.endswith("instead of ascending()")
