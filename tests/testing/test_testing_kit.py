"""The kit itself: clock, source, sink, streams and the reading of transcripts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DefinitionError, EventideError
from eventide.model.event import Event, end_of
from eventide.model.pane import Pane
from eventide.model.sweep import BEFORE_ALL
from eventide.sinks.base import Delivery, PaneWriter, Sink
from eventide.sinks.shape import PaneShape
from eventide.testing import (
    ManualClock,
    MemorySink,
    MemorySource,
    OutsideTheModel,
    Stream,
    UnknownEngine,
    generate,
    merged,
    pane_batch,
    replay,
    translate,
)
from eventide.testing.streams import exponential_delay, tailed_delay

SHAPE = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()),))
DELIVERY = Delivery("pipeline", "out", 0, 0)


def pane(sequence: int, total: int, op: str = "insert", bank: str = "a", generation: int = 0) -> Pane:
    return Pane("out", (0, 60), bank, sequence, op, "late", {"total": total}, generation)


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(5)
    assert clock() == clock() == 5
    clock.advance("1 s")
    assert clock() == 1_000_005
    with pytest.raises(DefinitionError):
        clock.advance("-1 s")


def test_a_lane_is_read_to_the_clock_only_when_its_end_was_reached() -> None:
    source = MemorySource([Event(arrival, 0, offset=arrival) for arrival in (1, 2, 9)], lanes=[(0, "0"), (0, "quiet")])
    lane = (0, "0")
    assert source.read_to(lane, 5) == BEFORE_ALL and source.read_to((0, "quiet"), 5) == end_of(5)
    assert [event.arrival for event in source.take(lane, 5, limit=1)] == [1]
    assert source.backlog(lane, 5) and source.read_to(lane, 5) == (1, 0, "0", 1)
    assert [event.arrival for event in source.take(lane, 5)] == [2]
    assert source.read_to(lane, 5) == end_of(5) and source.take(lane, 5) == []


def test_the_memory_sink_is_a_sink_that_keeps_the_highest_rank() -> None:
    sink = MemorySink()
    assert isinstance(sink, Sink)
    writer: PaneWriter = sink.open("out", SHAPE)
    panes = [pane(0, 10), pane(0, 10, "retract"), pane(1, 15), pane(0, 3, bank="b"), pane(0, 3, "retract", bank="b")]
    for _ in range(20):
        again = panes * 2
        random.Random(_).shuffle(again)
        writer.deliver([pane_batch(again, SHAPE)], DELIVERY)
        if _ > 5:
            assert [(row["bank"], row["total"]) for row in sink.rows("out")] == [("a", 15)]
    writer.deliver([pane_batch([pane(0, 99, generation=1)], SHAPE)], DELIVERY)
    assert [row["total"] for row in sink.rows("out")] == [99]
    assert sink.rows("nothing yet") == [] and len(sink.deliveries) == 21
    writer.close()


def test_deltas_are_added_up_once_each_and_a_new_generation_begins_anew() -> None:
    sink = MemorySink()
    shape = PaneShape(SHAPE.keys, SHAPE.values, "discarding")
    writer = sink.open("out", shape)
    for _ in range(2):
        writer.deliver([pane_batch([pane(0, 10), pane(1, 5)], shape)], DELIVERY)
    assert [row["total"] for row in sink.rows("out")] == [15]
    writer.deliver([pane_batch([pane(0, 7, generation=1)], shape)], DELIVERY)
    assert [row["total"] for row in sink.rows("out")] == [7]


def test_a_log_keeps_one_copy_of_each_row() -> None:
    sink = MemorySink()
    schema = pa.schema([("offset", pa.int64()), ("why", pa.string())])
    log = sink.open_log("late", schema, ("offset",))
    for _ in range(2):
        log.append([pa.RecordBatch.from_pylist([{"offset": 1, "why": "late"}], schema=schema)], DELIVERY)
    log.close()
    assert list(sink.logs["late"].values()) == [{"offset": 1, "why": "late"}]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_generated_stream_is_the_same_for_a_seed_and_in_order_within_each_lane(
    seed: int, dead: float, duplicates: float, silence: float
) -> None:
    stream = Stream(rows=20, delay=tailed_delay(3, 0.1, 50), dead=dead, duplicates=duplicates, silence=silence, burst=0.2)
    events = generate(stream, seed)
    assert events == generate(stream, seed)
    assert [event.position for event in events] == sorted(event.position for event in events)
    for lane in {event.lane_id for event in events}:
        own = [event for event in events if event.lane_id == lane]
        assert [event.offset for event in own] == list(range(len(own)))


def test_streams_can_be_made_of_every_trouble() -> None:
    trouble = Stream(
        lanes=2, rows=300, uneven=False, delay=exponential_delay(5, 30), dead=0.1, nulls=0.1, markers=0.1, duplicates=0.1,
        candidates=True, regress=0.2, skew=40, silence=0.05, bound=5,
    )  # fmt: skip
    events = merged(generate(trouble, 1), generate(trouble, 2, source=1))
    assert {event.source for event in events} == {0, 1}
    assert any(event.dead for event in events) and any(event.marker for event in events)
    assert any(event.row.get("value", 0) is None for event in events)
    keys = [event.dedupe_key for event in events if event.broken is None and not event.marker]
    assert len(keys) > len(set(keys))
    lag = {
        lane: [e.arrival - e.event_time for e in events if e.lane == lane and e.broken is None and not e.marker]
        for lane in "01"
    }
    assert min(lag["1"]) >= 40 > min(lag["0"])


def test_an_engine_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownEngine, match="reference"):
        replay({"window": {"kind": "fixed", "size": 10}, "steps": []}, engine="abacus")
    assert issubclass(UnknownEngine, EventideError) and issubclass(OutsideTheModel, EventideError)


FIXED = {"kind": "fixed", "size": 10}


@pytest.mark.parametrize(
    "case",
    [
        {"window": {"kind": "global"}, "steps": []},
        {"window": {"kind": "fixed"}, "steps": []},
        {"window": {"kind": "fixed", "size": 0}, "steps": []},
        {"window": {"kind": "session", "gap": True}, "steps": []},
        {"window": {"kind": "sliding", "size": 10, "slide": 11}, "steps": []},
        {"window": FIXED, "steps": [{"sleep": 3}]},
        {"window": FIXED, "steps": [{"watermark": 5}], "trigger": "purging_count:3"},
        {"window": FIXED, "steps": [], "trigger": "count:0"},
        {"window": FIXED, "steps": [], "trigger": {"kind": "repeat"}},
        {"window": FIXED, "steps": [], "trigger": {"early": {"count": 0}, "late": None}},
        {"window": FIXED, "steps": [], "trigger": {"early": {"event_every": 5}, "late": None}},
        {"window": FIXED, "steps": [], "trigger": {"early": {"any": [1], "count": 2}, "late": None}},
        {"window": FIXED, "steps": [], "accumulation": "forgetful"},
    ],
)
def test_what_the_model_has_no_words_for_is_refused_not_replayed_as_something_else(case: dict) -> None:
    with pytest.raises(OutsideTheModel):
        translate(case)


def test_a_restored_replay_goes_on_from_a_snapshot() -> None:
    steps = [{"elements": [1]}, {"watermark": 10}, {"elements": [2]}, {"watermark": 30}]
    case = {"window": FIXED, "allowed_lateness": 5, "steps": steps}
    plain = replay(case)["panes"]
    restored = replay({**case, "steps": [s for step in steps for s in (step, {"checkpoint_restore": True})]})["panes"]
    assert [{**p, "after_step": p["after_step"] // 2} for p in restored] == plain
