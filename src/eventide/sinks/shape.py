"""The columns of a pane table: what the user named, then what Eventide adds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from eventide.errors import DefinitionError

ADDITIVE = ("sum", "min", "max")
INSTANT = pa.timestamp("us", tz="UTC")

META: dict[str, pa.DataType] = {
    "window_id": pa.string(),
    "window_start": INSTANT,
    "window_end": INSTANT,
    "sequence": pa.int64(),
    "op": pa.string(),
    "timing": pa.string(),
    "generation": pa.int64(),
    "emitted_at": INSTANT,
}
"""Eventide's own columns: `op` is insert or retract, `timing` is early, on_time or late."""


def aside(name: str, taken: Iterable[str]) -> str:
    """The name under which a column of ours stands beside a user's: with as many underscores before it as it needs.

    >>> aside("_offset", ["bank", "_offset"])
    '__offset'
    """
    # Without regard to case: SQLite, DuckDB and Spark hold "Sequence" and "sequence" for one name.
    known = {user.casefold() for user in taken}
    while name in known:
        name = "_" + name
    return name


def named_aside(name: str, columns: Iterable[str]) -> str:
    """The column of ours in a table where it may have stepped aside.

    >>> named_aside("_offset", ["_offset", "__offset"]), named_aside("_lane", ["_lane"])
    ('__offset', '_lane')
    """
    have = set(columns)
    while "_" + name in have:
        name = "_" + name
    return name


@dataclass(frozen=True)
class PaneShape:
    """Keys and values under the user's names; a column of ours steps aside (`_sequence`) where a user took its name.

    >>> shape = PaneShape(keys=(("sequence", pa.string()),), values=(("total", pa.int64()),))
    >>> shape.meta("sequence"), shape.meta("op")
    ('_sequence', 'op')
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    values: tuple[tuple[str, pa.DataType], ...]
    accumulation: str = "accumulating"
    additive: tuple[tuple[str, str], ...] = ()
    """For discarding outputs: how a view adds the deltas of a value, where that is not `sum` (`min`, `max`)."""
    window: str = ""
    """The windows in words."""

    def __post_init__(self) -> None:
        for name, function in self.additive:
            if function not in ADDITIVE:
                raise DefinitionError(f"deltas of {name!r} cannot be added by {function!r}; allowed are {', '.join(ADDITIVE)}")

    @property
    def key_names(self) -> tuple[str, ...]:
        """The user's key columns, in order."""
        return tuple(name for name, _ in self.keys)

    @property
    def value_names(self) -> tuple[str, ...]:
        """The aggregates, in order."""
        return tuple(name for name, _ in self.values)

    def meta(self, name: str) -> str:
        """The name under which one of our columns appears in this table."""
        return aside(name, (*self.key_names, *self.value_names))

    def added_by(self, value: str) -> str:
        """The function that adds up a value's deltas."""
        return dict(self.additive).get(value, "sum")

    @property
    def identity(self) -> tuple[str, ...]:
        """The primary key: the window, or for deltas that a view adds up, each delivery of it."""
        if self.accumulation == "discarding":
            return (self.meta("window_id"), self.meta("generation"), self.meta("sequence"))
        return (self.meta("window_id"),)

    @property
    def rank_identity(self) -> tuple[str, ...]:
        """What tells a pane from every other: the window, and its rank."""
        return tuple(self.meta(name) for name in ("window_id", "generation", "sequence", "op"))

    @property
    def signature(self) -> str:
        """Windows and keys as a text: the results of two generations can share a table only where it is the same.

        >>> PaneShape(keys=(("bank", pa.string()),), values=(), window="tumbling(1 minute)").signature
        '{"window": "tumbling(1 minute)", "keys": [["bank", "string"]], "deltas": false}'
        """
        keys = [[name, str(kind)] for name, kind in self.keys]
        return json.dumps({"window": self.window, "keys": keys, "deltas": self.accumulation == "discarding"})

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch of panes handed to a sink."""
        ours = {name: pa.field(self.meta(name), kind, nullable=False) for name, kind in META.items()}
        users = [pa.field(name, kind) for name, kind in (*self.keys, *self.values)]
        return pa.schema(
            [ours["window_id"], ours["window_start"], ours["window_end"], *users]
            + [ours[name] for name in ("sequence", "op", "timing", "generation", "emitted_at")]
        )


def require_keyed(name: str, keyed: bool, shape: PaneShape) -> None:
    """Refuse retractions and deltas to a far end that is not known to remember the ranks it applied."""
    if not keyed and ("retract" in shape.accumulation or shape.accumulation == "discarding"):
        raise DefinitionError(
            f"{name} cannot take a {shape.accumulation} output: a repeated or late pane would be applied twice. "
            "If the receiver keeps one row per window and compares (generation, sequence, op), say so with keyed=True."
        )
