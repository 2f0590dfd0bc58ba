"""What docs/extending.md shows is run: an aggregate, a watermark strategy, a source and a sink, each added as it says there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide.kernel import aggregate as kernel
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.clock import LaneClock
from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, TIME
from eventide.kernel.kinds import KINDS
from eventide.kernel.scan import LaneCarry
from eventide.model import aggregate as model
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.statistic import OVER_VALUES
from eventide.model.window import Sliding
from eventide.sinks.base import Delivery, Sink
from eventide.sinks.shape import PaneShape
from eventide.wording import words

DOCUMENT = (Path(__file__).parents[1] / "docs/extending.md").read_text()


@pytest.fixture
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the example under a heading makes."""
    section = DOCUMENT.partition(f"## {request.param}\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.S)
    for known in (KINDS, OVER_VALUES):
        for name in ("extent",):  # put back as it was
            monkeypatch.setitem(known, name, None)
    module = ModuleType("extension")
    monkeypatch.setitem(sys.modules, "extension", module)
    exec(code, module.__dict__)
    yield module.__dict__


@pytest.mark.parametrize("shown", ["An aggregate"], indirect=True)
def test_an_aggregate(shown: dict[str, Any]) -> None:
    named = (("extent", shown["extent"]("x")),)
    values = [5, None, -2, 9, 9, None, 1]
    meant = model.compute(named[0][1], [Event(0, 0, row={"x": value}) for value in values])
    for cut in range(len(values) + 1):
        pieces = [piece for piece in (values[:cut], values[cut:]) if piece]
        parts = [kernel.partial(pl.DataFrame({"x": pl.Series(piece, dtype=pl.Int64)}), [], named) for piece in pieces]
        merged = kernel.merge(pl.concat(reversed(parts)), [], named)
        assert kernel.finish(merged, named)["extent"].to_list() == [meant] == [11]


@pytest.mark.parametrize("shown", ["A watermark strategy"], indirect=True)
def test_a_watermark_strategy(shown: dict[str, Any]) -> None:
    strategy = shown["CompleteTo"]("done_to")
    source = ev.files("clicks", "landing/", schema="ts timestamp, done_to timestamp", event_time="ts", watermark=strategy)
    assert str(source) == "clicks (event time ts, complete to done_to)" and words(strategy) == 'complete_to("done_to")'
    assert strategy.expressions == ("done_to",)

    said = [3, None, 7]
    plan = Plan((SourcePlan(strategy, ("0",)),), Sliding(4, 4), (("n", model.count()),), (OutputPlan("out"),))
    oracle = Reference(plan)
    rows = {ARRIVAL: [0, 1, 2], OFFSET: [0, 1, 2], TIME: [1, 2, 9], CANDIDATE: said, MARKER: [False] * 3}
    clock = LaneClock(BoundPlan(plan).plan.sources[0].strategy, LaneCarry(), (0, "0"))
    after = clock.run(pl.DataFrame(rows).with_columns(pl.lit(None, dtype=pl.String).alias(DEAD)))["__after"].to_list()
    for offset, candidate in enumerate(said):
        oracle.event(Event(offset, rows[TIME][offset], None, {}, 0, "0", offset, candidate))
        assert oracle.watermark == after[offset]


@pytest.mark.parametrize("shown", ["A source"], indirect=True)
def test_a_source(shown: dict[str, Any]) -> None:
    class Session:
        """Says what it is asked to open."""

        def __init__(self, *asked: str) -> None:
            self.asked = asked

        readStream = property(lambda self: self)

        def format(self, name: str) -> Session:
            return Session(*self.asked, name)

        def option(self, name: str, value: str) -> Session:
            return Session(*self.asked, f"{name}={value}")

        def load(self) -> Session:
            return self

    source = shown["ticks"]("ticks", 50, ev.ascending())
    assert source.opened(Session()).asked == ("rate", "rowsPerSecond=50")
    seconds = source.window(ev.tumbling("1 second")).agg(n=ev.count())
    assert "reads   ticks (event time timestamp, in order)" in ev.Pipeline("p", seconds.to("n", late=ev.drop())).explain()


@pytest.mark.parametrize("shown", ["A sink"], indirect=True)
def test_a_sink(shown: dict[str, Any]) -> None:
    sink = shown["DictSink"]()
    assert isinstance(sink, Sink)
    shape = PaneShape((("bank", pa.string()),), (("total", pa.int64()),))
    writer = sink.open("totals", shape)

    def panes(*rows: tuple[int, str, int]) -> list[pa.RecordBatch]:
        made = [
            {
                **dict.fromkeys(shape.schema.names),
                "window_id": "w",
                "bank": "sbi",
                "generation": 0,
                "sequence": s,
                "op": op,
                "total": t,
            }
            for s, op, t in rows
        ]
        return [pa.RecordBatch.from_pylist(made, schema=shape.schema)]

    first, second = panes((0, "insert", 5)), panes((0, "retract", 5), (1, "insert", 8))
    for delivered in (first, second, second, first):
        writer.deliver(delivered, Delivery("p", "totals", 0, 0))
    [(_, row)] = sink.results["totals"].values()
    assert (row["op"], row["total"]) == ("insert", 8)
    source = ev.generated("clicks", watermark=ev.bounded("1 second"))
    counted = source.window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert counted.to("n", sink, late=ev.retract("1 minute")).sink is sink
