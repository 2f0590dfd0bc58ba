"""Text that others wrote, made harmless in a terminal: names of lanes and keys may hold anything at all."""

from __future__ import annotations

import unicodedata

from rich.text import Text

LONGEST = 48
"""Signs of a name that are shown; of a longer one its beginning and its end."""
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Signs that move the cursor, turn the writing round, break lines or show nothing: controls, formats, surrogates, separators of lines."""


def harmless(text: str, longest: int = LONGEST) -> str:
    r"""A text of which every sign is seen and none does anything; one that is too long says how long it is.

    >>> harmless("mumbai"), harmless("a\x1b[2Jb"), harmless("abc\u202etxt")
    ('mumbai', 'a\\x1b[2Jb', 'abc\\u202etxt')
    >>> harmless("x" * 10_000, 20)
    'xxxxxxxxxxxx…xxxxxx (10,000 signs)'
    """
    if len(text) > longest:
        head = longest * 2 // 3
        end = longest - head - 1
        return f"{_seen(text[: head - 1])}…{_seen(text[-end:])} ({len(text):,} signs)"
    return _seen(text)


def harmless_lines(text: str) -> str:
    r"""The same of a text of several lines, however long.

    >>> harmless_lines("no\n\tsuch \x1b[31msubject")
    'no\n\tsuch \\x1b[31msubject'
    """
    return "".join(sign if sign in "\n\t" else _seen(sign) for sign in text)


def cell(value: object, longest: int = LONGEST) -> Text:
    """A value as it stands in a table: never taken for markup."""
    return Text(harmless(str(value), longest))


def _seen(text: str) -> str:
    return "".join(sign.encode("unicode_escape").decode() if unicodedata.category(sign) in UNSEEN else sign for sign in text)
