"""The report of a reconciliation: the gap between emitted and complete, split until nothing is left, or what is left is named."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

EMITTED, LATE, DEAD, DUPLICATES = "emitted", "late tail", "dead letters", "duplicates"
MISSING, FOREIGN, UNEXPLAINED, REFERENCE = "never arrived", "not in the reference", "unexplained", "reference"


@dataclass(frozen=True)
class Line:
    """One part of the sum: rows where they are known, and each additive aggregate."""

    name: str
    rows: int | None
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """emitted + every part = reference."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    strange: int = 0
    """Windows that differ though no late row was theirs: sums may agree where two of them cancel."""
    rounding: dict[str, float] = field(default_factory=dict)
    """By how much the sums of floats may differ when they are taken in another order, where that is known."""

    def __getitem__(self, name: str) -> Line:
        return next(line for line in self.lines if line.name == name)

    @property
    def explained(self) -> bool:
        """Whether nothing is left over."""
        rest = [line for line in self.lines if line.name == UNEXPLAINED]
        return not self.strange and all(not line.rows and all(map(self._zero, line.values.items())) for line in rest)

    def _zero(self, value: tuple[str, Any]) -> bool:
        """Floating-point sums taken in another order agree within their rounding, or a billionth of the largest."""
        name, left = value
        if not isinstance(left, float) or left == 0 or not math.isfinite(left):
            return bool(left == 0)
        known = [1e-9 * abs(float(line.values.get(name, 0) or 0)) for line in self.lines]
        return bool(abs(left) <= max(one for one in (*known, self.rounding.get(name, 0.0)) if math.isfinite(one)))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "lines": [{**asdict(line), "values": {n: _plain(v) for n, v in line.values.items()}} for line in self.lines],
            "notes": list(self.notes),
            "strange": self.strange,
            "explained": self.explained,
        }


def _plain(value: Any) -> Any:
    """JSON has no word for infinities and for what is no number."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def balanced(emitted: Line, parts: list[Line], reference: Line | None, notes: list[str]) -> Report:
    """The report whose last part is whatever the others leave over."""
    names = emitted.values if reference is None else reference.values
    total = {name: emitted.values.get(name, 0) + sum(part.values.get(name, 0) for part in parts) for name in names}
    if reference is None:
        return Report((emitted, *parts, Line("corrected", None, total)), tuple(notes))
    rest = {name: _left(value, total[name]) for name, value in reference.values.items()}
    rows = None
    if reference.rows is not None and emitted.rows is not None:
        rows = reference.rows - emitted.rows - sum(part.rows or 0 for part in parts)
    return Report((emitted, *parts, Line(UNEXPLAINED, rows, rest), reference), tuple(notes))


def _left(whole: Any, told: Any) -> Any:
    """Nothing is left between two infinities of one sign, nor between two that are no number.

    >>> _left(float("inf"), float("inf")), _left(float("inf"), 3.0), _left(5, 3)
    (0.0, inf, 2)
    """
    if isinstance(whole, float) and not math.isfinite(whole) and str(whole) == str(float(told)):
        return 0.0
    if isinstance(whole, float) != isinstance(told, float):  # a decimal beside a float, or a whole number
        return float(whole) - float(told)
    return whole - told
