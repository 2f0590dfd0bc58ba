"""A stage as it is bound: the columns of results that it reads, what has no meaning there, and what of its state a batch asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline import run_engine
from test_conservation_of_joins_and_stages import ONE_LANE, Whole
from test_stages_equal_oracle import engine_of

from eventide.errors import DefinitionError
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Reading, Results, Rows
from eventide.model.plan import OutputPlan
from eventide.model.window import Sliding

BELOW = (("n", aggregate.count()), ("s", aggregate.sum("value")), ("all", aggregate.collect("value")))


def graph(*aggregates: tuple[str, Any], window: Sliding = Sliding(20, 20)) -> Graph:  # noqa: B008
    nodes = (
        Rows("rows", (0,), (("key", "string"), ("value", "bigint"))),
        Aggregation("below", "rows", Sliding(10, 10), ("key",), BELOW),
        Results("read", "below", 0),
        Aggregation("above", "read", window, (), aggregates),
    )
    return Graph((ONE_LANE,), nodes, (Reading("above", OutputPlan("out")),))


def read(*aggregates: tuple[str, Any], root: Path) -> list[str]:
    return list(engine_of(graph(*aggregates), str(root), 1).shape.above[0].kinds)


def test_a_stage_reads_the_columns_that_it_names(tmp_path: Path) -> None:
    assert read(("m", aggregate.max("s")), root=tmp_path) == ["s"]
    assert read(("m", aggregate.max("s")), ("l", aggregate.last("window_start")), root=tmp_path) == ["window_start", "s"]
    own = aggregate.aggregate(partial={"t": "SUM(n * s)"}, merge={"t": "SUM(t)"}, finish="t")
    every = ["key", "window_start", "window_end", "n", "s", "all"]
    assert read(("m", aggregate.max("s")), ("t", own), root=tmp_path) == every, "an aggregate in SQL may use any"


def test_what_has_no_sum_and_what_has_no_order_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="the column 'key' is String, which has no sum"):
        read(("t", aggregate.sum("key")), root=tmp_path)
    with pytest.raises(DefinitionError, match=r"the column 'all' is List.*nested values have no order"):
        read(("t", aggregate.max_by("n", "all")), root=tmp_path)


def test_a_result_at_the_very_start_of_a_window_is_read_when_the_window_fires(tmp_path: Path) -> None:
    """The result of [0, 10) lies at 9, where [9, 19) begins; it was written in a batch of its own, and is due after W = 18."""
    rows = (1, 10, 18, 25)
    events = [Event(n, t, "a", {"key": "a", "value": 1}, 0, "0", n) for n, t in enumerate(rows)]
    engine = engine_of(graph(("m", aggregate.max("n")), window=Sliding(10, 10, offset=9)), str(tmp_path), 1)
    run = run_engine(engine, events, list(range(len(rows))), Whole(0))
    assert [(r["window_end"], r["m"]) for r in run.panes["out"]] == [(19, 1), (29, 2), (39, 1)]
