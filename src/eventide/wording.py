"""A definition's values in the words in which a user writes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from eventide.model.aggregate import Aggregate
from eventide.model.graph import Between
from eventide.model.policy import Divert, LatePolicy
from eventide.model.time import span
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.view import View
from eventide.model.watermark import Strategy
from eventide.model.window import Session, Sliding, Window, session, sliding, tumbling
from eventide.model.written import call, quoted
from eventide.sources.formats import Format


def words(value: Any) -> str:
    """A value as it stands in a pipeline; different values have different words.

    >>> from eventide.model.watermark import Bounded
    >>> words(Sliding(60_000_000, 60_000_000)), words(Bounded(30_000_000)), words(LatePolicy("accumulate", 300_000_000))
    ('tumbling("1 minute")', 'bounded("30 seconds")', 'accumulate("5 minutes")')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(words, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Strategy | Aggregate):
        return value.written
    return _WORDS.get(type(value), repr)(value)


def window_in(said: str) -> Window | None:
    """The window that words begin with, as `words` wrote them; None where they begin with something else, such as a join.

    >>> window_in('sliding("1 minute", "5 seconds") by ["bank"]: n=count()')
    Sliding(size=60000000, slide=5000000, offset=0)
    >>> window_in("orders joined with payments") is None
    True
    """
    found = re.match(r"(tumbling|sliding|session)\((.*?)\)", said)
    if found is None:
        return None
    written = ast.parse(found[0], mode="eval").body
    assert isinstance(written, ast.Call)
    named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in written.keywords}
    made: Window = _MAKERS[found[1]](*map(ast.literal_eval, written.args), **named)
    return made


_MAKERS: dict[str, Callable[..., Window]] = {"tumbling": tumbling, "sliding": sliding, "session": session}


def _sliding(window: Sliding) -> str:
    offset = span(window.offset) if window.offset else None
    if window.slide == window.size:
        return call("tumbling", span(window.size), offset=offset)
    return call("sliding", span(window.size), span(window.slide), offset=offset)


def _signed(bound: int) -> str:
    return span(bound) if bound >= 0 else f'"-{span(-bound)[1:]}'


def _policy(policy: LatePolicy) -> str:
    if policy.name == "divert":
        return words(policy.refused)
    allowed = [span(policy.allowed)] if policy.allowed else []
    return call(policy.name, *allowed, refused=words(policy.refused) if policy.refused else None)


def _divert(divert: Divert) -> str:
    """The sink by its kind only: its address may hold a password."""
    return call("divert", *([] if divert.to is None else [type(divert.to).__name__]))


def _format(form: Format) -> str:
    """Without the registry's address, which may hold a password."""
    named = {"schema": form.schema, "subject": form.subject, "reader": form.reader}
    return call(form.kind, **{name: words(value) for name, value in named.items() if value is not None})


_WORDS: dict[type, Callable[[Any], str]] = {
    Between: lambda within: f"({_signed(within.lo)}, {_signed(within.hi)})",
    Sliding: _sliding,
    Session: lambda window: call("session", span(window.gap)),
    LatePolicy: _policy,
    Divert: _divert,
    Every: lambda trigger: call("every", span(trigger.period)),
    After: lambda trigger: call("after", span(trigger.delay)),
    EveryRows: lambda trigger: call("every_rows", str(trigger.rows)),
    When: lambda trigger: call("when", words(str(trigger.condition))),
    PerBatch: lambda _: "per_batch()",
    PerRow: lambda _: "per_row()",
    AtExpiry: lambda _: "at_expiry()",
    View: lambda view: str(view) or "all results as they are",
    Format: _format,
}
