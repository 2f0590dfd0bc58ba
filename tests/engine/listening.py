"""A user's function that keeps one row per window by rank, as `keyed=True` states, and lives longer than any run."""

from __future__ import annotations

import pyarrow as pa
from told import Table

from eventide.sinks.base import Delivery
from eventide.sinks.changelog import CurrentRows
from eventide.sinks.plain import rows


class Listener:
    def __init__(self) -> None:
        self.current, self.retracted = CurrentRows(), list[str]()

    def __call__(self, panes: pa.Table, delivery: Delivery) -> None:
        for row in rows(panes):
            row["op"] = "-D" if row["op"] == "retract" else "+U" if row["sequence"] else "+I"
            self.current.apply(row)
            self.retracted += [row["window_id"]] if row["op"] == "-D" else []

    def forget(self) -> None:
        self.current = CurrentRows()

    def totals(self) -> dict[str, int]:
        return {row["window_id"]: row["total"] for row in self.current}

    def table(self) -> Table:
        return {(*map(int, r["window_id"].split(":")[:2]), r["bank"]): (r["n"], r["total"]) for r in self.current}  # type: ignore[misc]
