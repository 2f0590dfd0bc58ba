"""What notebooks show of a pipeline and of its results: the figures themselves, and nothing that a value holds as markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import polars as pl

import eventide as ev
from eventide.cli.loading import load
from eventide.engine.handle import Handle
from eventide.engine.run import Run
from eventide.lateness.measured import Lateness
from eventide.lateness.witness import SCHEMA
from eventide.model.window import Sliding
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.testing.recipes import SECOND, delayed_stream
from tests.cli.stated import defined, ran
from tests.engine.crash_driver import Here
from tests.tuning.test_curve import ask

HOSTILE = "<script>alert(1)</script>"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)

    def handle_data(self, data: str) -> None:
        self.said += data + " "


def test_a_pipeline_is_shown_as_it_explains_itself_and_names_are_text() -> None:
    rows = ev.files(HOSTILE, "landing", event_time="ts", watermark=ev.bounded("5 s"))
    totals = rows.window(ev.tumbling("1 minute")).agg(n=ev.count())
    shown = Tags(ev.Pipeline("p", totals.to("out", late=ev.drop()))._repr_html_())
    assert shown.found == {"div", "strong", "pre"} and HOSTILE in shown.said and "tumbling 1 minute" in shown.said


def test_a_handle_is_shown_with_what_became_of_its_rows(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"north": [1, 2, 70], "south": [65, 3]}, {"north": [5, 130], "south": [131]}], [80, 140])
    run = Run(load(str(file)), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    run.ledger = State(str(tmp_path / "state"), "p").ledger
    handle = Handle(run, None)
    shown = Tags(handle._repr_html_())
    counts = handle.outputs["patient"]
    assert "batch 1" in shown.said and "8 rows" in shown.said
    for verdict in ("rows_on_time", "rows_admitted", "panes"):
        assert f" {counts[verdict]} " in shown.said
    assert "script" not in shown.found


def test_a_run_that_has_committed_nothing_has_read_no_row(tmp_path: Path) -> None:
    run = Run(load(str(defined(tmp_path))), Here(), str(tmp_path / "state"))  # type: ignore[arg-type]
    run.ledger = Ledger()
    run.ledger.seat(["patient"])
    handle = Handle(run, None)
    assert handle.rows["in"] == handle.rows["dead"] == 0 and handle.outputs["patient"]["rows_on_time"] == 0


def test_lateness_is_shown_by_source(tmp_path: Path) -> None:
    outputs = {HOSTILE: {"on_time": 7, "admitted": 2, "refused": 1, "rows_late_behind_lane": 3}}
    shown = Tags(Lateness(pl.DataFrame(schema=SCHEMA), {"in": 10}, outputs)._repr_html_())
    assert HOSTILE in shown.said and "script" not in shown.found and {"7", "2", "1", "3"} <= set(shown.said.split())


def test_a_tuning_is_shown_with_the_lines_to_paste() -> None:
    tuning = ask(delayed_stream()[:2_000], Sliding(10 * SECOND, 10 * SECOND))
    shown = Tags(tuning._repr_html_())
    assert all(line in shown.said for line in tuning.lines()) and "complete" in shown.said
