"""Patterns that come from outside, matched by RE2: in time that grows with the text alone, whatever the pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

LONGEST_PATTERN = 500
_MEMORY = 512 * 1024  # for one pattern; at most `_KEPT` of them are kept
_KEPT = 256
_JSON_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")


class BadPattern(ValueError):
    """The text is no regular expression, or one that cannot be matched in bounded time."""


def is_whole(pattern: str, text: str) -> bool:
    r"""Does the pattern fit the text from its beginning to its end?

    >>> is_whole(r"a\.(x+x+)+y", "a." + "x" * 5_000)
    False

    Raises:
        BadPattern: the pattern cannot be used; the message says why.
    """
    return _compiled(pattern).fullmatch(text) is not None


def is_found(pattern: str, text: str) -> bool:
    """Does the pattern fit any part of the text? Never, if it cannot be used."""
    try:
        return _compiled(_JSON_ESCAPE.sub(r"\\x{\1}", pattern)).search(text) is not None
    except BadPattern:
        return False


def refuse_bad(pattern: str) -> None:
    """Raise `BadPattern` unless the pattern can be used."""
    if not 1 <= len(pattern) <= LONGEST_PATTERN:
        raise BadPattern(f"it must have 1 to {LONGEST_PATTERN} characters, and has {len(pattern)}")
    _compiled(pattern)


@lru_cache(maxsize=_KEPT)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except (re2.error, ValueError, UnicodeError) as error:
        detail = error.args[0] if error.args else error
        said = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise BadPattern(f"{said} (the syntax is RE2's: no look-around and no back-references)") from None
