"""A view of results: which of them are shown, and what of them; over the keys, the bounds and the aggregates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide.errors import DefinitionError
from eventide.model.expression import Expression, Node, evaluate, expression, holds, known
from eventide.model.expression import condition as condition_of
from eventide.model.window import Bounds

BOUNDS = ("window_start", "window_end")
OURS = frozenset({*BOUNDS, "sequence", "timing", "op"})
"""Columns that every result has, so that no other may be called so."""


@dataclass(frozen=True)
class Where:
    """Only results for which the condition holds are there; a null condition is no."""

    condition: Node

    def __str__(self) -> str:
        return f"where({_bare(self.condition)})"


@dataclass(frozen=True)
class Select:
    """Each column is computed anew; keys and bounds stay."""

    columns: tuple[tuple[str, Node], ...]

    def __str__(self) -> str:
        return f"select({', '.join(f'{name}={_bare(node)}' for name, node in self.columns)})"


@dataclass(frozen=True)
class View:
    """Steps in the order in which they were written.

    >>> view = View().where("closest < 1000").select(km="closest / 1000")
    >>> view.row(((0, 60), ("sat-7",)), ("object",), {"closest": 250})
    {'km': 0.25}
    >>> view.row(((0, 60), ("sat-7",)), ("object",), {"closest": 9000}) is None
    True
    >>> print(view)
    where("closest" < 1000).select(km="closest" / 1000)
    """

    steps: tuple[Where | Select, ...] = ()

    def __str__(self) -> str:
        return ".".join(map(str, self.steps))

    def where(self, condition: str | Expression) -> View:
        """Hold back the results for which the condition is false or null."""
        return View((*self.steps, Where(condition_of(condition, "where(…)"))))

    def select(self, **columns: str | Expression) -> View:
        """Show these columns instead of the aggregates."""
        if not columns:
            raise DefinitionError('select() shows nothing; name at least one column, as in select(mean="total / n").')
        return View((*self.steps, Select(tuple((name, expression(c, f"select({name}=…)")) for name, c in columns.items()))))

    def names(self, keys: Iterable[str], values: Iterable[str], where: str) -> tuple[str, ...]:
        """The columns that are shown beside keys and bounds; refuses a step that reads what is not there."""
        always, there = (*keys, *BOUNDS), tuple(values)
        for step in self.steps:
            if isinstance(step, Where):
                known(step.condition, (*always, *there), f"{where}: where(…)")
                continue
            for name, node in step.columns:
                known(node, (*always, *there), f"{where}: select({name}=…)")
                if name in OURS or name in always:
                    raise DefinitionError(
                        f"{where}: select({name}=…): every result already has {name!r}; give it another name."
                    )
            there = tuple(name for name, _ in step.columns)
        return there

    def row(
        self, window_id: tuple[Bounds, Hashable], keys: tuple[str, ...], values: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """What is shown of a result, or None where it is absent."""
        always, there = beside(window_id, keys), dict(values)
        for step in self.steps:
            row = {**there, **always}
            if isinstance(step, Select):
                there = {name: evaluate(node, row) for name, node in step.columns}
            elif not holds(step.condition, row):
                return None
        return there


def _bare(node: Node) -> str:
    text = str(node)
    return text[1:-1] if text.startswith("(") else text


WHOLE = View()
"""Everything is shown as it was computed."""


def beside(window_id: tuple[Bounds, Hashable], keys: tuple[str, ...]) -> dict[str, Any]:
    """The columns that a result has whatever was computed: its keys and its bounds.

    >>> beside(((0, 60), ("sbi",)), ("bank",))
    {'bank': 'sbi', 'window_start': 0, 'window_end': 60}
    """
    bounds, key = window_id
    parts = key if isinstance(key, tuple) else (key,)
    return {**dict(zip(keys, parts, strict=bool(keys))), **dict(zip(BOUNDS, bounds, strict=True))}
