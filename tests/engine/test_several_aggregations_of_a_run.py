"""Several aggregations and the events themselves in one pipeline, through the engine's own Run: restarts, changes, sinks."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from feeding import Feeding

import eventide as ev
from eventide.cli.closing import where_rows_went
from eventide.engine.changes import DefinitionChanged


class Sensors(Feeding):
    """Payments counted for each bank in tens of seconds, and summed over sessions; and every one of them."""

    def several(self, *more: Any, tens: bool = True, sessions: bool = True, keys: tuple[str, ...] = ()) -> ev.Pipeline:
        read = ev.files(
            "payments", str(self.root / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s")
        )
        stream = read.dedupe(*keys, within="1 hour") if keys else read
        counted = stream.window(ev.tumbling("10 s"), by="bank").agg(n=ev.count())
        summed = stream.window(ev.session("5 s")).agg(total=ev.sum("paise"))
        written = [counted.to("out", ev.sqlite(str(self.root / "out.db")), late=ev.drop())] * tens
        written += [
            summed.to("sums", ev.sqlite(str(self.root / "out.db")), late=ev.retract("1 minute", refused=ev.divert()))
        ] * sessions
        return ev.Pipeline("several", *written, *(make(stream) for make in more), state=str(self.root / "state"), buckets=2)

    def table(self, name: str, columns: str) -> list[Any]:
        with sqlite3.connect(self.root / "out.db") as there:
            return sorted(there.execute(f"SELECT {columns} FROM {name}").fetchall())


def audit(root: Path) -> Any:
    return lambda stream: stream.to("audit", ev.sqlite(str(root / "out.db")))


ROWS = ((1, 1, "a", 5), (2, 2, "b", 7), (9, 9, "a", 1), (21, 21, "a", 2), (3, 22, "b", 4), (40, 40, "b", 8))


def run_through(feeding: Sensors, pipe: ev.Pipeline) -> None:
    for row in ROWS:
        feeding.land("x", row)
        feeding.open(pipe)  # a restart before each batch
        feeding.batch("x")
        feeding.run.close()


def test_each_output_has_the_answers_of_a_pipeline_of_its_own(tmp_path: Path) -> None:
    both, tens, sums = (Sensors(tmp_path / name) for name in ("both", "tens", "sums"))
    run_through(both, both.several(audit(both.root)))
    run_through(tens, tens.several(sessions=False))
    run_through(sums, sums.several(tens=False))
    found = both.table("out", "window_id, bank, n, sequence"), both.table("sums", "window_id, total, sequence")
    assert found == (tens.table("out", "window_id, bank, n, sequence"), sums.table("sums", "window_id, total, sequence"))
    assert len(found[0]) >= 3 and len(found[1]) >= 2
    assert both.table("audit", "ts, bank, paise, _offset")[0][1:] == ("a", 5, 0)
    assert [row[1:] for row in both.table("audit", "_offset, bank, paise")] == [(bank, paise) for _, _, bank, paise in ROWS]
    shown, sound = where_rows_went(both.several(audit(both.root)), both.run.ledger)
    assert sound and "6 in" in shown and re.search(r"audit +6 events", shown)
    first, second = (both.run.ledger.late_from(0, name) for name in ("", "1"))
    assert (first, second) == tuple(one.run.ledger.late_from(0, "") for one in (tens, sums))


def test_events_of_which_duplicates_are_taken_out_are_told_once(tmp_path: Path) -> None:
    feeding = Sensors(tmp_path)
    pipe = feeding.several(audit(tmp_path), keys=("bank", "paise"))
    for row in (*ROWS, ROWS[0], (41, 41, "b", 8)):
        feeding.land("x", row)
        feeding.open(pipe)
        feeding.batch("x")
        feeding.run.close()
    assert [row[1:] for row in feeding.table("audit", "_offset, bank, paise")] == [(bank, paise) for _, _, bank, paise in ROWS]
    assert feeding.rows()["duplicates"] == 2


def test_an_aggregation_may_leave_and_none_may_come_on_existing_state(tmp_path: Path) -> None:
    feeding = Sensors(tmp_path)
    run_through(feeding, feeding.several())
    feeding.open(feeding.several(tens=False))
    feeding.land("x", (60, 60, "a", 9))
    feeding.batch("x")
    feeding.run.close()
    assert {part.aggregation for part in feeding.run.ledger.parts} == {"1"} and feeding.run.ledger.waiting == 0
    with pytest.raises(
        DefinitionChanged, match=r"'out'.*left after batch|'out' reads tumbling.*of which the state has nothing"
    ):
        feeding.open(feeding.several())


def test_a_second_aggregation_over_existing_state_is_refused_by_name(tmp_path: Path) -> None:
    feeding = Sensors(tmp_path)
    run_through(feeding, feeding.several(sessions=False))
    with pytest.raises(DefinitionChanged, match=r"'sums' reads session\(.*its open windows would lack.*--start-over"):
        feeding.open(feeding.several())


def test_a_new_output_may_allow_only_what_its_own_aggregation_was_kept_for(tmp_path: Path) -> None:
    """Another one's minute keeps nothing of the tens: windows that are gone would come back with their late rows alone."""
    feeding = Sensors(tmp_path)
    run_through(feeding, feeding.several())

    def allowing(lateness: str) -> Any:
        return lambda stream: (
            stream.window(ev.tumbling("10 s"), by="bank").agg(n=ev.count()).to("more", late=ev.accumulate(lateness))
        )

    with pytest.raises(DefinitionChanged, match=r"'more' allows 1 minute of lateness, and the state was kept for 0 seconds"):
        feeding.open(feeding.several(allowing("1 minute")))


