"""The form of texts that say times: which characters are the year, which the month, and so on; with nothing guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

NUMBERS = {
    "Y": ("year", 4), "y": ("short_year", 2), "m": ("month", 2), "d": ("day", 2), "e": ("day", 2), "j": ("day_of_year", 3),
    "H": ("hour", 2), "k": ("hour", 2), "I": ("hour_of_12", 2), "l": ("hour_of_12", 2), "M": ("minute", 2), "S": ("second", 2),
}  # fmt: skip
"""What is written in digits, and in how many; one digit is enough where no other digit stands beside it, except of years."""
WORDS = {
    "b": ("month_name", "[A-Za-z]+"), "h": ("month_name", "[A-Za-z]+"), "B": ("month_name", "[A-Za-z]+"), "a": ("weekday", "[A-Za-z]+"),
    "A": ("weekday", "[A-Za-z]+"), "p": ("half", "[AaPp][Mm]"), "P": ("half", "[AaPp][Mm]"), "z": ("zone", "Z|[+-][0-9]{2}(?::?[0-9]{2})?"),
    ":z": ("zone", "Z|[+-][0-9]{2}(?::?[0-9]{2})?"), "s": ("seconds", "-?[0-9]{1,18}"),
}  # fmt: skip
SHORT = {"T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "F": "%Y-%m-%d", "r": "%I:%M:%S %p", "n": " ", "t": " "}
DIRECTIVE = re.compile(r"%([-_0]?[A-Za-z]|:z|[369]f|\.[369]?f|%)|(\s+)|([^%])", re.ASCII)
KNOWN = "%Y %y %m %b %B %d %e %j %H %I %p %M %S %f %3f %6f %9f %.f %z %s %a %A %F %T %R %D %%"


@dataclass(frozen=True)
class TimeForm:
    """A form, ready to be looked for in texts."""

    pattern: str
    """A regular expression of the whole text, with a group for each part."""
    parts: frozenset[str]


@lru_cache(maxsize=64)
def time_form(text: str) -> TimeForm:
    """A form as strftime has it.

    >>> sorted(time_form("%d/%m/%Y %H:%M").parts)
    ['day', 'hour', 'minute', 'month', 'year']

    Raises:
        ValueError: it names a part that says no time, or twice, or too little for a time.
    """
    signs = _signs(text)
    parts: list[str] = []
    pattern = ""
    for place, sign in enumerate(signs):
        after = any(_in_digits(one) for one in signs[max(0, place - 1) : place])
        before = any(_in_digits(one) and not one.startswith("%.") for one in signs[place + 1 : place + 2])
        part, expression = _read(sign, after or before)
        parts += [part] * bool(part)
        pattern += expression
    _check(parts)
    return TimeForm(f"^{pattern}$", frozenset(parts))


def _signs(text: str) -> list[str]:
    """The directives and the characters between them; what stands for several directives is written out."""
    signs, at = [], 0
    while at < len(text):
        found = DIRECTIVE.match(text, at)
        if found is None:
            raise ValueError(f"it holds {text[at : at + 2]!r}, which says no part of a time; it can hold {KNOWN}")
        at = found.end()
        short = SHORT.get(found[1] or "")
        signs += _signs(short) if short else [found[0] if found[1] in (None, "%") else f"%{found[1].lstrip('-_0')}"]
    return signs


def _in_digits(sign: str) -> bool:
    return sign.isdigit() or sign[1:] in NUMBERS or sign.endswith("f") or sign == "%s"


def _read(sign: str, crowded: bool) -> tuple[str, str]:
    """The part that a sign stands for ("": none), and the expression of its text."""
    if not sign.startswith("%") or sign == "%%":
        return "", r"\s+" if sign.isspace() else re.escape(sign[-1])
    name = sign[1:]
    if name in NUMBERS:
        part, width = NUMBERS[name]
        fewest = width if crowded or part.endswith("year") else 1
        return part, f"(?P<{part}>[0-9]{{{fewest},{width}}})"
    if name in WORDS:
        part, expression = WORDS[name]
        return part, f"(?P<{part}>{expression})"
    if name.endswith("f"):
        digits = name.strip(".f")
        some = f"(?P<fraction>[0-9]{{{digits}}})" if digits else "(?P<fraction>[0-9]+)"
        if not name.startswith("."):
            return "fraction", some
        return "fraction", rf"\.{some}" if digits else rf"(?:\.{some})?"
    if name == "Z":
        raise ValueError(
            "it holds %Z, and a zone's name says no offset (IST is India's, Israel's and Ireland's); use %z for offsets, or write the name as it "
            "stands in the texts and give time_zone="
        )
    raise ValueError(f"it holds {sign}, which is not read; it can hold {KNOWN}")


def _check(parts: list[str]) -> None:
    said = set(parts)
    twice = [part for part in said if parts.count(part) > 1]
    twice += [f"{one} and {other}" for one, other in _RIVALS if {one, other} <= said]
    if twice:
        raise ValueError(f"it says the {twice[0].replace('_', ' ')} twice")
    if "seconds" in said:
        if said - {"seconds", "fraction"}:
            raise ValueError("%s is a whole time: nothing but a fraction can stand beside it")
        return
    day = "day_of_year" in said or {"day", "month"} <= said or {"day", "month_name"} <= said
    if not day or not said & {"year", "short_year"}:
        raise ValueError("it names no day: give the year, the month and the day")
    if ("hour_of_12" in said) != ("half" in said):
        raise ValueError("%I and %p need each other")


_RIVALS = (
    ("year", "short_year"), ("month", "month_name"), ("day_of_year", "day"), ("day_of_year", "month"), ("day_of_year", "month_name"),
    ("hour", "hour_of_12"),
)  # fmt: skip
