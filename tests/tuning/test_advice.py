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


def lines_for(watermark: Any, event_time: str, late: Any = ev.divert()) -> list[str]:  # noqa: B008
    source = ev.files("p", "/in", schema="at timestamp, kind string", event_time=event_time, watermark=watermark)
    counts = source.window(ev.tumbling("1 minute")).agg(n=ev.count())
    pipeline = ev.Pipeline("p", counts.to("n", late=late), state="/state")
    tuning = tuning_of(pipeline)
    tuning.idle = lambda: [("p", SimpleNamespace(longest=0))]
    return advice(tuning)


def test_windows_by_arrival_keep_their_watermark() -> None:
    assert lines_for(ev.processing_time(), "arrival_time")[0] == "watermark=ev.processing_time(),  # p: as it is"


def test_watermarks_that_the_rows_say_themselves_stay() -> None:
    told = 'p: as it is, as its rows say; by their times alone it would be bounded("7 seconds")'
    for watermark in (ev.punctuated(when="kind = 'end'", value="at"), ev.custom("at - interval 1 second")):
        assert lines_for(watermark, "at")[0] == f"watermark=ev.{watermark.written},  # {told}"


def test_other_watermarks_get_the_measured_bound() -> None:
    (line, _) = lines_for(ev.ascending(), "at")
    assert line.startswith('watermark=ev.bounded("7 seconds"),  # p: takes effect') and line.endswith("instead of ascending()")


def test_an_output_over_other_windows_is_told_that_nothing_is_said_of_it() -> None:
    """The rows that ten seconds refuse are not those that an hour refuses."""
    clicks = ev.files("p", "/in", schema="at timestamp", event_time="at", watermark=ev.bounded("7 seconds"))
    tens, hours = (clicks.window(ev.tumbling(size)).agg(n=ev.count()) for size in ("10 seconds", "1 hour"))
    outputs = tens.to("tens", late=ev.drop()), hours.to("hours", late=ev.accumulate("5 minutes"))
    tuning = tuning_of(ev.Pipeline("p", *outputs, state="/state"))
    tuning.idle = lambda: [("p", SimpleNamespace(longest=0))]
    tuning.answer = SimpleNamespace(question=SimpleNamespace(window=tens.window))
    assert [" ".join(line.split()) for line in advice(tuning)[1:]] == [
        "late=ev.drop(), # tens: as it is; 3 rows of this history would be dropped",
        'late=ev.accumulate("5 minutes"), # hours: as it is; it reads tumbling("1 hour"), which this says nothing of: ask for that window',
    ]


def test_where_diverted_rows_go_is_left_as_it_stands_in_the_pipeline() -> None:
    for late, written in ((ev.divert(), "divert()"), (ev.divert(ev.parquet("late")), "divert(…)")):
        assert lines_for(ev.ascending(), "at", late)[1].startswith(f"late=ev.{written},  # n: as it is; 3 rows")
