"""Console: panes as lines for a person to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.changelog import changes
from eventide.sinks.ranked import emitted, together
from eventide.sinks.shape import PaneShape


class ConsoleWriter:
    """One line for each pane, with the change it makes in front."""

    def __init__(self, schema: pa.Schema, shape: PaneShape | None, limit: int) -> None:
        self.schema = schema
        self.shape = shape
        self.limit = limit

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Print the panes; beyond the limit, how many more there were."""
        table = emitted(panes, self.shape) if self.shape else together(panes, self.schema)
        marks = changes(table, self.shape) if self.shape else ["late"] * table.num_rows
        hidden = {self.shape.meta(name) for name in ("window_id", "op", "emitted_at", "generation")} if self.shape else set()
        shown = plain.rows(table.select([name for name in table.column_names if name not in hidden]).slice(0, self.limit))
        for mark, row in zip(marks, shown, strict=False):
            sys.stdout.write(f"{delivery.output} {mark} " + "  ".join(f"{k}={v}" for k, v in row.items()) + "\n")
        if table.num_rows > self.limit:
            sys.stdout.write(f"{delivery.output} … and {table.num_rows - self.limit} more\n")
        sys.stdout.flush()

    append = deliver

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class ConsoleSink:
    """Panes on standard output."""

    limit: int = 50

    @property
    def capabilities(self) -> Capabilities:
        """Each line names the change it makes (+I, -U, +U, -D), so that a person can follow; nothing is stored."""
        return Capabilities(upsert=True, retract=True, ordered=True, append=True)

    def open(self, output: str, shape: PaneShape) -> ConsoleWriter:
        """Anything can be printed."""
        return ConsoleWriter(shape.schema, shape, self.limit)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> ConsoleWriter:
        """Late rows or dead letters."""
        return ConsoleWriter(schema, None, self.limit)


def console(limit: int = 50) -> ConsoleSink:
    """Results as lines on standard output, at most `limit` for each micro-batch.

    >>> console()
    ConsoleSink(limit=50)
    """
    return ConsoleSink(limit)
