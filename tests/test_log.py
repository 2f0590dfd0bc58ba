"""What a run logs: nothing that is heard unasked, facts apart from their words, and no password."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from eventide.errors import SinkUnavailable
from eventide.log import note
from eventide.sinks.retry import Retry
from eventide.sinks.upkeep import LakeWriter


def test_facts_are_in_the_line_and_apart(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="eventide"):
        note("eventide.engine.run", "batch committed", batch=7, rows=1200)
    [record] = caplog.records
    assert (record.name, record.getMessage()) == ("eventide.engine.run", "batch committed batch=7 rows=1200")
    assert record.facts == {"batch": 7, "rows": 1200}


def test_no_password_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="eventide"):
        note("eventide.engine.run", "run opened", state="s3://AKIA:secret@lake/state")
    assert "secret" not in f"{caplog.text} {caplog.records[0].facts}"


def test_nobody_hears_it_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    note("eventide.engine.run", "batch committed", batch=7)
    assert capfd.readouterr() == ("", "")


def test_a_delivery_that_is_tried_again_says_how_often_and_when_it_was_taken(caplog: pytest.LogCaptureFixture) -> None:
    answers = [SinkUnavailable("postgresql://me:secret@db is away"), SinkUnavailable("away"), None]

    def deliver() -> str:
        if error := answers.pop(0):
            raise error
        return "stored"

    with caplog.at_level(logging.INFO, logger="eventide"):
        assert Retry(first=1, clock=lambda: 0.0, sleep=lambda _: None).run(deliver) == "stored"
    said = [(r.levelname, r.getMessage()[:10], r.facts["tries"]) for r in caplog.records]
    assert said == [("WARNING", "try failed", 1), ("WARNING", "try failed", 2), ("INFO", "taken at l", 3)]
    assert "secret" not in caplog.text and caplog.records[1].facts["error"] == "away"


def test_what_is_taken_at_once_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="eventide"):
        Retry().run(lambda: None)
    assert caplog.records == []


@pytest.mark.parametrize("race", [False, True])
def test_upkeep_says_what_it_did(caplog: pytest.LogCaptureFixture, race: bool) -> None:
    def look_after() -> None:
        if race:
            raise ValueError("a commit in between")

    table: Any = SimpleNamespace(
        target=SimpleNamespace(name="totals"),
        since=20,
        look_after=look_after,
        lost_race=lambda cause: isinstance(cause, ValueError),
    )
    with caplog.at_level(logging.INFO, logger="eventide"):
        assert LakeWriter._looked_after(table) is not race
    [record] = caplog.records
    assert record.facts["table"] == "totals"
    assert record.getMessage().startswith("not compacted yet" if race else "table looked after")
