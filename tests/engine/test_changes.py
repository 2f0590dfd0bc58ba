"""A definition that changed since its state was made: told where it may go on, refused with words and the command where not."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_bad_input_of_a_run import Feeding, contents

import eventide as ev
from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline as Defined
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation, Stream
from eventide.engine.changes import DefinitionChanged, check_definition, describe_definition, refuse_older
from eventide.engine.settings import FREE, NEW, PARTS, REFUSED, RULES
from eventide.pipeline import Pipeline
from eventide.sources.delta import delta_table
from eventide.sources.files import FileSource
from eventide.sources.frame import FrameSource
from eventide.sources.generated import generated
from eventide.sources.kafka import KafkaSource
from eventide.sources.mended import MendedSource
from eventide.wording import words


def test_every_setting_is_classified() -> None:
    """A field that is added to a definition must be given a rule: may it change on existing state?"""
    sources = {FileSource, KafkaSource, FrameSource, MendedSource}
    assert set(RULES) == {Defined, Output, Aggregation, Join, Stream, *sources} and set(_kinds_of(Source)) == sources
    for part, rules in RULES.items():
        assert {f.name for f in dataclasses.fields(part)} == {name for name in rules if "." not in name}, part
        for name, rule in rules.items():
            assert rule.change in (FREE, NEW, REFUSED, PARTS) and rule.why, f"{part.__name__}.{name}"


def test_the_guide_lists_every_setting_where_its_rule_puts_it() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide.md").read_text().partition("## Changing a running pipeline")[2]
    lists = {line.split("|")[1].strip(): line for line in guide.splitlines() if line.startswith("|")}
    for part, rules in RULES.items():
        for name, rule in rules.items():
            if rule.change != PARTS and not (part is FrameSource and name in ("frame", "connectors", "lanes")):
                shown = {"dead_letter_sink": "dead_letters", "topics": "topic", "late.refused": "refused"}.get(name, name)
                assert f"`{shown.replace('dedupe_keys', 'dedupe').replace('dedupe_within', 'within')}`" in lists[rule.change], (
                    name
                )


def _kinds_of(kind: type) -> list[type]:
    found = [k for k in kind.__subclasses__() if k.__module__.startswith("eventide.")]
    return found + [inner for k in found for inner in _kinds_of(k)]


def test_values_are_told_as_they_are_written() -> None:
    written = {
        'tumbling("1 minute")': ev.tumbling("1 minute"),
        'tumbling("1 hour", offset="15 minutes")': ev.tumbling("1 hour", offset="15 minutes"),
        'sliding("1 minute", "5 seconds")': ev.sliding("1 minute", "5 seconds"),
        'session("30 minutes")': ev.session("30 minutes"),
        'bounded("30 seconds")': ev.bounded("30 seconds"),
        "ascending()": ev.ascending(),
        "processing_time()": ev.processing_time(),
        'punctuated(when="m", value="v", on_regression="fail")': ev.punctuated("m", "v", "fail"),
        'custom("arrival_time")': ev.custom("arrival_time"),
        "drop()": ev.drop(),
        "divert()": ev.divert(),
        'accumulate("5 minutes", refused=divert())': ev.accumulate("5 minutes", refused=ev.divert()),
        'retract("5 minutes")': ev.retract("5 minutes"),
        'every("10 seconds")': ev.every("10 seconds"),
        "every_rows(7)": ev.every_rows(7),
        'when("n > 1")': ev.when("n > 1"),
        "per_batch()": ev.per_batch(),
        "count()": ev.count(),
        'sum("paise")': ev.sum("paise"),
        'quantile("ms", 0.95)': ev.quantile("ms", 0.95),
    }
    for text, value in written.items():
        assert words(value) == text
        names = {name: getattr(ev, name) for name in dir(ev)}
        assert eval(text, names) == value, "what is told can be pasted back"
    assert words(ev.bounded("1 day 1 hour 1 min 1 s")) != words(ev.bounded("1 day 1 hour 1 min"))


def topic(**more: Any) -> Source:
    given = {"servers": "a:9092", "topic": "t", "value": ev.json("ts timestamp, k string"), "event_time": "ts"}
    return ev.kafka("s", **{**given, "watermark": ev.bounded("1 s"), **more})


def landing(**more: Any) -> Source:
    given = {"path": "in", "schema": "ts timestamp, k string, at timestamp", "event_time": "ts", "watermark": ev.bounded("1 s")}
    return ev.files("s", **{**given, **more})


def table(**more: Any) -> Source:
    given = {"path": "t", "event_time": "ts", "watermark": ev.bounded("1 s"), "lane": "l", "offset": "o"}
    return delta_table("s", **{**given, **more})


def made(**more: Any) -> Source:
    return generated("s", watermark=ev.bounded("1 s"), **more)


def piped(source: Source, late: Any = None, **more: Any) -> Pipeline:
    minutes = source.window(ev.tumbling("1 minute"), by="k" if not isinstance(source, FrameSource) else "key").agg(n=ev.count())
    return Pipeline("p", minutes.to("out", late=late or ev.divert()), state="state", **more)


def facts_of(pipeline: Pipeline) -> dict[str, Any]:
    return describe_definition(pipeline, {}, {"s": ["0"]}, 2)


REFUSED_CHANGES: list[tuple[str, Callable[[], Pipeline], Callable[[], Pipeline]]] = [
    ("the topics", lambda: piped(topic()), lambda: piped(topic(topic=["t", "u"]))),
    ("the event time", lambda: piped(topic()), lambda: piped(topic(event_time="k"))),
    ("the arrival column", lambda: piped(landing()), lambda: piped(landing(arrival="at"))),
    ("the unit of time", lambda: piped(landing()), lambda: piped(landing(time_unit="ms"))),
    ("the lanes", lambda: piped(landing()), lambda: piped(landing(lane="directory"))),
    ("the lanes", lambda: piped(landing(lane="column:k")), lambda: piped(landing(lane="directory"))),
    ("the path", lambda: piped(landing()), lambda: piped(landing(path="elsewhere"))),
    ("the format", lambda: piped(landing()), lambda: piped(landing(format="csv"))),
    ("a source's name", lambda: piped(landing()), lambda: piped(replace(landing(), name="other"))),
    ("a source's kind", lambda: piped(landing()), lambda: piped(topic())),
    ("a table's path", lambda: piped(table()), lambda: piped(table(path="u"))),
    ("a table's lanes", lambda: piped(table()), lambda: piped(table(lane="m"))),
    ("a table's order", lambda: piped(table()), lambda: piped(table(offset="p"))),
    ("generated rows", lambda: piped(made()), lambda: piped(made(lanes=7))),
    ("deduplication", lambda: piped(landing()), lambda: _deduped("1 minute")),
    ("how long is remembered", lambda: _deduped("1 minute"), lambda: _deduped("2 minutes")),
    ("a policy", lambda: piped(landing()), lambda: piped(landing(), ev.drop())),
    ("lateness", lambda: piped(landing(), ev.retract("1 s")), lambda: piped(landing(), ev.retract("2 s"))),
    ("the buckets", lambda: piped(landing()), lambda: piped(landing(), buckets=3)),
    ("the generation", lambda: piped(landing()), lambda: piped(landing(), generation=1)),
    ("the pipeline's name", lambda: piped(landing()), lambda: _named("q")),
]


def _deduped(within: str) -> Pipeline:
    minutes = landing().dedupe("k", within=within).window(ev.tumbling("1 minute"), by="k").agg(n=ev.count())
    return Pipeline("p", minutes.to("out", late=ev.divert()), state="state")


def _named(name: str) -> Pipeline:
    pipeline = piped(landing())
    return Pipeline(name, *pipeline.outputs, state=pipeline.state)


@pytest.mark.parametrize("what, before, after", REFUSED_CHANGES, ids=[what for what, _, _ in REFUSED_CHANGES])
def test_a_change_that_the_state_cannot_follow_is_refused_with_the_command(what: str, before: Any, after: Any) -> None:
    with pytest.raises(DefinitionChanged, match=r"(?s)state in state.*Nothing was changed.*--start-over") as caught:
        check_definition(facts_of(before()), facts_of(after()), "state", 7)
    assert "Sliding(" not in str(caught.value) and "LatePolicy(" not in str(caught.value)


FREE_CHANGES: list[tuple[str, Callable[[], Pipeline], Callable[[], Pipeline]]] = [
    ("watermark of source 's'", lambda: piped(landing()), lambda: piped(landing(watermark=ev.bounded("2 s")))),
    ("idle_after of source 's'", lambda: piped(landing()), lambda: piped(landing(idle_after="1 minute"))),
    ("max_ahead of source 's'", lambda: piped(landing()), lambda: piped(landing(max_ahead=None))),
    ("files_per_batch of source 's'", lambda: piped(landing()), lambda: piped(landing(files_per_batch=3))),
    ("starting of source 's'", lambda: piped(topic()), lambda: piped(topic(starting="latest"))),
    ("servers of source 's'", lambda: piped(topic()), lambda: piped(topic(servers="b:9092"))),
    ("the when_all_idle of the pipeline", lambda: piped(landing()), lambda: piped(landing(), when_all_idle="advance")),
    ("the archive of the pipeline", lambda: piped(landing()), lambda: piped(landing(), archive="kept")),
    (
        "late.refused of output 'out'",
        lambda: piped(landing(), ev.retract("1 s")),
        lambda: piped(landing(), ev.retract("1 s", refused=ev.divert())),
    ),
]


@pytest.mark.parametrize("label, before, after", FREE_CHANGES, ids=[label for label, _, _ in FREE_CHANGES])
def test_a_change_that_is_free_is_told_and_noted_once(
    label: str, before: Any, after: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "eventide"):
        facts = check_definition(facts_of(before()), facts_of(after()), "state", 7)
    (change,) = facts["changes"]
    assert change["setting"] == label and change["after_batch"] == 7 and label in caplog.text
    caplog.clear()
    again = check_definition(facts, facts_of(after()), "state", 9)
    assert again["changes"] == [change] and not caplog.text


def test_no_password_is_noted() -> None:
    pipeline = piped(
        landing(path="s3://key:hidden@bucket/in"),
        ev.divert(ev.postgres("postgresql://u:hidden@h/d")),
        archive="s3://u:hidden@b/a",
    )
    assert "hidden" not in str(facts_of(pipeline))
    locked = topic(options={"kafka.sasl.jaas.config": "hidden"}, value=ev.avro("http://u:hidden@h", subject="t"))
    minutes = locked.window(ev.tumbling("1 s")).agg(n=ev.count())
    sink = ev.postgres("postgresql://u:hidden@h/d")
    whole = Pipeline("p", minutes.to("out", sink, late=ev.drop()), state="state", dead_letters=sink)
    assert "hidden" not in str(facts_of(whole))


def test_a_state_of_an_earlier_eventide_is_refused_with_the_command() -> None:
    with pytest.raises(DefinitionChanged, match=r"format 1, of an earlier Eventide.*--start-over"):
        refuse_older({**facts_of(piped(landing())), "format": 1}, "state")


def second(minutes: Any) -> Output:
    return minutes.to("second", late=ev.drop())


def run_on(feeding: Feeding, pipe: Pipeline, second_of_arrival: int, rows: int = 1) -> None:
    feeding.land("a", *((second_of_arrival, second_of_arrival, "x", 1) for _ in range(rows)))
    feeding.open(pipe)
    feeding.batch("a")
    feeding.run.close()


def test_an_output_that_left_does_not_come_back_under_its_name(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    both, alone = feeding.pipeline(more=[second]), feeding.pipeline()
    run_on(feeding, both, 1)
    run_on(feeding, alone, 12)
    before = contents(tmp_path / "state")
    with pytest.raises(
        DefinitionChanged, match=r"'second' left after batch 0 and comes back.*Give it a new name.*--start-over"
    ):
        feeding.open(both)
    assert contents(tmp_path / "state") == before
    run_on(feeding, feeding.pipeline(more=[lambda minutes: minutes.to("third", late=ev.drop())]), 23)
    assert feeding.rows()["in"] == 3


def test_an_output_is_answerable_for_the_rows_since_it_joined(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    run_on(feeding, feeding.pipeline(), 1, rows=5)
    run_on(feeding, feeding.pipeline(more=[second]), 12, rows=2)
    ledger = feeding.run.ledger
    assert ledger.joined["out"].total() == 0 and ledger.joined["second"]["ahead"] == 5
    assert ledger.outputs["second"]["rows_on_time"] == 2 == ledger.rows["ahead"] - ledger.joined["second"]["ahead"]


def test_lanes_that_are_told_apart_in_another_way_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    run_on(feeding, feeding.pipe, 1)
    before = contents(tmp_path / "state")
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    source = feeding.pipe.aggregation.stream.sources[0]
    for changed in (
        replace(source, lane="source"),
        replace(source, name="other"),
        replace(source, path=str(tmp_path / "copy")),
    ):
        minutes = replace(feeding.pipe.aggregation, stream=Stream((changed,)))
        outputs = (replace(o, aggregation=minutes) for o in feeding.pipe.outputs)
        with pytest.raises(DefinitionChanged, match="--start-over"):
            feeding.open(Pipeline("bad", *outputs, state=feeding.pipe.state, buckets=1))
    assert contents(tmp_path / "state") == before


def test_rows_that_wait_without_their_columns_are_judged_before_rows_are_diverted(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path)
    source = feeding.pipe.aggregation.stream.sources[0]
    minutes = source.window(ev.tumbling("10 s")).agg(n=ev.count())
    plain, side = minutes.to("out", late=ev.drop()), minutes.to("side", late=ev.divert())
    feeding.land("a", (1, 1, "x", 1), (25, 25, "x", 1), (2, 26, "x", 7))
    feeding.land("b", (1, 1, "x", 1))
    feeding.open(Pipeline("bad", plain, state=feeding.pipe.state, buckets=1))
    feeding.land("b", (24, 24, "x", 1))
    feeding.batch("a")
    feeding.run.close()
    assert feeding.run.ledger.waiting == 1
    both = Pipeline("bad", plain, side, state=feeding.pipe.state, buckets=1)
    with pytest.raises(DefinitionChanged, match=r"1 rows wait to be judged.*--until-caught-up"):
        feeding.open(both)
    feeding.open(Pipeline("bad", plain, state=feeding.pipe.state, buckets=1))
    feeding.land("b", (30, 30, "x", 1))
    feeding.batch("b")
    feeding.run.close()
    assert feeding.run.ledger.waiting == 0
    feeding.open(both).close()
