"""A pipeline is a plain value: a copy with one thing changed is a pipeline like any other, checked like any other."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError, fields, replace

import pytest

import eventide as ev
from eventide.definition import pipeline as definition
from eventide.definition.pipeline import Settings


def clicks(**settings: object) -> ev.Pipeline:
    source = ev.files(
        "clicks", "landing/", schema="ts timestamp, page string", event_time="ts", watermark=ev.bounded("30 seconds")
    )
    pages = source.window(ev.tumbling("1 minute"), by="page").agg(n=ev.count())
    return ev.Pipeline("clicks", pages.to("counts", late=ev.drop()), pages.to("kept", late=ev.divert()), **settings)


SETTINGS = {
    "state": "state/clicks", "when_all_idle": "advance", "buckets": 4, "generation": 3, "dead_letters": ev.sqlite("dead.db"),
    "archive": "archive/clicks", "archive_format": "delta", "measure": ["page"],
}  # fmt: skip


def test_a_copy_says_all_that_the_first_said() -> None:
    first = clicks(**SETTINGS)
    again = replace(first)
    assert type(again) is ev.Pipeline
    assert again == first and again is not first
    assert {f.name: getattr(again, f.name) for f in fields(again)} == {f.name: getattr(first, f.name) for f in fields(first)}
    assert (first.dead_letter_sink, first.measure) == (SETTINGS["dead_letters"], ("page",))


@pytest.mark.parametrize(("measure", "means"), [(False, None), (True, ()), ("page", ("page",)), (["page"], ("page",))])
def test_what_is_measured_survives_a_copy(measure: object, means: tuple[str, ...] | None) -> None:
    assert replace(clicks(measure=measure)).measure == clicks(measure=measure).measure == means


LATE, LAKE = ev.sqlite("late.db", table="late"), ev.sqlite("lake.db")


@pytest.mark.parametrize(
    ("sink", "aside", "said"),
    [
        (ev.sqlite("out.db", table="out"), None, "'one' and 'two' are both kept in 'out'"),
        (ev.delta("lake/out"), None, "'one' and 'two' are both kept in 'lake/out'"),
        (ev.parquet("lake", table="out"), None, "'one' and 'two' are both kept in 'out'"),
        (ev.kafka_topic("localhost:1", "out"), None, "'one' and 'two' are both kept in 'out'"),
        (ev.redis("redis://localhost/0", key="out"), None, "'one' and 'two' are both kept in 'out'"),
        (None, LATE, "'one_late' and 'two_late' are both kept in 'late'"),
        (LAKE, LAKE, None),
        (ev.function(print, keyed=True), ev.console(), None),
    ],
)
def test_two_outputs_are_not_kept_in_one_place(sink: object, aside: object, said: str | None) -> None:
    """Of the rows that both refuse one would stand there, and of their results those that came first."""
    pages = clicks().outputs[0].aggregation
    outputs = [
        pages.to(name, sink, late=ev.accumulate(span, refused=ev.divert(aside)))
        for name, span in [("one", "1 minute"), ("two", "2 minutes")]
    ]
    if said is None:
        ev.Pipeline("clicks", *outputs)
        return
    with pytest.raises(ev.DefinitionError, match=said):
        ev.Pipeline("clicks", *outputs)


def test_names_that_differ_in_case_alone_are_one_place() -> None:
    pages = clicks().outputs[0].aggregation
    with pytest.raises(ev.DefinitionError, match="'Pages' and 'pages' are both kept in 'pages'"):
        ev.Pipeline("clicks", *(pages.to(name, LAKE, late=ev.drop()) for name in ("Pages", "pages")))


def test_events_and_dead_letters_are_not_kept_where_late_rows_are() -> None:
    pages = clicks().outputs[0].aggregation
    late = pages.to("one", late=ev.divert(LATE))
    with pytest.raises(ev.DefinitionError, match="'one_late' and 'clicks_dead_letters' are both kept in 'late'"):
        ev.Pipeline("clicks", late, dead_letters=LATE)


def test_one_thing_changed_and_nothing_else() -> None:
    first = clicks(**SETTINGS)
    again = replace(first, state="state/again", outputs=first.outputs[:1])
    assert again.state == "state/again" and [o.name for o in again.outputs] == ["counts"]
    assert replace(again, state=first.state, outputs=first.outputs) == first
    assert first.with_generation(9) == replace(first, generation=9)


def test_a_copy_is_checked_like_the_first() -> None:
    with pytest.raises(ev.DefinitionError, match="buckets is 0"):
        replace(clicks(), buckets=0)
    with pytest.raises(ev.DefinitionError, match="has no output"):
        replace(clicks(), outputs=())
    with pytest.raises(FrozenInstanceError):
        clicks().state = "elsewhere"  # type: ignore[misc]


def test_what_will_be_lost_is_told_where_it_is_written_and_not_again_for_a_copy() -> None:
    source = ev.files(
        "clicks", "landing/", schema="ts timestamp", event_time="ts", watermark=ev.bounded("30 seconds"), idle_after="1 minute"
    )
    counts = source.window(ev.tumbling("1 minute")).agg(n=ev.count()).to("counts", late=ev.drop())
    with pytest.warns(ev.LossWarning, match="may fall idle"):
        first = ev.Pipeline("clicks", counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace(first, state="state/clicks")


def test_what_type_checkers_are_told_of_the_settings_is_what_they_are() -> None:
    told = {f.name: f.type for f in fields(definition.Pipeline)}
    assert Settings.__annotations__.keys() == told.keys() - {"name", "measure"}
    assert {name: kind.__forward_arg__ for name, kind in Settings.__annotations__.items()} == {
        name: told[name] for name in Settings.__annotations__
    }


def test_windows_of_arrival_say_so_in_the_name_of_their_time() -> None:
    by_arrival = {"schema": "page string", "watermark": ev.processing_time()}
    source = ev.files("clicks", "landing/", event_time="arrival_time", **by_arrival)
    assert str(source) == "clicks (event time arrival_time, by arrival, not by event time)"
    with pytest.raises(ev.DefinitionError, match='Say so, event_time="arrival_time"'):
        ev.files("clicks", "landing/", event_time="ts", **by_arrival)
