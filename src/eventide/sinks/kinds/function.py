"""A function of the user's own, called with each delivery as an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.ranked import emitted, together
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape, require_keyed

Function = Callable[[pa.Table, Delivery], Any]


class FunctionWriter:
    """Calls the function once per delivery; again if it raises SinkUnavailable, or if the batch is run again."""

    def __init__(self, call: Function, schema: pa.Schema, retry: Retry, shape: PaneShape | None = None) -> None:
        self.call = call
        self.schema = schema
        self.retry = retry
        self.shape = shape

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Hand over the panes in the order of emission; an exception of the user's stops the batch and is raised as it is."""
        table = emitted(panes, self.shape) if self.shape else together(panes, self.schema)
        if table.num_rows:
            self.retry.run(lambda: self.call(table, delivery))

    append = deliver

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class FunctionSink:
    """Panes to a function."""

    call: Function = field(repr=False)
    keyed: bool = False
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    def __repr__(self) -> str:
        return f"function({self.name}, keyed={self.keyed})"

    @property
    def capabilities(self) -> Capabilities:
        """A function that keeps one row per window and compares ranks can take corrections."""
        return Capabilities(upsert=self.keyed, retract=self.keyed, ordered=True, append=True)

    def open(self, output: str, shape: PaneShape) -> FunctionWriter:
        """Refuse what a function without a memory would get wrong."""
        require_keyed(repr(self), self.keyed, shape)
        return FunctionWriter(self.call, shape.schema, self.retry, shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> FunctionWriter:
        """Late rows or dead letters."""
        return FunctionWriter(self.call, schema, self.retry)


def function(fn: Function, *, keyed: bool = False, retry: Retry | None = None) -> FunctionSink:
    """Results to a function of your own: it gets an Arrow table and the delivery; the same ones may come twice.

    `keyed=True` states that it keeps one row per window, and ignores a pane that does not outrank it
    by (generation, sequence, op).

    >>> function(print)
    function(print, keyed=False)
    """
    return FunctionSink(fn, keyed, retry or Retry())
