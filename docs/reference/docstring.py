"""A docstring as Markdown: prose as it is, examples as code, what is raised as a list."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

RAISES = "Raises:"


def as_markdown(thing: Any) -> list[str]:
    """Its docstring, block by block, with an empty line after each.

    >>> def halved(x):
    ...     '''Half of <x>.
    ...
    ...     >>> halved(4)
    ...     2
    ...     '''
    >>> as_markdown(halved)
    ['Half of &lt;x>.', '', '```pycon', '>>> halved(4)', '2', '```', '']
    """
    lines = (inspect.getdoc(thing) or "").splitlines()
    blocks = [list(block) for filled, block in groupby(lines, key=lambda line: bool(line.strip())) if filled]
    return [line for block in blocks for line in (*_block(block), "")]


def _block(lines: list[str]) -> Iterator[str]:
    if lines[0].startswith(">>> "):
        yield from ("```pycon", *lines, "```")
    elif lines[0] == RAISES:
        yield from ("Raises:", "")
        for line in lines[1:]:
            name, _, why = line.strip().partition(": ")
            yield f"- `{name}`: {prose(why)}"
    else:
        yield from map(prose, lines)


def prose(text: str) -> str:
    """Text in which nothing but what stands in backticks is left to Markdown as it is."""
    return "".join(
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", r"\*") for part in re.split("(`[^`]*`)", text)
    )


def first_sentence(thing: Any) -> str:
    """What a table says of it."""
    return prose((inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " "))