def test_outputs_may_be_written_in_another_order(tmp_path: Path) -> None:
    feeding = Sensors(tmp_path)
    run_through(feeding, feeding.several())
    pipe = feeding.several()
    feeding.open(replace(pipe, outputs=pipe.outputs[::-1]))
    feeding.land("x", (60, 60, "a", 9))
    feeding.batch("x")
    feeding.run.close()
    assert feeding.table("out", "bank, n")[-1] == ("b", 1) and feeding.run.ledger.rows["in"] == 7


def test_what_is_told_of_the_first_aggregation_stays_with_it_in_any_order(tmp_path: Path) -> None:
    """The row at 16 s is late for its ten seconds, and not for its session."""
    feeding = Sensors(tmp_path)
    feeding.land("x", (14, 14, "a", 1), (20, 20, "a", 1))
    pipe = feeding.several()
    feeding.open(pipe)
    feeding.batch("x")
    feeding.run.close()
    feeding.open(replace(pipe, outputs=pipe.outputs[::-1]))
    feeding.land("x", (16, 21, "a", 1))
    feeding.batch("x")
    feeding.run.close()
    assert feeding.run.ledger.by_source["0"]["late"] == 1


def test_events_are_not_called_as_other_rows_of_the_pipeline_are(tmp_path: Path) -> None:
    with pytest.raises(ev.DefinitionError, match=r"'sums_late'.*would be taken for the first come again, and lost"):
        Sensors(tmp_path).several(lambda stream: stream.to("sums_late"))


def test_aggregations_over_other_streams_are_refused_where_they_are_written(tmp_path: Path) -> None:
    one, other = (
        ev.files(name, "landing", schema="ts timestamp", event_time="ts", watermark=ev.bounded("0 s"))
        for name in ("one", "other")
    )
    outputs = [s.window(ev.tumbling("1 s")).agg(n=ev.count()).to(s.name, late=ev.drop()) for s in (one, other)]
    with pytest.raises(ev.DefinitionError, match=r"'one' and 'other'.*different streams.*Make a pipeline for each"):
        ev.Pipeline("both", *outputs)
    with pytest.raises(ev.DefinitionError, match="different streams"):
        ev.Pipeline("both", outputs[0], other.to("audit"))
