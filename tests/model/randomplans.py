"""Random pipelines and streams for the laws that hold for every window, sessions included."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, DISCARDING, RETRACTING
from eventide.model.reference import Reference
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Ascending, Bounded
from eventide.model.window import Session, Sliding
from eventide.testing.streams import Stream, exponential_delay, generate, tailed_delay, uniform_delay

FIVE_HUNDRED = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))

AGGREGATES = (
    ("values", aggregate.collect("value")),
    ("total", aggregate.sum("value")),
    ("n", aggregate.count()),
)

windows = st.sampled_from([Sliding(10, 10), Sliding(20, 20, 3), Sliding(20, 5), Sliding(30, 20), Session(4), Session(15)])
early_triggers = st.sampled_from([None, None, Every(3), After(4), EveryRows(3), When("n >= 4")])
late_triggers = st.sampled_from([PerBatch(), PerRow(), EveryRows(2), After(5), Every(4), AtExpiry()])
allowances = st.sampled_from([0, 3, 12, 60])
accumulations = st.sampled_from([ACCUMULATING, RETRACTING, DISCARDING])


@st.composite
def outputs(draw: st.DrawFn, name: str = "out") -> OutputPlan:
    return OutputPlan(name, draw(allowances), draw(accumulations), draw(early_triggers), draw(late_triggers))


@st.composite
def plans(draw: st.DrawFn, most_outputs: int = 3) -> Plan:
    number = draw(st.integers(1, most_outputs))
    return Plan(
        sources=(
            SourcePlan(draw(st.sampled_from([Bounded(0), Bounded(5), Bounded(12), Ascending()])), ("0", "1"), draw(idle)),
        ),
        window=draw(windows),
        aggregates=AGGREGATES,
        outputs=tuple(draw(outputs(f"out {index}")) for index in range(number)),
        dedupe_within=draw(st.sampled_from([None, None, 15])),
        when_all_idle=draw(st.sampled_from(["hold", "advance"])),
    )


idle = st.sampled_from([None, 5, 20])


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    stream = Stream(
        lanes=draw(st.integers(1, 3)),
        rows=draw(st.sampled_from([4, 20, 40])),
        pace=draw(st.sampled_from([1, 3])),
        delay=draw(st.sampled_from([uniform_delay(4), tailed_delay(4, 0.3, 60), exponential_delay(6, 40)])),
        burst=draw(st.sampled_from([0.0, 0.3])),
        silence=draw(st.sampled_from([0.0, 0.1])),
        duplicates=draw(st.sampled_from([0.0, 0.2])),
        dead=draw(st.sampled_from([0.0, 0.1])),
        markers=draw(st.sampled_from([0.0, 0.1])),
        nulls=draw(st.sampled_from([0.0, 0.1])),
    )
    return generate(stream, draw(st.integers(0, 2**32)))


def run(plan: Plan, events: list[Event], batch: int = 5, drain: bool = True) -> Reference:
    """All events in batches of this many rows, the batch clock following the arrivals."""
    engine = Reference(plan)
    for index, event in enumerate(events):
        engine.event(event)
        if index % batch == batch - 1:
            engine.look(event.arrival)
    if drain:
        engine.drain()
    return engine


def only(plan: Plan, *outputs: OutputPlan) -> Plan:
    return replace(plan, outputs=outputs)
