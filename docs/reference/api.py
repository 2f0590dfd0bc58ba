"""The page of every public name: made from the code when the site is built, so that it says what the code says."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from reference.docstring import as_markdown, first_sentence, prose

import eventide

WIDE = 100
BEGINNING = """# API

Every public name, made from the code when these pages are built; the examples are run by the tests. [The whole definition](../guide.md) says how they go together. A name of `import eventide as ev`
is written `ev.bounded`; for each of the others it is said where it is imported from.

A `Duration` is a text such as `"30 seconds"`, or a `timedelta`; an `Instant` a `datetime` with a zone, or a text of ISO 8601; a condition is SQL, or made with `ev.col`.
"""
TOP = {
    "Pipelines": ("eventide.pipeline",),
    "Sources": (
        "eventide.sources.kafka",
        "eventide.sources.files",
        "eventide.sources.delta",
        "eventide.sources.frame",
        "eventide.sources.generated",
        "eventide.sources.mended",
    ),
    "Record formats": ("eventide.sources.formats",),
    "Streams": ("eventide.definition.stream",),
    "Watermarks": ("eventide.model.watermark",),
    "Windows": ("eventide.model.window",),
    "Aggregates": ("eventide.model.aggregate", "eventide.model.exact"),
    "Expressions": ("eventide.model.expression",),
    "Policies for late rows": ("eventide.model.policy",),
    "Triggers": ("eventide.model.trigger",),
    "Sinks": ("eventide.sinks.",),
    "Measuring": ("eventide.tuning.tune", "eventide.lateness"),
    "Runs told to others": ("eventide.telemetry.",),
    "Errors and warnings": ("eventide.errors",),
}
"""What `import eventide as ev` offers, by where each name is at home."""
SECTIONS = {
    "What a definition is made of": ("eventide.definition.source.Source", "eventide.definition.stream.Stream", "eventide.definition.join.Join",
        "eventide.definition.stream.Windowed", "eventide.definition.stream.Aggregation", "eventide.definition.stream.Shown", "eventide.definition.stream.Results",
        "eventide.definition.output.Output", "eventide.definition.output.Audit", "eventide.model.policy.LatePolicy", "eventide.model.watermark.Strategy"),
    "What a run gives": ("eventide.engine.handle.Handle", "eventide.engine.report.BatchReport", "eventide.engine.backfill.Backfill", "eventide.tuning.tune.Tuning"),
    "A Spark session": ("eventide.engine.spark_session.local_session",),
    "eventide.lateness": ("eventide.lateness",),
    "eventide.reconcile": ("eventide.reconcile",),
    "eventide.testing": ("eventide.testing", "eventide.testing.broker.KafkaBroker"),
    "eventide.sinks": ("eventide.sinks",),
    "eventide.registry": ("eventide.registry.client", "eventide.registry.serialisers", "eventide.registry.wire"),
    "eventide.migration": ("eventide.migration",),
    "eventide.errors": ("eventide.errors",),
}  # fmt: skip
"""What is imported from elsewhere: names, or modules with all that they offer."""
UNPACKED = {"Settings": "eventide.definition.pipeline", "PlaceColumns": "eventide.engine.backfill"}
"""Where the keywords are written down that a call takes together."""


@dataclass(frozen=True)
class Named:
    """A public name, where it is imported from, and what it is."""

    name: str
    module: str
    thing: Any

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f"ev.{self.name}" if self.module == "eventide" else self.name

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return f"{self.module}.{self.name}"


def page() -> str:
    """The whole page."""
    lines = [BEGINNING]
    for title, names in sections():
        lines += [f"## {title}", "", "| name | |", "|---|---|"]
        lines += [
            f"| [`{one.written}`](#{one.anchor}) | {first_sentence(one.thing).replace('|', chr(92) + '|')} |" for one in names
        ]
        lines.append("")
        for one in names:
            lines += described(one)
    return "\n".join(lines)


def sections() -> Iterator[tuple[str, list[Named]]]:
    """The names by section; each module's names stand where it is first named."""
    left = {name: Named(name, "eventide", getattr(eventide, name)) for name in eventide.__all__}
    for title, homes in TOP.items():
        found = [one for one in left.values() if _home(one.thing).startswith(homes)]
        left = {name: one for name, one in left.items() if one not in found}
        yield title, sorted(found, key=lambda one: one.name.lower())
    if left:
        raise ValueError(
            f"no section of the API's page has {', '.join(left)}: name the module of each in docs/reference/api.py."
        )
    seen = [getattr(eventide, name) for name in eventide.__all__]
    for title, places in SECTIONS.items():
        found = [one for place in places for one in _names(place) if not any(one.thing is other for other in seen)]
        seen += [one.thing for one in found]
        yield title, found


