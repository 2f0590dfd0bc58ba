"""`eventide demo`, as a user sees it in a terminal of 80 columns."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from asked import shown

from eventide.cli import demo


@pytest.fixture(scope="module")
def night(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The demo, once, on a small night."""
    root = tmp_path_factory.mktemp("demo") / "demo"
    return shown("demo", "--rows", "40000", "--directory", str(root)), root


def test_the_demo_accounts_for_every_row_and_corrects_the_minute_that_came_late(night: tuple[str, Path]) -> None:
    text, root = night
    assert "40,000 in" in text and text.count("✓") == 2 and "✗" not in text
    assert "banks corrected" in text
    with sqlite3.connect(root / "upi.db") as base:
        before, after = (base.execute(f"select sum(n) from {name}").fetchone()[0] for name in ("dashboard", "totals"))
        corrected = base.execute("select count(*) from totals where sequence > 0").fetchone()[0]
    assert after > before and corrected > 0


def test_the_demo_cuts_nothing_off_and_shows_the_known_curve(night: tuple[str, Path]) -> None:
    text, root = night
    ours = [line.rstrip() for line in text.replace(str(root), "demo").splitlines()]
    assert max(map(len, ours)) <= 80
    for figure in ("65.84%", "6,832", "93.47%", "40.87 s", "wait 10 seconds"):
        assert figure in text


def test_rupees_are_grouped_as_india_writes_them() -> None:
    assert demo.rupees(-312_715) == "-₹3,127.15"
    assert demo.rupees(100_000_00) == "₹1,00,000.00"


def test_no_bound_is_offered_when_none_fits_the_budget() -> None:
    assert "no bound" in demo.choice([])
