"""Stages in a pipeline, through the engine's own Run: restarts, a batch that is run again, changes, refusals, sinks."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from feeding import Feeding

import eventide as ev
from eventide.cli.closing import committed, where_rows_went
from eventide.engine.changes import DefinitionChanged


class Busiest(Feeding):
    """Payments counted for each bank in tens of seconds; above, the most in a minute, by how many there were, and the sum of all."""

    def staged(self, *, stages: int = 2, below: bool = True, late: str = "30 s") -> ev.Pipeline:
        read = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s")
        )
        tens = read.window(ev.tumbling("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        sink = ev.sqlite(str(self.root / "out.db"))
        written = [tens.to("tens", sink, late=ev.accumulate("20 s"))] * below
        minutes = tens.results(late=ev.accumulate(late)).where("total > 2").window(ev.tumbling("1 minute"), by="n")
        most = minutes.agg(most=ev.max("total"), banks=ev.collect("bank"))
        written += [most.to("most", sink, late=ev.accumulate("30 s"))] * (stages > 0)
        twice = most.results(late=ev.drop()).window(ev.sliding("2 minutes", "1 minute")).agg(all=ev.sum("most"))
        written += [twice.to("twice", sink, late=ev.drop())] * (stages > 1)
        return ev.Pipeline("staged", *written, state=str(self.root / "state"), buckets=2)

    def table(self, name: str, columns: str) -> list[Any]:
        with sqlite3.connect(self.root / "out.db") as there:
            return sorted(there.execute(f"SELECT {columns} FROM {name}").fetchall(), key=str)


#        (event time, arrival, bank, paise): the fifth makes a's first ten seconds two payments of 6, not one of 5, after their end
ROWS = ((1, 1, "a", 5), (2, 2, "b", 7), (9, 9, "b", 1), (21, 21, "a", 2), (3, 22, "a", 1), (70, 70, "b", 8), (150, 150, "b", 8))


def run_through(feeding: Busiest, pipe: ev.Pipeline, rows: Any = ROWS) -> None:
    for row in rows:
        feeding.land("x", row)
        feeding.open(pipe)  # a restart before each batch
        feeding.batch("x")
        feeding.run.close()


def test_a_late_row_corrects_every_stage(tmp_path: Path) -> None:
    feeding = Busiest(tmp_path)
    run_through(feeding, feeding.staged())
    assert feeding.table("tens", "bank, n, total") == [("a", 1, 2), ("a", 2, 6), ("b", 1, 8), ("b", 2, 8)]
    found = feeding.table("most", "n, most, banks")
    assert [(n, most) for n, most, _ in found] == [(1, 8), (2, 8)]
    assert feeding.table("twice", 'window_end, "all"')
    shown, sound = where_rows_went(feeding.staged(), feeding.run.ledger)
    assert sound and "7 in" in shown
    assert {"most", "twice"} <= {*feeding.run.ledger.looked_from}  # so that a later generation knows what it may withdraw
    assert where_rows_went(feeding.staged(below=False), committed(feeding.staged(below=False)))[1]
    assert list(feeding.run.ledger.outputs) == ["tens", "most", "twice"]


def test_a_batch_that_is_run_again_says_the_same(tmp_path: Path) -> None:
    feeding, steady = Busiest(tmp_path / "killed"), Busiest(tmp_path / "steady")
    run_through(steady, steady.staged())

    class Killed(Exception):
        pass

    for nth, row in enumerate(ROWS):
        feeding.land("x", row)

        def die(point: str, at: str = ("store", "begun", "between sinks", "deliver")[nth % 4]) -> None:
            if point == at:
                raise Killed

        feeding.open(feeding.staged(), hook=die)
        with pytest.raises(Killed):
            feeding.batch("x")
        feeding.run.close()
        feeding.open(feeding.staged())
        feeding.again("x")
        feeding.run.close()
    for name, columns in (
        ("tens", "bank, n, total, sequence"),
        ("most", "n, most, banks, sequence"),
        ("twice", 'window_id, "all"'),
    ):
        assert feeding.table(name, columns) == steady.table(name, columns)


def test_a_stage_may_leave_and_none_may_come(tmp_path: Path) -> None:
    feeding = Busiest(tmp_path)
    run_through(feeding, feeding.staged(), ROWS[:5])
    feeding.open(feeding.staged(stages=1))
    feeding.land("x", ROWS[5])
    feeding.batch("x")
    feeding.run.close()
    assert {part.aggregation for part in feeding.run.ledger.parts} <= {"", "^1"}
    assert [*feeding.run.ledger.readings] == ["results/^1"]
    with pytest.raises(
        DefinitionChanged, match=r"'twice'.*left after batch|'twice' reads sliding.*of which the state has nothing"
    ):
        feeding.open(feeding.staged())
    with pytest.raises(
        DefinitionChanged, match=r"'most' read tumbling\(\"1 minute\"\).*and reads|of which the state has nothing"
    ):
        feeding.open(feeding.staged(stages=1, late="20 s"))


def test_a_stage_over_a_state_without_any_is_refused_by_name(tmp_path: Path) -> None:
    feeding = Busiest(tmp_path)
    run_through(feeding, feeding.staged(stages=0), ROWS[:2])
    with pytest.raises(
        DefinitionChanged, match=r"'most' reads tumbling.*over the results of.*its open windows would lack.*--start-over"
    ):
        feeding.open(feeding.staged(stages=1))


def tens(**keys: Any) -> Any:
    read = ev.files(
        "payments", "in", schema="ts timestamp, bank string, paise bigint", event_time="ts", watermark=ev.bounded("0 s")
    )
    return read.window(keys.get("window", ev.tumbling("10 s")), by="bank").agg(n=ev.count(), total=ev.sum("paise"))


MINUTE = ev.tumbling("1 minute")
REFUSED = {
    "no column 'paise'": lambda: tens().results(late=ev.drop()).window(MINUTE).agg(x=ev.max("paise")),
    "by: there is no column 'x'": lambda: tens().results(late=ev.drop()).window(MINUTE, by="x").agg(n=ev.count()),
    "where.*no column 'm'|no column 'm'": lambda: tens().results(late=ev.drop()).where("m > 1").window(MINUTE).agg(n=ev.count()),
    "session windows over results would split": lambda: tens().results(late=ev.drop()).window(ev.session("1 s")).agg(n=ev.count()),
    "a result does not arrive": lambda: tens().results(late=ev.drop()).window(MINUTE).agg(x=ev.first("n", by="arrival")),
    "corrected or not: use accumulate": lambda: tens().results(late=ev.retract("5 s")),
    "by='window_end'": lambda: tens().results(late=ev.drop()).window(MINUTE, by="window_end").agg(n=ev.count()),
    "does not keep them yet": lambda: _most(ev.accumulate("5 s")).to("x", late=ev.accumulate("5 s", refused=ev.divert())),
    "told together, batch by batch": lambda: _most(ev.drop()).to("x", late=ev.accumulate("5 s"), late_firing=ev.per_row()),
    "can change for 5 seconds, and a delta": lambda: _most(ev.accumulate("5 s")).to("x", late=ev.drop(), accumulation="discarding"),
}  # fmt: skip


def _most(late: Any) -> Any:
    return tens().results(late=late).window(MINUTE).agg(n=ev.sum("n"))


@pytest.mark.parametrize("said", REFUSED)
def test_what_means_nothing_or_is_not_computed_is_refused_where_it_is_written(said: str) -> None:
    with pytest.raises(ev.DefinitionError, match=said):
        REFUSED[said]()


def test_a_pipeline_says_what_its_stages_read() -> None:
    pipe = ev.Pipeline("busy", _most(ev.accumulate("5 s")).to("minutes", late=ev.accumulate("5 s")))
    assert "cuts    tumbling 1 minute, of the results of tumbling 10 seconds: late rows" in pipe.explain()
    assert pipe.aggregation.window == ev.tumbling("10 s") and len(pipe.stages) == 1
