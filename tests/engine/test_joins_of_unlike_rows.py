"""Law 10 where rows are unlike those of any sane stream: keys that are no number or several columns, spans without end, sources that never speak."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from inline import run_engine
from test_joins_equal_oracle import EXAMPLES, Beside, engine_of

from eventide.model.event import Event
from eventide.model.graph import HOWS, Between, Graph, Join, Node, Reading, Rows
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.time import EARLIEST, LATEST, LONGEST
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.testing.streams import Stream, generate, merged, tailed_delay

UNLIKE: dict[str, pl.DataType] = {"user": pl.String(), "value": pl.Int64(), "f": pl.Float64(), "id": pl.String()}
COLUMNS = (("user", "string"), ("value", "bigint"), ("f", "double"), ("id", "string"))
ON = ((("user", "user"),), (("user", "user"), ("value", "value")), (("f", "f"),), (("value", "value"),), (("user", "id"),))
BEGINS = (0, 0, -37, EARLIEST + 300, LATEST - 2_000)


def unlike(rng: random.Random) -> tuple[Graph, list[Event]]:
    """A join of any kind and reach over one to three sources, some of which may be empty, and their rows."""
    itself, begins, users = (
        rng.random() < 0.25,
        rng.choice(BEGINS),
        rng.choice([("a",), ("a", "a", "b", None), ("x", None, None)]),
    )
    lo = rng.choice([rng.randint(-30, 30), 0, -LONGEST, 5, -20])
    between = Between(lo, max(lo, rng.choice([lo, lo + rng.randint(0, 20), 0, LONGEST])))
    within = rng.choice([between, between, Sliding(7, 7, 3), Sliding(1, 1), Sliding(LONGEST, LONGEST)])
    sides = [Rows("l", (0,), COLUMNS, rng.choice([None, None, 10, 1]))]
    if not itself:
        sides.append(Rows("r", rng.choice([(1,), (1, 2)]), COLUMNS, rng.choice([None, None, 10])))
    join = Join("pairs", "l", sides[-1].name, rng.choice(ON), within, rng.choice(HOWS), rng.choice([0, 0, 1, 15, 40, LONGEST]),
                ("l_", "r_"), rng.random() < 0.5)  # fmt: skip
    sources = tuple(_source(rng) for side in sides for _ in side.sources)
    nodes: tuple[Node, ...] = (*sides, join)
    graph = Graph(sources, nodes, (Reading("pairs", OutputPlan("out", join.allowed)),), rng.choice(["hold", "advance"]))
    return graph, merged(*(_rows(rng, place, graph, begins, users) for place in range(len(sources)) if rng.random() < 0.9))


def _source(rng: random.Random) -> SourcePlan:
    lanes = tuple(map(str, range(rng.randint(0, 3))))
    return SourcePlan(Bounded(rng.choice([0, 0, 3, 8, 50])), lanes, rng.choice([None, None, 1, 6, 20]))


def _rows(rng: random.Random, place: int, graph: Graph, begins: int, users: tuple[str | None, ...]) -> list[Event]:
    stream = Stream(
        lanes=max(1, len(graph.sources[place].lanes)), rows=rng.choice([3, 8, 14]), uneven=rng.random() < 0.5, pace=rng.choice([1, 3, 6]),
        delay=tailed_delay(rng.choice([0, 3]), rng.random() * 0.7, rng.choice([5, 35, 90])), silence=rng.choice([0, 0.1, 0.3]),
        burst=rng.choice([0, 0.2, 0.9]), skew=rng.choice([0, 0, 25]), duplicates=0.15, nulls=0.2, keys=users, dead=0.05,
        start=begins + rng.choice([0, 40]),
    )  # fmt: skip
    made = generate(stream, rng.randrange(2**32), place)
    return [
        replace(e, row={**e.row, "user": e.key, "f": rng.choice([math.nan, 0.0, 1.5, None]), "id": e.dedupe_key}) for e in made
    ]


@EXAMPLES
@given(st.integers(0, 2**32))
def test_whatever_the_rows_are_like_the_table_is_the_oracles_after_every_batch(seed: int) -> None:
    rng = random.Random(seed)
    graph, events = unlike(rng)
    clocks = sorted(rng.choice([e.arrival for e in events] or [0]) + rng.choice([0, 0, 1, 7]) for _ in range(rng.randint(0, 8)))
    with tempfile.TemporaryDirectory() as root:
        engine = engine_of(graph, root, rng.choice([1, 2, 3]), UNLIKE)
        run_engine(engine, events, clocks, rng, Beside(graph, events).agrees, again=0.1)
