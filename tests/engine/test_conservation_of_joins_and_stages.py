"""Law 2 on both sides of a join and along a chain of stages: whatever loses or doubles a row there stops the pipeline with the numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from inline import run_engine
from test_conservation import breaks, without_one
from test_joins_equal_oracle import engine_of as engine_of_join
from test_stages_equal_oracle import engine_of as engine_of_stages

from eventide.engine.batch import bucket_task, join_task, stage_task
from eventide.engine.batch.conservation import ConservationBreach
from eventide.kernel import join as join_kernel
from eventide.kernel.judge import DISORDER, IDLENESS
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.graph import FULL, INNER, Aggregation, Between, Graph, Join, Reading, Results, Rows
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.state.store import PartKind, Store

COLUMNS = (("user", "string"), ("value", "bigint"), ("id", "string"))
ONE_LANE = SourcePlan(Bounded(0), ("0",))


def a_join(how: str = FULL, *, above: bool = False) -> tuple[Any, list[Event]]:
    """Rows of two streams in three batches: a copy, pairs, a row that is let in late, and one that is refused."""
    sides = (Rows("l", (0,), COLUMNS, 10), Rows("r", (1,), COLUMNS))
    join = Join("pairs", "l", "r", (("user", "user"),), Between(0, 5), how, 8, ("l_", "r_"))
    over = Aggregation("over", "pairs", Sliding(10, 10), ("user",), (("s", aggregate.collect("l_value")),))
    outputs = [Reading("pairs", OutputPlan("out", 8)), *([Reading("over", OutputPlan("windows", 8))] * above)]
    graph = Graph((ONE_LANE, ONE_LANE), (*sides, join, *([over] * above)), tuple(outputs))
    came = ((0, 10, "x"), (1, 12, "p"), (0, 10, "x"), (0, 20, "y"), (1, 20, "q"), (0, 19, "z"), (0, 1, "w"), (1, 30, "r"))
    offsets, events = [0, 0], []
    for arrival, (source, time, name) in enumerate(came):
        row = {"user": "a", "value": time, "id": name}
        events.append(Event(arrival, time, row=row, dedupe_key=name, source=source, lane="0", offset=offsets[source]))
        offsets[source] += 1
    return graph, events


def run_join(root: Path, how: str = FULL, *, above: bool = False) -> Any:
    graph, events = a_join(how, above=above)
    return run_engine(engine_of_join(graph, str(root), 1), events, [2, 4, 6], Whole(0))


class Whole(random.Random):
    """Every batch takes all that has arrived."""

    def choice(self, seq: Any) -> Any:
        return seq[-1]


def test_a_sound_join_balances(tmp_path: Path) -> None:
    run_join(tmp_path / "above", INNER, above=True)
    ledger = run_join(tmp_path / "full").ledger
    rows, counts = ledger.rows, ledger.outputs["out"]
    assert (rows["left_kept"], rows["left_duplicates"], rows["left_judged"], rows["left_refused"]) == (5, 1, 4, 1)
    assert rows["left_on_time"] + rows["left_admitted"] == rows["left_evicted"] == 3 and rows["left_admitted"] == 1
    assert rows["right_kept"] == rows["right_judged"] == rows["right_evicted"] == 3
    assert [counts[f"rows_{verdict}"] for verdict in ("on_time", "admitted", "refused")] == [5, 1, 1]
    assert (counts[DISORDER], counts[IDLENESS]) == (2, 0), "their own lane had gone on without them"
    assert {source: counted["late"] for source, counted in ledger.by_source.items()} == {"0": 2, "1": 0}


def written_short(kind: str, of: str | None = None, name: str = "") -> Callable[[pytest.MonkeyPatch], None]:
    """One row of what is kept of a kind, of one side or aggregation or any, or said in files of a name, is not written."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        write, table = Store.write, Store.write_table

        def lossy(self: Store, what: str, batch: int, frames: Any, **more: Any) -> Any:
            loses = what == kind and of in (None, more["aggregation"])
            return write(self, what, batch, [(b, without_one(f) if loses else f) for b, f in frames], **more)

        def short(self: Store, what: str, batch: int, part: str, rows: pl.DataFrame) -> Any:
            return table(self, what, batch, part, without_one(rows) if name and name in part else rows)

        monkeypatch.setattr(Store, "write", lossy)
        monkeypatch.setattr(Store, "write_table", short)

    return patch


