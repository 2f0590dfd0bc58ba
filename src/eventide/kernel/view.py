"""A view of results, put together for the columns that it reads: which rows are there, and what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from eventide.errors import DefinitionError
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import END
from eventide.kernel.expression import Value, columns, compiled, condition
from eventide.kernel.keys import one_of_equals
from eventide.kernel.operands import refuse_never, refuse_null
from eventide.model.expression import expression as read
from eventide.model.plan import OutputPlan
from eventide.model.trigger import When
from eventide.model.view import BOUNDS, View, Where

START = "__start"
THERE = "__there"
"""Whether a view shows a result; what is not there is absent."""


@dataclass(frozen=True)
class Shown:
    """The columns that are shown, and when a row is there at all (None: always)."""

    columns: Mapping[str, Value]
    there: pl.Expr | None

    def of(self, results: pl.DataFrame, instead_of: Sequence[str]) -> pl.DataFrame:
        """Results as they are shown, in place of the aggregates; null throughout where a row is absent, which the column THERE says."""
        shown = [self._where_there(value.value).alias(name) for name, value in self.columns.items()]
        if self.there is not None:
            shown.append(self.there.alias(THERE))
        kept = [name for name in results.columns if name not in instead_of]
        whole = results.with_columns(shown).select([*kept, *self.columns, *([] if self.there is None else [THERE])])
        return one_of_equals(whole, self.columns)

    def _where_there(self, value: pl.Expr) -> pl.Expr:
        return value if self.there is None else pl.when(self.there).then(value)


def filters(view: View) -> bool:
    """Whether results may be absent."""
    return any(isinstance(step, Where) for step in view.steps)


def shown(view: View, keys: Sequence[str], names: Sequence[str], kinds: Mapping[str, pl.DataType], start: pl.Expr) -> Shown:
    """A view of results with these keys and aggregates, beside the end of their window; `start` is where it begins."""
    have = columns(kinds)
    bounds = dict(zip(BOUNDS, (Value(start, pl.Int64()), Value(pl.col(END), pl.Int64())), strict=True))
    always = {**{key: have[key] for key in keys}, **bounds}
    values: Mapping[str, Value] = {name: have[name] for name in names}
    there: pl.Expr | None = None
    for step in view.steps:
        known = {**values, **always}
        if isinstance(step, Where):
            holds = condition(step.condition, known)
            there = holds if there is None else there & holds
        else:
            values = {name: compiled(node, known) for name, node in step.columns}
    return Shown(values, there)


def refuse_unanswerable(plan: BoundPlan, output: OutputPlan, kinds: Mapping[str, pl.DataType]) -> None:
    """Refuse what an output asks of its results where no result could answer; `kinds` are those of keys and finished aggregates."""
    have, what = columns(kinds), f"output {output.name!r}"
    if isinstance(output.early, When):
        refuse_never(read(output.early.condition), have, f"{what}: early=when(…)")
    known = {**have, **dict.fromkeys(BOUNDS, Value(pl.col(END), pl.Int64()))}
    for step in output.view.steps:
        if isinstance(step, Where):
            refuse_never(step.condition, known, f"{what}: where(…)")
            continue
        for name, node in step.columns:
            refuse_null(node, known, f"{what}: select({name}=…)")
        always = {name: known[name] for name in (*plan.keys, *BOUNDS)}
        known = {**always, **{name: compiled(node, known) for name, node in step.columns}}


def shown_kinds(plan: BoundPlan, output: OutputPlan, kinds: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The types of the columns that an output shows, from those of keys and finished aggregates; refuses what no column can hold."""
    names = [name for name, _ in plan.plan.aggregates]
    found = {name: value.kind for name, value in shown(output.view, plan.keys, names, kinds, pl.col(START)).columns.items()}
    for name, kind in found.items():
        if kind == pl.Null() and output.view.steps:
            raise DefinitionError(
                f"output {output.name!r}: select({name}=…) is null in every row: it computes with what are not numbers. Show another column."
            )
    return found
