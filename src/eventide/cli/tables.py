"""Tables as our commands print them."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

PIPED = 120
"""Columns where there is no terminal that could say."""


def screen() -> Console:
    """Where a command prints what it was asked; colours only in a terminal, and not under NO_COLOR."""
    return Console(highlight=False, width=None if Console().is_terminal else PIPED)


def table(*headings: str) -> Table:
    """A plain table: the first column to the left, numbers to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(headings):
        made.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return made


def indented(made: Table) -> Padding:
    """Two spaces in."""
    return Padding(made, (0, 0, 0, 2), expand=False)
