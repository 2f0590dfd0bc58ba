"""A pipeline of several aggregations, stages and joins: named nodes, each of which names what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from eventide.errors import DefinitionError
from eventide.model.aggregate import Aggregate
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.view import WHOLE, View
from eventide.model.window import Sliding, Window


@dataclass(frozen=True)
class Rows:
    """The rows of a stream: its sources, by their index, its columns with their SQL types, and its deduplication."""

    name: str
    sources: tuple[int, ...] = (0,)
    columns: tuple[tuple[str, str], ...] = ()
    dedupe_within: int | None = None


@dataclass(frozen=True)
class Between:
    """A left row l and a right row r are near enough iff lo ≤ r.t − l.t ≤ hi."""

    lo: int
    hi: int


INNER, LEFT, RIGHT, FULL = "inner", "left", "right", "full"
HOWS = (INNER, LEFT, RIGHT, FULL)


@dataclass(frozen=True)
class Join:
    """Pairs of rows of two streams whose keys are equal and whose times are near enough; `allowed` is its one A."""

    name: str
    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    """(column of the left, column of the right)."""
    within: Between | Sliding
    how: str = INNER
    allowed: int = 0
    prefix: tuple[str, str] = ("", "")
    """Put before the columns of each side, but for keys that have one name on both."""
    self_pairs: bool = False
    """Whether a stream joined with itself pairs a row with itself."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are the same on both sides, and stand once."""
        return tuple(left for left, right in self.on if left == right)


@dataclass(frozen=True)
class Aggregation:
    """Windows over rows, over the pairs of an inner join, or over the results of another aggregation."""

    name: str
    of: str
    window: Window
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True)
class Results:
    """The standing results of an aggregation, read with an allowed lateness of their own, as rows of the next stage."""

    name: str
    of: str
    allowed: int = 0
    view: View = WHOLE


@dataclass(frozen=True)
class Reading:
    """An output and the node that it reads: an aggregation's results, a join's pairs, or the judged rows themselves."""

    of: str
    output: OutputPlan


Node = Rows | Join | Aggregation | Results
Kind = TypeVar("Kind", Rows, Join, Aggregation, Results)


@dataclass(frozen=True)
class Graph:
    """Sources into named nodes into outputs; `soundness.check` says whether it means anything."""

    sources: tuple[SourcePlan, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Reading, ...]
    when_all_idle: str = "hold"
    generation: int = 0

    def node(self, name: str) -> Node:
        """The node of a name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise DefinitionError(f"nothing is called {name!r}. There are {', '.join(node.name for node in self.nodes)}.")

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """The nodes of one kind."""
        return [node for node in self.nodes if isinstance(node, kind)]

    def readings(self, name: str) -> list[OutputPlan]:
        """The outputs that read a node."""
        return [reading.output for reading in self.outputs if reading.of == name]

    def plan(self, aggregation: Aggregation) -> Plan:
        """One aggregation as if it were alone."""
        rows = self.all_of(Rows)[0]
        return Plan(
            self.sources,
            aggregation.window,
            aggregation.aggregates,
            tuple(self.readings(aggregation.name)),
            rows.dedupe_within,
            self.when_all_idle,
            self.generation,
            aggregation.keys,
        )


def reads(node: Node) -> tuple[str, ...]:
    """The names of the nodes that a node reads.

    >>> reads(Results("minute results", of="minutes"))
    ('minutes',)
    """
    if isinstance(node, Join):
        return (node.left, node.right)
    return () if isinstance(node, Rows) else (node.of,)
