"""How one shape of a field becomes the other: SQL expressions both ways, over dotted paths."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Change(StrEnum):
    """What happens to a field."""

    RENAME = "rename"
    RETYPE = "retype"
    NEST = "nest"
    FLATTEN = "flatten"
    MEANING = "meaning"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One change: the old leaves, the new leaves, and how each side is computed from the other.

    `certain` is off where the expressions are a proposal that somebody must look at before the plan is confirmed.

    >>> m = Mapping(Change.RENAME, ("signup_date",), ("created_at",),
    ...             {"created_at": "CAST(signup_date AS TIMESTAMP)"}, {"signup_date": "CAST(created_at AS DATE)"})
    >>> print(m)
    rename signup_date -> created_at
    """

    change: Change
    old: tuple[str, ...]
    new: tuple[str, ...]
    forward: Map[str, str] = field(default_factory=dict)
    backward: Map[str, str] = field(default_factory=dict)
    certain: bool = True
    why: str = ""

    def __str__(self) -> str:
        return f"{self.change} {', '.join(self.old)} -> {', '.join(self.new) or 'nothing'}"

    def edited(self, forward: Map[str, str], backward: Map[str, str]) -> Mapping:
        """The mapping with some expressions replaced by somebody who knows; once all are, it is certain."""
        mine_forward = {path: sql for path, sql in forward.items() if path in self.new}
        mine_backward = {path: sql for path, sql in backward.items() if path in self.old}
        if not mine_forward and not mine_backward:
            return self
        whole = set(mine_forward) == set(self.new) and set(mine_backward) == set(self.old)
        return replace(
            self,
            forward={**self.forward, **mine_forward},
            backward={**self.backward, **mine_backward},
            certain=self.certain or whole,
            why="given" if whole else self.why,
        )

    def as_json(self) -> dict[str, Any]:
        """The mapping as the store and the service write it."""
        return {
            "change": self.change.value,
            "old": list(self.old),
            "new": list(self.new),
            "forward": dict(self.forward),
            "backward": dict(self.backward),
            "certain": self.certain,
            "why": self.why,
        }

    @classmethod
    def from_json(cls, body: Map[str, Any]) -> Mapping:
        """The mapping that `as_json` wrote."""
        return cls(
            Change(body["change"]),
            tuple(body["old"]),
            tuple(body["new"]),
            dict(body["forward"]),
            dict(body["backward"]),
            bool(body["certain"]),
            str(body["why"]),
        )


def touches(path: str, others: tuple[str, ...]) -> bool:
    """Is the path one of these, inside one of these, or around one of these? `*` is around everything.

    >>> touches("pricing", ("pricing.base",)), touches("price", ("pricing.base",)), touches("*", ("a",))
    (True, False, True)
    """
    if path == "*":
        return bool(others)
    return any(path == o or path.startswith(o + ".") or o.startswith(path + ".") for o in others)
