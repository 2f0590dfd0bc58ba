"""Names that others chose are text in a terminal, and nothing else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eventide.cli.tables import table
from eventide.readable.harmless import LONGEST, cell, harmless

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07", "a\rb\nc\x08", "\u202egnp.exe", "\u2066x\u2069", "\x9b31m", "\u2028", "\ud800", "[red]x[/red]", "\x00", "x" * 10_240,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_is_one_short_line_that_does_nothing(name: str) -> None:
    out = io.StringIO()
    lines = table("lane")
    lines.add_row(cell(name))
    Console(file=out, width=200, force_terminal=True, no_color=True, color_system=None).print(lines)
    said = out.getvalue().splitlines()[1:]
    assert len(said) == 1 and said[0].strip().isprintable() and len(said[0]) < 2 * LONGEST
    said[0].encode()


def test_what_looks_like_markup_is_shown_and_ordinary_names_are_as_they_are() -> None:
    assert str(cell("[red]x[/red]")) == "[red]x[/red]"
    for name in ("lucknow/3", "मुंबई", "北京", "café 7", "a" * LONGEST):
        assert harmless(name) == name
