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


def test_outputs_that_keep_apart_what_they_hold_share_a_sink() -> None:
    pages = clicks().outputs[0].aggregation
    for sink, aside in ((ev.sqlite("lake.db"), ev.sqlite("lake.db")), (ev.function(print, keyed=True), ev.console())):
        ev.Pipeline("clicks", *(pages.to(name, sink, late=ev.divert(aside)) for name in ("one", "two")))


def test_rows_that_two_outputs_refuse_never_stand_in_one_place() -> None:
    pages, late = clicks().outputs[0].aggregation, ev.sqlite("late.db", table="late")
    with pytest.raises(ev.DefinitionError, match="'one_late' and 'two_late' would stand in one place"):
        ev.Pipeline("clicks", *(pages.to(name, late=ev.divert(late)) for name in ("one", "two")))


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ev.sqlite("upi.db", table="t"), ev.sqlite("./upi.db", table="T")),
        (ev.duckdb("upi.duckdb", table="t"), ev.duckdb("upi.duckdb", table="T")),
        (ev.postgres("postgresql://db/upi", table="t"), ev.postgres("postgresql://db/upi", table="t")),
        (ev.parquet("out/", table="t"), ev.parquet("out", table="t")),
        (ev.delta("lake/t"), ev.delta("lake/t/")),
        (ev.iceberg("catalog", "sales.t"), ev.iceberg("catalog", "sales.t")),
        (ev.redis("redis://cache", key="t"), ev.redis("redis://cache", key="t")),
        (ev.kafka_topic("broker:9092", "t"), ev.kafka_topic("broker:9092", "t", format="avro", registry="http://registry")),
    ],
    ids=lambda sink: type(sink).__name__,
)
def test_two_outputs_never_stand_in_one_place(one: object, other: object) -> None:
    """Their panes have the same windows and ranks: of each pair one was taken for the other, and never seen."""
    minutes = clicks().outputs[0].aggregation
    first = minutes.to("first", one, late=ev.drop())  # type: ignore[union-attr, arg-type]
    with pytest.raises(ev.DefinitionError, match="'first' and 'second' would stand in one place"):
        ev.Pipeline("p", first, minutes.to("second", other, late=ev.drop()))  # type: ignore[union-attr, arg-type]
    with pytest.raises(ev.DefinitionError, match="'first' and 'second_late' would stand in one place"):
        ev.Pipeline("p", first, minutes.to("second", None, late=ev.divert(other)))  # type: ignore[union-attr, arg-type]
    with pytest.raises(ev.DefinitionError, match="'first' and 'p_dead_letters' would stand in one place"):
        ev.Pipeline("p", first, dead_letter_sink=other)  # type: ignore[arg-type]


def test_names_that_differ_by_case_alone_are_one_place_where_tables_have_no_case() -> None:
    minutes = clicks().outputs[0].aggregation
    outputs = [minutes.to(name, ev.sqlite("upi.db"), late=ev.drop()) for name in ("Totals", "totals")]  # type: ignore[union-attr]
    with pytest.raises(ev.DefinitionError, match="'Totals' and 'totals' would stand in one place"):
        ev.Pipeline("p", *outputs)
    ev.Pipeline("p", *(replace(output, sink=ev.parquet("out")) for output in outputs))
