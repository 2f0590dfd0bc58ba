"""A definition's values in the words in which a user writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventide.model.aggregate import Aggregate
from eventide.model.policy import Divert, LatePolicy
from eventide.model.time import duration, show_duration
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Adaptive, Ascending, Bounded, Custom, Punctuated
from eventide.model.window import Session, Sliding
from eventide.sources.formats import Format


def words(value: Any) -> str:
    """A value as it stands in a pipeline; different values have different words.

    >>> words(Sliding(60_000_000, 60_000_000)), words(Bounded(30_000_000)), words(LatePolicy("accumulate", 300_000_000))
    ('tumbling("1 minute")', 'bounded("30 seconds")', 'accumulate("5 minutes")')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(words, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    return _WORDS.get(type(value), repr)(value)


def span(time: int | None) -> str:
    """A span as text that gives the same span when it is read.

    >>> span(90_000_000), span(90_061_000_001), span(None)
    ('"1 minute 30 seconds"', '"90061000001 us"', 'None')
    """
    if time is None:
        return "None"
    shown = show_duration(time)
    return f'"{shown}"' if duration(shown, zero=True) == time else f'"{time} us"'


def _call(name: str, *arguments: str, **named: str | None) -> str:
    given = [*arguments, *(f"{key}={value}" for key, value in named.items() if value is not None)]
    return f"{name}({', '.join(given)})"


def _sliding(window: Sliding) -> str:
    offset = span(window.offset) if window.offset else None
    if window.slide == window.size:
        return _call("tumbling", span(window.size), offset=offset)
    return _call("sliding", span(window.size), span(window.slide), offset=offset)


def _policy(policy: LatePolicy) -> str:
    if policy.name == "divert":
        return words(policy.refused)
    allowed = [span(policy.allowed)] if policy.allowed else []
    return _call(policy.name, *allowed, refused=words(policy.refused) if policy.refused else None)


def _divert(divert: Divert) -> str:
    """The sink by its kind only: its address may hold a password."""
    return _call("divert", *([] if divert.to is None else [type(divert.to).__name__]))


def _aggregate(what: Aggregate) -> str:
    if what.kind == "custom":
        return _call("aggregate", partial=repr(dict(what.partial)), merge=repr(dict(what.merge)), finish=words(what.finish))
    column = [words(what.column)] if what.column else []
    if what.kind == "exact_quantile":
        return _call("median", *column)
    return _call(what.kind, *column, *([] if what.share is None else [repr(what.share)]))


def _adaptive(strategy: Adaptive) -> str:
    spans = {"floor": strategy.floor, "ceiling": strategy.ceiling, "step": strategy.step, "start": strategy.start}
    return _call("adaptive", repr(strategy.quantile), **{name: span(time) for name, time in spans.items()})


def _format(form: Format) -> str:
    """Without the registry's address, which may hold a password."""
    named = {"schema": form.schema, "subject": form.subject, "reader": form.reader}
    return _call(form.kind, **{name: words(value) for name, value in named.items() if value is not None})


def _regression(choice: str) -> str | None:
    return None if choice == "ignore" else words(choice)


_WORDS: dict[type, Callable[[Any], str]] = {
    Sliding: _sliding,
    Session: lambda window: _call("session", span(window.gap)),
    Bounded: lambda strategy: _call("bounded", span(strategy.bound)),
    Ascending: lambda _: "ascending()",
    Punctuated: lambda s: _call(
        "punctuated", when=words(s.when), value=words(s.value), on_regression=_regression(s.on_regression)
    ),
    Custom: lambda s: _call("custom", words(s.value), on_regression=_regression(s.on_regression)),
    Adaptive: _adaptive,
    LatePolicy: _policy,
    Divert: _divert,
    Every: lambda trigger: _call("every", span(trigger.period)),
    After: lambda trigger: _call("after", span(trigger.delay)),
    EveryRows: lambda trigger: _call("every_rows", str(trigger.rows)),
    When: lambda trigger: _call("when", words(trigger.condition)),
    PerBatch: lambda _: "per_batch()",
    PerRow: lambda _: "per_row()",
    AtExpiry: lambda _: "at_expiry()",
    Aggregate: _aggregate,
    Format: _format,
}
