"""A target that holds one row per identity: its columns, the check of what is there, and the writer that fills it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, TargetMismatch
from eventide.redaction import printable
from eventide.sinks.base import Delivery, Held
from eventide.sinks.chunks import narrowed
from eventide.sinks.ranked import highest, rank_columns, together
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape

Result = TypeVar("Result")


@dataclass(frozen=True)
class Target:
    """A table that holds one row per identity; with a rank the higher one stays, without one the first."""

    name: str
    columns: pa.Schema
    identity: tuple[str, ...]
    rank: tuple[str, ...] = ()
    addable: frozenset[str] = frozenset()
    """Columns that may be added to a table that is already there: the user's aggregates."""

    @classmethod
    def of_panes(cls, name: str, shape: PaneShape) -> Target:
        """The table behind an output: `<name>_panes`, next to the view `<name>` that people read."""
        if shape.accumulation == "discarding":
            for value, kind in shape.values:
                if pa.types.is_nested(kind):
                    raise DefinitionError(
                        f"the deltas of {value!r} ({kind}) cannot be added up in a table: {name!r} would show something else. Use an "
                        "accumulating output, or a sink whose reader puts deltas together itself (kafka_topic, webhook, function)."
                    )
        # A delta's identity is its rank: the one that is there is the same one, unless it was withdrawn.
        rank = tuple(name for name in rank_columns(shape) if name not in shape.identity)
        return cls(panes_table(name), shape.schema, shape.identity, rank, frozenset(shape.value_names))

    @classmethod
    def of_log(cls, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> Target:
        """A table of late rows or dead letters, one row for each identity."""
        fields = [field.with_nullable(field.nullable and field.name not in identity) for field in schema]
        return cls(name, pa.schema(fields), identity, addable=frozenset(schema.names) - set(identity))

    @property
    def others(self) -> list[str]:
        """The columns outside the identity."""
        return [name for name in self.columns.names if name not in self.identity]


def panes_table(name: str, generation: int | None = None) -> str:
    """The table behind a view; a generation of another shape than the one before it gets one of its own.

    >>> panes_table("totals"), panes_table("totals", 3)
    ('totals_panes', 'totals_panes_g3')
    """
    return f"{name}_panes" if generation is None else f"{name}_panes_g{generation}"


def refuse_other_shape(name: str, held: Held | None, shape: PaneShape) -> None:
    """Results of two shapes never stand in one table: sums over it would count every row twice."""
    if held is not None and held.signature and held.signature != shape.signature:
        raise TargetMismatch(
            f"{name!r} holds generation {held.generation} of another shape: {held.signature}, the output has {shape.signature}. Results of "
            "both in one table would count every row twice. Start over with the next generation, which replaces the older one when it has "
            "caught up (eventide run FILE --start-over), or give the output another target."
        )


def additions(target: Target, have: Mapping[str, Any], want: Mapping[str, Any], same: Callable[[Any, Any], bool]) -> list[str]:
    """The columns to add to a target that is there; one that differs in any other way is refused, and says how."""
    missing = [name for name in want if name not in have]
    wrong = [f"column {name!r} ({want[name]}) is missing" for name in missing if name not in target.addable]
    wrong += [
        f"column {name!r} is {have[name]}, the output needs {kind}"
        for name, kind in want.items()
        if name in have and not same(have[name], kind)
    ]
    wrong += [f"column {name!r} ({kind}) is not of this output" for name, kind in have.items() if name not in want]
    if wrong:
        raise TargetMismatch(
            f"{target.name!r} is there and has another shape than the output: {'; '.join(wrong)}. "
            "Give the output another target, or change that one."
        )
    return missing


class TableWriter(ABC):
    """Panes or log rows into one target, a delivery at a time."""

    def __init__(self, target: Target, retry: Retry, shape: PaneShape | None = None) -> None:
        self.target = target
        self.retry = retry
        self.shape = shape

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Apply the panes by rank."""
        rows = self.gathered(panes)
        if rows.num_rows:
            self.store(rows, delivery)

    def append(self, rows: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Append the rows that are not there yet."""
        self.deliver(rows, delivery)

    def gathered(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """All batches as one table, without the panes that others among them outrank, in the order of the key."""
        table = together(self.fitting(batches), self.target.columns)
        return highest(table, self.shape) if self.shape else table

    def fitting(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The columns of the target, with its types."""
        columns = self.target.columns
        for batch in batches:
            yield from narrowed(pa.Table.from_batches([batch]).select(columns.names), columns).to_batches()

    def attempt(self, action: Callable[[], Result]) -> Result:
        """Do something at the far end, again while it is unavailable; its errors become ours."""

        def once() -> Result:
            try:
                return action()
            except (SinkError, DefinitionError):
                raise
            except Exception as cause:
                raise self.error(cause) from printable(cause)

        return self.retry.run(once)

    @abstractmethod
    def error(self, cause: Exception) -> SinkError:
        """What an error of the library underneath means: try again, or never."""

    @abstractmethod
    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """Put the rows of one delivery into the target, all or nothing; again while it is unavailable."""

    def close(self) -> None:  # noqa: B027 (most targets hold nothing open)
        """Let go of connections."""
