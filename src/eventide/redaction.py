"""Secrets, kept out of what people see: printed forms, errors, warnings and logs all pass through here."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)

HIDDEN = "***"
CALLED = (
    r"(?:[\w.-]{0,40}(?:password|passwd|passphrase|secret|token|credentials?|jaas[\w.-]{0,40}|authorization|signature)"
    r"|[\w.-]{0,40}(?:access|account|api|client|encryption|private|secret|shared|signing|ssl)[\w]{0,40}[._-]?key(?:\.pem)?"
    r"|(?:[\w.-]{0,40}[._-])?(?:pass|pwd|sig|key\.pem))"
)
SECRET_NAME = re.compile(rf"{CALLED}(?:$|[._-])|\.key$", re.IGNORECASE)
"""Names of options whose values nobody should read."""
USER_INFO = re.compile(r"(\w{1,20}://)([^\s:/@?#'\"]*)(:[^\s'\"]*)?@", re.IGNORECASE)
"""What stands before the last @ of an address."""
SETTING = re.compile(rf"(\b{CALLED}\s*=\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&;,'\")]+)", re.IGNORECASE)
"""A secret in a query (`?sig=…`) or in a list of settings (`host=db password='a b'`)."""
SHORTEST = 4
"""A shorter value is left standing: it would be found inside ordinary words."""


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the passwords of the addresses and settings in it, and without the given secrets.

    >>> masked("postgresql://me:pa@ss@db/x?password=b"), masked("host=db password='a b' user=me")
    ('postgresql://me:***@db/x?password=***', 'host=db password=*** user=me')
    >>> masked("s3://AKIA:abc/d+e@lake/totals"), masked("the key hunter2 does not fit", ["hunter2"])
    ('s3://AKIA:***@lake/totals', 'the key *** does not fit')
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    text = USER_INFO.sub(_user, text)
    return SETTING.sub(rf"\1{HIDDEN}", text)


def _user(found: re.Match[str]) -> str:
    """A user's name may be seen, but a web address has often a token in its place."""
    if found[3]:
        return f"{found[1]}{found[2]}:{HIDDEN}@"
    return f"{found[1]}{HIDDEN}@" if found[1].lower().startswith("http") else found[0]


def secrets_of(options: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> list[str]:
    """The values of options that are called like a secret, and what stands between quotes in them (JAAS holds passwords so).

    >>> secrets_of({"sasl.username": "me", "sasl.password": "hunter2"})
    ['hunter2']
    """
    pairs = options.items() if isinstance(options, Mapping) else options
    values = [value for name, value in pairs if isinstance(value, str) and value and SECRET_NAME.search(name)]
    return [*values, *(part for value in values for part in re.findall(r'"([^"]+)"', value))]


def without_secrets(kind: Kind) -> Kind:
    """Class decorator, outside of @dataclass: the printed form hides the secrets of addresses."""
    shown: Callable[[Any], str] = vars(kind)["__repr__"]

    def __repr__(self: Any) -> str:
        return masked(shown(self))

    kind.__repr__ = __repr__  # type: ignore[assignment]
    return kind


def printable(cause: BaseException) -> BaseException | None:
    """An error as the cause of ours, if it may be printed below it in a traceback; else none."""
    said = str(cause)
    return cause if masked(said) == said else None


def warn_of(text: str, category: type[Warning]) -> None:
    """Warn about the user's line that led here; names the line, and does not print it: it may hold a password."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "eventide":
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}, line {frame.f_lineno}"
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    # Line 0 is none that Python could show beside the warning.
    warnings.warn_explicit(masked(f"{text} ({where})"), category, frame.f_code.co_filename, 0, registry=seen)
