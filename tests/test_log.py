"""What a run logs: nothing that is heard unasked, facts apart from their words, and no password."""

from __future__ import annotations

import logging

import pytest

from eventide.log import note


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
