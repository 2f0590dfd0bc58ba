"""The command, as a user sees it in a terminal of 80 columns."""

from __future__ import annotations

import doctest
from functools import cache

from click.testing import CliRunner

from eventide import __version__
from eventide.cli import demo
from eventide.cli.main import main


@cache
def shown(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


def test_it_says_its_version_and_its_commands() -> None:
    assert __version__ in shown("--version")
    assert "demo" in shown("-h")


def test_the_demo_fits_eighty_columns_cuts_nothing_off_and_shows_the_known_figures() -> None:
    text = shown("demo")
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text, "a column was cut off"
    assert not any(line and not line.startswith(" ") and line[0].islower() for line in text.splitlines()), "a line was wrapped"
    for figure in ("₹1,42,420.67", "₹1,45,035.72", "₹3,127.15", "13 lost", "11 merged, 2 lost", "13 diverted"):
        assert figure in text
    for figure in ("65.84%", "6,832", "93.47%", "40.87 s", "17,001", "1,692", "wait 10 seconds"):
        assert figure in text
    assert "₹1,45,547.82 arrived, under each policy ✓" in text


def test_the_columns_of_a_table_end_at_the_same_place() -> None:
    lines = [line.rstrip() for line in shown("demo").splitlines() if "%" in line and "s" in line and "complete" not in line]
    assert len({len(line) for line in lines[:6]}) == 1


def test_rupees_are_grouped_as_india_writes_them() -> None:
    assert doctest.testmod(demo).failed == 0
    assert demo.rupees(-312_715) == "-₹3,127.15"
    assert demo.rupees(100_000_00) == "₹1,00,000.00"


def test_no_bound_is_offered_when_none_fits_the_budget() -> None:
    assert "no bound" in demo.choice([])
