"""Results as notebooks show them: tables of text, in which nothing that a value holds is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SEEN = 500
"""Signs of a value that are shown."""


def shown(title: str, *parts: str) -> str:
    """A heading, and what belongs below it.

    >>> shown("A <b>", paragraph("x & y"))
    '<div><strong>A &lt;b&gt;</strong><p>x &amp; y</p></div>'
    """
    return f"<div><strong>{text(title)}</strong>{''.join(parts)}</div>"


def paragraph(said: str) -> str:
    """A line of text."""
    return f"<p>{text(said)}</p>"


def written(said: str) -> str:
    """Text of which each line and space counts."""
    return f"<pre>{text(said, 100 * SEEN)}</pre>"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines and columns; numbers to the right, with their thousands apart.

    >>> table(["lane", "rows"], [["<a>", 1200]])
    '<table><thead><tr><th>lane</th><th>rows</th></tr></thead><tbody><tr><td>&lt;a&gt;</td><td style="text-align:right">1,200</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text(value: object, most: int = SEEN) -> str:
    """A value as text of a page."""
    said = str(value)
    return escape(said if len(said) <= most else f"{said[:most]}… ({len(said):,} signs)")


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align:right">{value:,}</td>'
    return f"<td>{text('' if value is None else value)}</td>"


__all__ = ["paragraph", "shown", "table", "text", "written"]