def changed(module: Any, name: str, change: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: breaks(monkeypatch, module, name, change)


def one_more(what: str) -> Any:
    return lambda counts: {**counts, what: counts[what] + 1}


LOSSES = {
    "a row that waits is not written": (written_short("rows"), "rows of the left side that wait to be judged"),
    "a row that is kept is not written": (written_short("side"), "side let in: .*kept . let go"),
    "a pair is not written": (written_short("", name="-pairs-"), "pairs that match: .*pairs in the files of output 'out'"),
    "a pair does not come to the windows over it": (written_short("firsts", "1"), "pairs that match: .*pairs judged by windows"),
    "a row is judged that never waited": (
        changed(join_task, "swept_rows", lambda rows: pl.concat([rows, rows.head(1)])), "side waiting: .*beyond the sweep",
    ),
    "a verdict is counted twice": (changed(join_kernel, "_counted", one_more("refused")), "side judged: .*let in . refused"),
}  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_on_a_side_of_a_join_stops_the_batch(loss: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    patch, says = LOSSES[loss]
    patch(monkeypatch)
    with pytest.raises(ConservationBreach, match=r"batch \d+: .*(" + says + ")"):
        run_join(tmp_path, INNER, above=True)


def run_stages(root: Path, after: Any = lambda out: None) -> Any:
    """Rows in tens, and in twenties above the most of those that have as many; two late rows change how many there are. The key is null."""
    tens = Aggregation("tens", "rows", Sliding(10, 10), ("key",), (("n", aggregate.count()),))
    over = Aggregation("over", "read", Sliding(20, 20), ("key", "n"), (("most", aggregate.max("n")),))
    nodes = (Rows("rows", (0,), (("key", "string"), ("value", "bigint"))), tens, Results("read", "tens", 20), over)
    graph = Graph((ONE_LANE,), nodes, (Reading("over", OutputPlan("out", 30)), Reading("over", OutputPlan("strict"))))
    times = (1, 2, 11, 25, 3, 12, 60)
    events = [Event(n, t, None, {"key": None, "value": 1}, 0, "0", n) for n, t in enumerate(times)]
    return run_engine(engine_of_stages(graph, str(root), 1), events, [2, 3, 4, 5], Whole(0), after)


@pytest.mark.parametrize(("compacted_above", "parts"), [(8, [1, 2, 3, 4, 0]), (1, [1, 2, 2, 2, 0])])
def test_sound_stages_balance(compacted_above: int, parts: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stage_task, "COMPACT_ABOVE", compacted_above)
    held: list[int] = []
    run = run_stages(tmp_path, lambda out: held.append(sum(p.kind == PartKind.STANDING for p in out.ledger.parts)))
    assert held == parts
    counts = run.ledger.outputs
    withdrawn = [[counts[name][f"withdrawals_{what}"] for what in ("offered", "applied", "refused")] for name in counts]
    assert withdrawn == [[2, 2, 0], [2, 0, 2]]
    said = {
        name: sorted((r["window_end"], r["n"], r["sequence"], r["op"], r["timing"], r["most"]) for r in run.panes[name])
        for name in counts
    }
    on_time = [(20, 1, 0, "insert", "on_time", 1), (20, 2, 0, "insert", "on_time", 2)]
    after = [(40, 1, 0, "insert", "on_time", 1), (80, 1, 0, "insert", "on_time", 1)]
    late = [(20, 1, 0, "retract", "late", 1), (20, 2, 0, "retract", "late", 2), (20, 2, 1, "insert", "late", 2)]
    assert said == {"out": sorted([*on_time, *late, (20, 3, 0, "insert", "late", 3), *after]), "strict": [*on_time, *after]}
    assert [counts[name]["panes"] for name in counts] == [8, 4]


STAGE_LOSSES = {
    "a change does not come to the stage": (written_short("standing"), "changes of results handed on"),
    "a withdrawal is refused twice": (changed(stage_task, "withdrawals", one_more("withdrawals_refused")), "withdrawals offered"),
    "a row has no way into the stage": (
        changed(bucket_task, "ways_of", lambda ways: [c.subtract(on_time=1) for c in ways.verdicts.values()] and ways),
        "pairs of row and window judged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("loss", STAGE_LOSSES)
def test_a_loss_between_stages_stops_the_batch(loss: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    patch, says = STAGE_LOSSES[loss]
    patch(monkeypatch)
    with pytest.raises(ConservationBreach, match=r"batch \d+: .*(" + says + ")"):
        run_stages(tmp_path)


def test_a_merge_of_changes_that_loses_one_stops_the_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stage_task, "COMPACT_ABOVE", 1)
    breaks(monkeypatch, stage_task, "compacted", without_one)
    with pytest.raises(ConservationBreach, match="merged part"):
        run_stages(tmp_path)
