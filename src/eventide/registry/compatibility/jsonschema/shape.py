"""What a JSON Schema says, sorted by form: the model in which Confluent compares two of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()
"""No default was given; a default of null is one."""


class Shape:
    """One form of a schema: string, number, object, array, enum, const, not, combined, ref, empty, true, false...

    `facts` has the plain keywords (bounds, pattern, required...); the other slots have the schemas inside.
    """

    __slots__ = (
        "additional",
        "additional_shape",
        "branches",
        "criterion",
        "default",
        "dependent",
        "description",
        "facts",
        "form",
        "generated",
        "id",
        "inner",
        "patterns",
        "properties",
        "self_contained",
        "source",
        "source_text",
        "title",
        "tuple_items",
        "unevaluated",
    )

    def __init__(self, form: str, facts: dict[str, Any] | None = None) -> None:
        self.form = form
        self.facts: dict[str, Any] = facts if facts is not None else {}
        self.id: str | None = None
        self.title: str | None = None
        self.description: str | None = None
        self.default: Any = ABSENT
        self.source: Any = None  # the JSON it was made from, or words that stand for it
        self.source_text: str | None = None
        self.self_contained = 0  # the draft, if nothing in it refers to anything else
        self.inner: Shape | None = None  # the items of an array, what a not forbids, what a ref stands for
        self.tuple_items: list[Shape] = []
        self.properties: dict[str, Shape] = {}
        self.patterns: list[tuple[str, Shape]] = []
        self.dependent: dict[str, Shape] = {}
        self.additional = True
        self.additional_shape: Shape | None = None
        self.unevaluated: Shape | None = None
        self.criterion = ""
        self.branches: list[Shape] = []
        self.generated = False

    @property
    def is_empty(self) -> bool:
        """Whether it allows everything."""
        return self.form in ("empty", "true")

    @property
    def signature(self) -> object:
        """The same for two shapes that were written alike."""
        if self.source_text is None and isinstance(self.source, dict):
            self.source_text = json.dumps(self.source, sort_keys=True)
        return self.source_text or self.source or (self.form, id(self))

    def is_twin_of(self, other: Shape) -> bool:
        """Whether both were written alike and mean the same wherever they stand: then there is nothing to compare."""
        if not self.self_contained or self.self_contained != other.self_contained:
            return False
        return self.form == other.form and self.signature == other.signature

    def resolved(self) -> Shape:
        """What a reference leads to in the end; a reference that only leads to itself allows everything."""
        shape, steps = self, 0
        while shape.form == "ref" and shape.inner is not None:
            shape, steps = shape.inner, steps + 1
            if steps > 1000:
                return Shape("empty")
        return shape

    def __repr__(self) -> str:
        return f"Shape({self.form!r}, {self.facts!r})"


def combined(criterion: str, branches: Iterable[Shape], *, generated: bool = False) -> Shape:
    """Several shapes of which all, any or one must hold."""
    shape = Shape("combined")
    shape.criterion = criterion
    shape.branches = list(branches)
    shape.generated = generated
    return shape


def merge(one: Shape, other: Shape) -> Shape:
    """Two shapes of the same form as one; what the second says wins."""
    shape = Shape(one.form, {**one.facts, **other.facts})
    if one.form == "object":
        shape.facts["required"] = one.facts.get("required", frozenset()) | other.facts.get("required", frozenset())
        shape.facts["dependencies"] = {**one.facts.get("dependencies", {}), **other.facts.get("dependencies", {})}
    for name in ("id", "title", "description", "inner", "additional_shape", "unevaluated"):
        given = getattr(other, name)
        setattr(shape, name, getattr(one, name) if given is None else given)
    shape.default = one.default if other.default is ABSENT else other.default
    shape.tuple_items = one.tuple_items + other.tuple_items
    shape.properties = {**one.properties, **other.properties}
    shape.patterns = one.patterns + other.patterns
    shape.dependent = {**one.dependent, **other.dependent}
    shape.additional = one.additional and other.additional
    return shape
