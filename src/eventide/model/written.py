"""How values stand in a definition, as its user writes them."""

from __future__ import annotations


def call(name: str, *arguments: str, **named: str | None) -> str:
    """A call with the arguments that were given.

    >>> call("sum", quoted("paise"), where=None), call("first", quoted("x"), by=quoted("arrival"))
    ('sum("paise")', 'first("x", by="arrival")')
    """
    given = [*arguments, *(f"{key}={value}" for key, value in named.items() if value is not None)]
    return f"{name}({', '.join(given)})"


def quoted(text: str | None) -> str:
    """A text as one."""
    return f'"{text}"'