def _names(place: str) -> list[Named]:
    """A name by itself, or all names that a module offers."""
    module, _, name = place.rpartition(".")
    if name[0].isupper() or not _is_module(place):
        return [Named(name, module, getattr(import_module(module), name))]
    home = import_module(place)
    return [Named(one, place, getattr(home, one)) for one in public(home)]


def public(module: ModuleType) -> list[str]:
    """What a module offers: what it says, or all that it defines without an underscore."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    made = (name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__)
    return [
        name
        for name in made
        if not name.startswith("_") and (inspect.isclass(vars(module)[name]) or inspect.isfunction(vars(module)[name]))
    ]


def _is_module(place: str) -> bool:
    try:
        return bool(import_module(place))
    except ModuleNotFoundError:
        return False


def _home(thing: Any) -> str:
    return thing.__name__ if isinstance(thing, ModuleType) else str(thing.__module__)


def described(one: Named) -> list[str]:
    """One name: how it is called, what it does, and what it offers itself."""
    lines = [f"### {one.written} {{#{one.anchor}}}", ""]
    if one.module != "eventide":
        lines += [f"`from {one.module} import {one.name}`", ""]
    if inspect.isclass(one.thing) and issubclass(one.thing, Exception):
        above = one.thing.__mro__[1].__name__
        return [*lines, *as_markdown(one.thing), f"An `{above}`." if above[0] in "AEIOU" else f"A `{above}`.", ""]
    if callable(one.thing):
        lines += ["```python", signature(one.written, one.thing), "```", ""]
    lines += as_markdown(one.thing)
    return [*lines, *_attributes(one.thing), *_methods(one)] if inspect.isclass(one.thing) else lines


def signature(name: str, thing: Any) -> str:
    """How it is called, on one line where that is not too long.

    >>> signature("drop", eventide.drop)
    'drop() -> LatePolicy'
    """
    try:
        found = inspect.signature(thing)
    except ValueError:  # what is made by its base alone, such as an enum, says nothing of itself
        return name
    parts = list(_parameters(found.parameters.values()))
    given = found.return_annotation
    back = "" if given is found.empty or inspect.isclass(thing) else f" -> {_type(given)}"
    line = f"{name}({', '.join(parts)}){back}"
    return line if len(line) <= WIDE else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){back}"


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for one in parameters:
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred |= one.kind is one.VAR_POSITIONAL
        if one.kind is one.VAR_KEYWORD and (together := re.fullmatch(r"Unpack\[(\w+)\]", _type(one.annotation))):
            yield from _unpacked(together[1])
            continue
        stars = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        text = f"{stars}{one.name}" + ("" if one.annotation is one.empty else f": {_type(one.annotation)}")
        yield text if one.default is one.empty else f"{text} = {_default(one.default)}"


def _unpacked(name: str) -> Iterator[str]:
    """Keywords that may all be left out."""
    for keyword, kind in getattr(import_module(UNPACKED[name]), name).__annotations__.items():
        yield f"{keyword}: {getattr(kind, '__forward_arg__', kind)} = …"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    text = repr(value)
    return "…" if text.startswith("<") else text


def _attributes(kind: type) -> list[str]:
    """Its fields that say what they are."""
    told = {
        name: text for base in reversed(kind.__mro__) if base.__module__.startswith("eventide.") for name, text in _told(base)
    }
    return [*(f"- `{name}`: {prose(text)}" for name, text in told.items()), ""] if told else []


def _told(kind: type) -> Iterator[tuple[str, str]]:
    """Each field of a class that has a text below it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
        if (
            told
            and isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and not field.target.id.startswith("_")
        ):
            yield field.target.id, inspect.cleandoc(below.value.value).replace("\n", " ")  # type: ignore[attr-defined]


def methods(kind: type) -> dict[str, Any]:
    """What a class offers, itself and by what it is made of, as far as that is ours."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("eventide."):
            more = {name: value for name, value in vars(base).items() if _is_method(base, name, value)}
            found |= {name: value for name, value in more.items() if name not in found}
    return found


def _is_method(kind: type, name: str, value: Any) -> bool:
    if name.startswith("_"):
        return False
    return isinstance(value, property | classmethod | staticmethod) or (
        inspect.isfunction(value) and value.__qualname__ == f"{kind.__name__}.{name}"
    )


def _methods(one: Named) -> Iterator[str]:
    for name, value in methods(one.thing).items():
        yield from (f"#### {one.name}.{name} {{#{one.anchor}.{name}}}", "")
        if not isinstance(value, property):
            yield from ("```python", signature(name, getattr(one.thing, name)), "```", "")
        yield from as_markdown(getattr(one.thing, name))
