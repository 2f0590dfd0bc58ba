"""What docs/extending.md shows is run: an aggregate, a watermark strategy, a source and a sink, each added as it says there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from decimal import Decimal
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
from eventide.kernel.kinds import KINDS, kind_of
from eventide.kernel.scan import LaneCarry
from eventide.model import aggregate as model
from eventide.model import exact
from eventide.model.aggregate import Aggregate
from eventide.model.event import Event
from eventide.model.exact import EXACT
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
    code = re.findall(r"```python\n(.*?)```", section, re.S)
    for known in (KINDS, EXACT, OVER_VALUES):  # put back as it was
        monkeypatch.setitem(known, "extent", None)
        del known["extent"]
    module = ModuleType("extension")
    monkeypatch.setitem(sys.modules, "extension", module)
    exec(code[0], module.__dict__)
    module.__dict__["further"] = code[1:]
    yield module.__dict__


def extents(column: str, values: list[Any], kind: pl.DataType) -> set[Any]:
    """What it gives for every cut into two."""
    named = (("extent", Aggregate("extent", column)),)
    found = set()
    for cut in range(len(values) + 1):
        pieces = [piece for piece in (values[:cut], values[cut:]) if piece]
        parts = [kernel.partial(pl.DataFrame({column: pl.Series(piece, dtype=kind)}), [], named) for piece in pieces]
        merged = kernel.merge(pl.concat(reversed(parts)), [], named)
        found |= set(kernel.finish(merged, named)["extent"].to_list())
    return found


@pytest.mark.parametrize("shown", ["An aggregate"], indirect=True)
def test_an_aggregate(shown: dict[str, Any]) -> None:
    extent = shown["extent"]
    values = [5, None, -2, 9, 9, None, 1]
    meant = model.compute(extent("x"), [Event(0, 0, row={"x": value}) for value in values])
    assert extents("x", values, pl.Int64()) == {meant} == {11}
    money = [Decimal("1.10"), None, Decimal("-2.35")]
    assert extents("x", money, pl.Decimal(18, 2)) == {Decimal("3.45")}
    assert words(extent("x", where="x > 1")) == 'extent("x", where="("x" > 1)")' and extent.__doc__

    source = ev.files("clicks", "landing/", schema="ts timestamp, x int", event_time="ts", watermark=ev.bounded("1 s"))
    minutes = source.window(ev.tumbling("1 minute")).agg(spread=extent("x"))
    assert 'spread = extent("x")' in ev.Pipeline("p", minutes.to("o", late=ev.drop())).explain()
    with pytest.raises(ev.DefinitionError, match="deltas of extent"):
        minutes.to("o", late=ev.drop(), accumulation="discarding")

    exec(shown["further"][0], shown)
    assert extents("x", values, pl.Int64()) == {11} and kind_of("extent") is KINDS["extent"]


def test_every_aggregate_has_its_row_and_is_offered() -> None:
    guide = (Path(__file__).parents[1] / "docs/guide.md").read_text()
    table = guide.partition("## Aggregates\n")[2].partition("\n## ")[0]
    for name in (*model.__all__, *exact.__all__):
        assert re.search(rf"`{name}\b", table), f"{name} has no row in docs/guide.md"
        assert name in ev.__all__ and callable(getattr(ev, name))


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
