"""Random streams and pipelines for the laws of views, stages and joins, each the same for its seed; and the table that panes make."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Between, Graph, Join, Node, Reading, Results, Rows
from eventide.model.oracle import Oracle
from eventide.model.pane import RETRACT, Pane
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import ACCUMULATING, RETRACTING
from eventide.model.trigger import AtExpiry, EveryRows, PerBatch, PerRow
from eventide.model.view import View
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding
from eventide.testing.streams import Stream, generate, merged, tailed_delay

EXAMPLES = settings(
    max_examples=int(os.environ.get("EVENTIDE_EXAMPLES", "100")), deadline=None, suppress_health_check=list(HealthCheck)
)
SEEDS = range(60)
"""For what is broken on purpose: so many streams must show it."""

COLUMNS = (("user", "string"), ("value", "bigint"))
GRIDS = (Sliding(10, 10), Sliding(12, 6), Sliding(20, 20, 3), Sliding(20, 5))
ALLOWED = (0, 5, 15, 40)

Table = dict[Any, dict[str, Any]]


def events(
    rng: random.Random, source: int = 0, rows: int = 12, lanes: int = 2, users: tuple[str | None, ...] = ("a", "a", "b", None)
) -> list[Event]:
    """A stream with late rows, silences and null values; its key stands in the column `user`."""
    stream = Stream(
        lanes=lanes, rows=rows, uneven=False, pace=6, delay=tailed_delay(3, 0.5, 35), silence=0.1, burst=0.2, duplicates=0.1, nulls=0.1,
        keys=users, dead=0.05,
    )  # fmt: skip
    made = generate(stream, rng.randrange(2**32), source)
    return [replace(e, row={**e.row, "user": e.key}) for e in made]


def source(rng: random.Random) -> SourcePlan:
    return SourcePlan(Bounded(rng.choice([0, 0, 3, 8])), ("0", "1"), rng.choice([None, 6, 20]))


def output(rng: random.Random, name: str, view: View | None = None, *, per_row: bool = False) -> OutputPlan:
    late = PerRow() if per_row else rng.choice([PerRow(), PerBatch(), EveryRows(2), AtExpiry()])
    early = None if per_row else rng.choice([None, EveryRows(2)])
    return OutputPlan(name, rng.choice(ALLOWED), rng.choice([ACCUMULATING, RETRACTING]), early, late, view or View())


def view_over(rng: random.Random, columns: tuple[str, ...]) -> View:
    one = rng.choice(columns)
    wheres = [f"{one} < 6", f"{one} % 2 = 0", f"{one} / ({one} - 5) > 1", f"{one} % 3 <> 1 AND window_start >= 10"]
    view = View().where(rng.choice(wheres))
    return view if rng.random() < 0.5 else view.select(**{one: f"2 * {one}", "n": "1"})


def chain(rng: random.Random, first: tuple[Any, ...] = GRIDS, stages: int | None = None, *, views: bool = True) -> Graph:
    """Stages over one stream, keys changing between them; the last has one output, corrected row by row."""
    aggregates = (("n", aggregate.count()), ("total", aggregate.sum("value")))
    nodes: list[Node] = [
        Rows("rows", columns=COLUMNS, dedupe_within=rng.choice([None, 10])),
        Aggregation("stage 0", "rows", rng.choice(first), rng.choice([("user",), ()]), aggregates),
    ]
    for number in range(1, (stages or rng.choice([2, 2, 3]))):
        before = nodes[-1]
        assert isinstance(before, Aggregation)
        view = view_over(rng, ("n", "total")) if views and number == 1 and rng.random() < 0.7 else View()
        results = Results(f"results {number}", before.name, rng.choice(ALLOWED), view)
        over = "n" if view.steps and len(view.steps) == 2 else rng.choice(["n", "total"])
        if number > 1:
            over = "m"
        keys = rng.choice([(), ("n",) if number == 1 else (), before.keys])
        computed = (
            ("m", aggregate.max(over)),
            ("all", aggregate.collect(over)),
            ("lead", aggregate.max_by("window_start", over)),
            ("k", aggregate.count(where=f"{over} > 1")),
        )
        nodes += [results, Aggregation(f"stage {number}", results.name, rng.choice(GRIDS), keys, computed)]
    return Graph((source(rng),), tuple(nodes), (Reading(nodes[-1].name, output(rng, "out", per_row=True)),))


def joined(rng: random.Random, how: str, *, itself: bool = False, above: bool = False) -> Graph:
    lo = rng.randint(-10, 6)
    within = rng.choice([Between(lo, lo + rng.randint(0, 12)), Sliding(10, 10), Between(0, 0)])
    sides = [Rows("l", (0,), COLUMNS, rng.choice([None, 10]))] + ([] if itself else [Rows("r", (1,), COLUMNS)])
    join = Join(
        "pairs", "l", sides[-1].name, (("user", "user"),), within, how, rng.choice(ALLOWED), ("l_", "r_"), rng.random() < 0.5
    )
    nodes: tuple[Node, ...] = (*sides, join)
    outputs: tuple[Reading, ...] = (Reading("pairs", OutputPlan("out", join.allowed)),)
    if above:
        over = Aggregation("over", "pairs", rng.choice([*GRIDS, Session(5)]), ("user",), (("s", aggregate.collect("l_value")),))
        nodes, outputs = (*nodes, over), (*outputs, Reading("over", OutputPlan("windows", join.allowed)))
    return Graph(tuple(source(rng) for _ in sides), nodes, outputs)


def of_join(rng: random.Random, graph: Graph) -> list[Event]:
    return merged(*(events(rng, index) for index in range(len(graph.sources))))


def apply(table: dict[Any, tuple[Any, dict[str, Any] | None]], panes: Iterable[Pane]) -> Table:
    """What a sink holds: the highest rank of each window_id, withdrawn ones as tombstones."""
    for pane in panes:
        held = table.get(pane.window_id)
        if held is None or pane.rank > held[0]:
            table[pane.window_id] = (pane.rank, None if pane.op == RETRACT else dict(pane.values))
    return {identity: values for identity, (_, values) in table.items() if values is not None}


def run(graph: Graph, rows: list[Event], engine: type[Oracle] = Oracle, batch: int = 4) -> Oracle:
    oracle = engine(graph)
    for index, event in enumerate(rows):
        oracle.event(event)
        if index % batch == batch - 1:
            oracle.look(event.arrival)
    oracle.drain()
    return oracle


class Watched(Oracle):
    """Notes W at every row that is judged."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.seen: list[tuple[int | None, Event]] = []

    def judge(self, event: Event) -> None:
        self.seen.append((self.watermark, event))
        super().judge(event)
