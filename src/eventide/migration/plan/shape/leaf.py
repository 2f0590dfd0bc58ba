"""One leaf of a schema: what it is, whatever language the schema is written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NUMBERS = frozenset({"int", "long", "float", "double", "decimal"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field that holds a value rather than further fields.

    Attributes:
        path: its dotted path from the root.
        type: its kind in plain words: int, long, double, string, date, timestamp, boolean, bytes, decimal, or other.
        definition: its type in the schema's own words, without the null.
        nullable: may it be null or missing?
        doc: what the schema says about it.
        aliases: names it had before, in its record.
        meaning: properties that say how to read the value, such as a unit.
    """

    path: str
    type: str
    definition: Any
    nullable: bool = False
    doc: str = ""
    aliases: tuple[str, ...] = ()
    meaning: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The path of the record it is in; empty at the root."""
        return self.path.rpartition(".")[0]

    @property
    def top(self) -> str:
        """The first part of the path."""
        return self.path.partition(".")[0]


def trees(paths: Iterable[str]) -> dict[str, list[str]]:
    """Leaves by their top-level column, in order.

    >>> trees(["a", "p.x", "p.y"])
    {'a': ['a'], 'p': ['p.x', 'p.y']}
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(path.partition(".")[0], []).append(path)
    return found
