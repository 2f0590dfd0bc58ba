"""Events in, expected results out: by hand, at the edges, and refused where an engine is needed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import eventide as ev
from eventide.errors import DefinitionError
from eventide.testing import answers

DAY = "2026-04-25T"


def source(name: str = "checkouts", **settings: Any) -> Any:
    given: dict[str, Any] = {"watermark": ev.bounded("60 seconds"), **settings}
    return ev.files(
        name,
        "landing",
        schema="at timestamp, came timestamp, who string, cents bigint",
        event_time="at",
        arrival="came",
        **given,
    )


def row(at: str, came: str, cents: int = 0, **more: Any) -> dict[str, Any]:
    return {"at": f"{DAY}{at}Z", "came": f"{DAY}{came}Z", "who": "a", "cents": cents, **more}


def pipeline(stream: Any, late: Any = None, **output: Any) -> Any:
    totals = stream.window(ev.tumbling("5 minutes"), by="who").agg(cents=ev.sum("cents"))
    return ev.Pipeline("p", totals.to("totals", late=late or ev.accumulate("60 minutes"), **output))


ROWS = [
    row("09:02:14", "09:02:18", 100), row("09:03:55", "09:04:30", 200), row("09:06:01", "09:06:02"), row("09:33:59", "09:34:00"),
    row("09:02:14", "09:34:00.5", 50), row("11:14:59", "11:15:00"), row("09:02:14", "11:15:00.5", 75),
]  # fmt: skip
"""Two in time, one half an hour late, one two hours late; the others move the watermark as a clock would."""


def test_a_late_row_corrects_and_a_very_late_one_is_refused() -> None:
    said = answers(pipeline(source(), late_firing=ev.per_row()), ROWS)
    first = [pane for pane in said.panes("totals") if pane["window_start"] == datetime(2026, 4, 25, 9, 0, tzinfo=UTC)]
    assert [(pane["cents"], pane["sequence"], pane["timing"]) for pane in first] == [(300, 0, "on_time"), (350, 1, "late")]
    assert said.table("totals")[0]["cents"] == 350
    assert [late["cents"] for late in said.late("totals")] == [75]
    assert said.counts("totals") == {"on_time": 5, "admitted": 1, "refused": 1}


def test_without_drain_open_windows_stay_open() -> None:
    assert answers(pipeline(source()), ROWS[:2], drain=False).table("totals") == []


def test_the_slowest_lane_holds_and_the_slower_source_too() -> None:
    lanes = [
        row("09:01:00", "09:01:01", 1, _lane="slow"),
        row("09:20:00", "09:20:01", 2, _lane="fast"),
        row("09:02:00", "09:20:02", 4, _lane="slow"),
    ]
    assert answers(pipeline(source()), lanes).counts("totals") == {"on_time": 3}
    two = pipeline(ev.merge(source("a"), source("b")))
    told = {"a": [row("09:20:00", "09:20:01", 2)], "b": [row("09:01:00", "09:01:01", 1), row("09:02:00", "09:20:02", 4)]}
    assert answers(two, told).counts("totals") == {"on_time": 3}


def test_of_no_rows_nothing_is_said() -> None:
    said = answers(pipeline(source()), [])
    assert (said.table("totals"), said.panes("totals"), said.late("totals"), said.counts("totals")) == ([], [], [], {})


def test_duplicates_count_once_and_a_row_without_a_time_not_at_all() -> None:
    stream = source().dedupe("cents", within="1 hour")
    rows = [row("09:01:00", "09:01:01", 7), row("09:01:05", "09:01:06", 7), {**row("09:01:00", "09:01:07", 9), "at": None}]
    assert [one["cents"] for one in answers(pipeline(stream), rows).table("totals")] == [7]


def test_an_absurd_time_moves_no_watermark() -> None:
    rows = [
        row("09:01:00", "09:01:01", 1),
        {**row("09:01:00", "09:01:02"), "at": "2031-01-01T00:00:00Z"},
        row("09:02:00", "09:02:01", 2),
    ]
    assert answers(pipeline(source()), rows).counts("totals") == {"on_time": 2}


@pytest.mark.parametrize(
    ("made", "rows", "said"),
    [
        (lambda: pipeline(source().transform(lambda df: df)), [], "transforms"),
        (lambda: pipeline(source(watermark=ev.custom("at"))), [], "custom"),
        (lambda: pipeline(source()), {"clicks": []}, "no source 'clicks'. It has checkouts"),
        (lambda: pipeline(source()), [{**row("09:01:00", "09:01:01"), "at": datetime(2026, 4, 25)}], "zone|naive"),  # noqa: DTZ001
    ],
    ids=["a transform", "a computed watermark", "another source", "a time without a zone"],
)
def test_what_it_cannot_know_is_refused_by_name(made: Any, rows: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        answers(made(), rows)
