"""The report of a reconciliation: the gap between emitted and complete, split until nothing is left, or what is left is named."""

from __future__ import annotations

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

    def __getitem__(self, name: str) -> Line:
        return next(line for line in self.lines if line.name == name)

    @property
    def explained(self) -> bool:
        """Whether nothing is left over."""
        rest = [line for line in self.lines if line.name == UNEXPLAINED]
        return not self.strange and all(not line.rows and all(map(self._zero, line.values.items())) for line in rest)

    def _zero(self, value: tuple[str, Any]) -> bool:
        """Floating-point sums taken in another order agree within a billionth of the largest."""
        name, left = value
        if not isinstance(left, float):
            return bool(left == 0)
        return bool(abs(left) <= 1e-9 * max(abs(line.values.get(name, 0) or 0) for line in self.lines))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "lines": [asdict(line) for line in self.lines],
            "notes": list(self.notes),
            "strange": self.strange,
            "explained": self.explained,
        }


def balanced(emitted: Line, parts: list[Line], reference: Line | None, notes: list[str]) -> Report:
    """The report whose last part is whatever the others leave over."""
    if reference is None:
        total = {name: value + sum(part.values.get(name, 0) for part in parts) for name, value in emitted.values.items()}
        return Report((emitted, *parts, Line("corrected", None, total)), tuple(notes))
    rest = {
        name: value - emitted.values.get(name, 0) - sum(part.values.get(name, 0) for part in parts)
        for name, value in reference.values.items()
    }
    rows = None
    if reference.rows is not None and emitted.rows is not None:
        rows = reference.rows - emitted.rows - sum(part.rows or 0 for part in parts)
    return Report((emitted, *parts, Line(UNEXPLAINED, rows, rest), reference), tuple(notes))
