"""A pipeline that contradicts itself is refused where it is written, with what to write instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eventide.errors import DefinitionError
from eventide.model import aggregate
from eventide.model.graph import LEFT, Aggregation, Between, Graph, Join, Node, Reading, Results, Rows
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import DISCARDING
from eventide.model.soundness import check
from eventide.model.time import LONGEST
from eventide.model.view import View
from eventide.model.watermark import Ascending
from eventide.model.window import Session, Sliding

SOURCE = SourcePlan(Ascending(), ("0",))
COLUMNS = (("user", "string"), ("value", "bigint"))
ROWS = Rows("rows", (0,), COLUMNS)
MINUTES = Aggregation("minutes", "rows", Sliding(60, 60), ("user",), (("n", aggregate.count()), ("t", aggregate.sum("value"))))
RESULTS = Results("minute results", "minutes", 30)
HOURS = Aggregation("hours", "minute results", Sliding(3600, 3600), ("user",), (("n", aggregate.sum("n")),))
OUT = OutputPlan("out", 30)
PAIR = Join("pairs", "l", "r", (("user", "user"),), Between(0, 5), prefix=("l_", "r_"))
SIDES = (Rows("l", (0,), COLUMNS), Rows("r", (1,), COLUMNS))


def chain(*nodes: Node, of: str = "hours", output: OutputPlan = OUT) -> Graph:
    return Graph((SOURCE,), nodes, (Reading(of, output),))


def join(made: Join, *more: Node, sides: tuple[Rows, ...] = SIDES, of: str = "pairs") -> Graph:
    return Graph((SOURCE, SOURCE), (*sides, made, *more), (Reading(of, OutputPlan("out")),))


def test_what_is_sound_is_taken() -> None:
    check(chain(ROWS, MINUTES, RESULTS, HOURS))
    check(join(PAIR))
    assert Oracle(join(PAIR)).panes == []


REFUSED: dict[str, tuple[Graph, str]] = {
    "sessions over results": (
        chain(ROWS, MINUTES, RESULTS, replace(HOURS, window=Session(60))),
        "would split when a result is withdrawn. Use tumbling",
    ),
    "an aggregate by arrival over results": (
        chain(ROWS, MINUTES, RESULTS, replace(HOURS, aggregates=(("n", aggregate.first("n", by="arrival")),))),
        "a result does not arrive",
    ),
    "discarding over results that can change": (
        chain(ROWS, MINUTES, RESULTS, HOURS, output=OutputPlan("out", 0, DISCARDING)),
        "can change for 30 µs",
    ),
    "discarding what does not add up": (
        chain(ROWS, replace(MINUTES, aggregates=(("m", aggregate.median("value")),)), of="minutes",
              output=OutputPlan("out", 0, DISCARDING)),
        "deltas of exact_quantile",
    ),
    "a cycle": (
        chain(ROWS, replace(MINUTES, of="hour results"), RESULTS, HOURS, Results("hour results", "hours")),
        "minutes reads hour results reads hours reads minute results reads minutes: a cycle",
    ),
    "a name twice": (chain(ROWS, MINUTES, RESULTS, replace(HOURS, name="minutes")), "are called 'minutes'"),
    "nothing of that name": (chain(ROWS, replace(MINUTES, of="row"), of="minutes"), "nothing is called 'row'"),
    "results without how late": (chain(ROWS, MINUTES, replace(HOURS, of="minutes")), "results\\(late="),
    "an output of bare results": (chain(ROWS, MINUTES, RESULTS, HOURS, of="minute results"), "which is Results"),
    "results of rows": (chain(ROWS, Results("x", "rows"), MINUTES, of="minutes"), "it can read Aggregation only"),
    "an unknown key": (chain(ROWS, replace(MINUTES, keys=("usr",)), of="minutes"), "no column 'usr'.*user, value"),
    "an unknown column": (
        chain(ROWS, replace(MINUTES, aggregates=(("s", aggregate.sum("v", where="user = 'a'")),)), of="minutes"), "no column 'v'"),
    "an unknown column in where": (
        chain(ROWS, replace(MINUTES, aggregates=(("s", aggregate.sum("value", where="kind = 1")),)), of="minutes"), "column 'kind'"),
    "a column that the view took away": (
        chain(ROWS, MINUTES, replace(RESULTS, view=View().select(mean="t / n")), HOURS), "no column 'n'.*mean"),
    "an unknown column in a view between": (
        chain(ROWS, MINUTES, replace(RESULTS, view=View().where("m > 1")), HOURS), "no column 'm'"),
    "an aggregate called like a key": (
        chain(ROWS, replace(MINUTES, aggregates=(("user", aggregate.count()),)), of="minutes"), "already has 'user'"),
    "a window too long": (chain(ROWS, replace(MINUTES, window=Sliding(LONGEST + 1, 1)), of="minutes"), "the longest span"),
    "windows too long together": (
        chain(ROWS, replace(MINUTES, window=Sliding(LONGEST, LONGEST)), RESULTS, HOURS), "sum of its windows.*the longest span"),
    "a gap too long": (chain(ROWS, replace(MINUTES, window=Session(LONGEST + 1)), of="minutes"), "the longest span"),
    "too much lateness": (chain(ROWS, MINUTES, of="minutes", output=OutputPlan("out", LONGEST + 1)), "the longest span"),
    "too much lateness below": (chain(ROWS, MINUTES, replace(RESULTS, allowed=LONGEST + 1), HOURS), "the longest span"),
    "two streams side by side": (
        Graph((SOURCE, SOURCE), (*SIDES, replace(MINUTES, of="l")), (Reading("minutes", OUT),)), "make another pipeline"),
    "an aggregation of one side of a join": (join(PAIR, replace(MINUTES, of="l")), "Make another pipeline"),
    "windows over an outer join": (
        join(replace(PAIR, how=LEFT), replace(MINUTES, of="pairs", aggregates=(("n", aggregate.count()),))), "over inner joins only"),
    "two columns of one name": (
        join(replace(PAIR, prefix=("", ""))), "both sides have a column 'value'. Write prefix=\\('l_', 'r_'\\).*'l_value'"),
    "bounds the wrong way round": (join(replace(PAIR, within=Between(5, 0))), "other way round"),
    "a bound too far": (join(replace(PAIR, within=Between(0, LONGEST + 1))), "the longest span"),
    "keys of different types": (
        join(PAIR, sides=(SIDES[0], replace(SIDES[1], columns=(("user", "bigint"), ("value", "bigint"))))),
        "'user' is string on the left, 'user' is bigint on the right"),
    "an unknown key of a join": (join(replace(PAIR, on=(("user", "usr"),))), "right side: there is no column 'usr'"),
    "no key": (join(replace(PAIR, on=())), "pair every row with every other"),
    "another kind of join": (join(replace(PAIR, how="cross")), "inner, left, right, full"),
    "sliding windows of a join": (join(replace(PAIR, within=Sliding(10, 5))), "several sliding windows"),
    "a source that nobody reads": (Graph((SOURCE, SOURCE), (ROWS, MINUTES), (Reading("minutes", OUT),)), "must be read once"),
    "a view of pairs": (
        replace(join(PAIR), outputs=(Reading("pairs", OutputPlan("out", view=View().where("user = 'a'"))),)), "for aggregations"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_contradiction_is_refused_at_definition(case: str) -> None:
    graph, says = REFUSED[case]
    with pytest.raises(DefinitionError, match=says):
        check(graph)
    with pytest.raises(DefinitionError):
        Oracle(graph)


def test_discarding_over_results_that_never_change_is_taken() -> None:
    check(chain(ROWS, MINUTES, replace(RESULTS, allowed=0), HOURS, output=OutputPlan("out", 0, DISCARDING)))


def test_the_right_key_may_have_another_name_and_both_stand() -> None:
    made: Any = replace(PAIR, on=(("user", "id"),), prefix=("", ""))
    sides = (SIDES[0], Rows("r", (1,), (("id", "STRING"), ("amount", "bigint"))))
    check(join(made, sides=sides))
