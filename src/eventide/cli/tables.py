"""Tables as our commands print them."""

from __future__ import annotations

from rich.padding import Padding
from rich.table import Table


def table(*headings: str) -> Table:
    """A plain table: the first column to the left, numbers to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(headings):
        made.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return made


def indented(made: Table) -> Padding:
    """Two spaces in."""
    return Padding(made, (0, 0, 0, 2))
