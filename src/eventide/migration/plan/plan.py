"""A plan: what changes, how to add the new shape to a schema and how to take the old one away."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from typing import Any

from eventide.migration.plan.mapping import Mapping
from eventide.migration.plan.policy import Policy
from eventide.migration.plan.shape.addition import Addition
from eventide.migration.plan.shape.leaf import Leaf


@dataclass(frozen=True, slots=True)
class Plan:
    """A breaking change taken apart: additions first, drops last, and between them the mappings.

    The expanded and the contracted schema are made from whatever the subject's latest version is when they are
    needed, so that several migrations of one subject can be under way at once.
    """

    kind: str
    mappings: tuple[Mapping, ...]
    additions: tuple[Addition, ...]
    drops: tuple[str, ...]
    notes: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    leaves: Map[str, Leaf] = field(default_factory=dict)
    """The leaves of both shapes, with their types."""
    retired: tuple[str, ...] = ()
    """The drops that stay in the schema as names without meaning, because the level does not let them go."""
    tight: tuple[Addition, ...] = ()
    """The new fields as the wanted schema has them, where that asks for more than the expanded one."""
    required: tuple[str, ...] = ()
    """The new leaves that every record must have before they are tightened."""

    @property
    def old(self) -> tuple[str, ...]:
        """Every leaf of the old shape."""
        return tuple(path for m in self.mappings for path in m.old)

    @property
    def new(self) -> tuple[str, ...]:
        """Every leaf of the new shape."""
        return tuple(path for m in self.mappings for path in m.new)

    @property
    def guesses(self) -> tuple[Mapping, ...]:
        """The mappings that nobody has looked at yet."""
        return tuple(m for m in self.mappings if not m.certain)

    def edited(self, forward: Map[str, str], backward: Map[str, str]) -> Plan:
        """The plan with expressions replaced."""
        return replace(self, mappings=tuple(m.edited(forward, backward) for m in self.mappings))

    def as_json(self) -> dict[str, Any]:
        """The plan as the store and the service write it."""
        return {
            "kind": self.kind,
            "mappings": [m.as_json() for m in self.mappings],
            "additions": [_written(a) for a in self.additions],
            "drops": list(self.drops),
            "notes": list(self.notes),
            "policy": self.policy.as_json(),
            "leaves": {p: {"type": leaf.type, "definition": leaf.definition} for p, leaf in self.leaves.items()},
            "retired": list(self.retired),
            "tight": [{**_written(a), "required": a.required} for a in self.tight],
            "required": list(self.required),
        }

    @classmethod
    def from_json(cls, body: Map[str, Any]) -> Plan:
        """The plan that `as_json` wrote."""
        return cls(
            str(body["kind"]),
            tuple(Mapping.from_json(m) for m in body["mappings"]),
            tuple(Addition(a["parent"], a["name"], a["definition"]) for a in body["additions"]),
            tuple(body["drops"]),
            tuple(body["notes"]),
            Policy.from_json(body["policy"]),
            {p: Leaf(p, leaf["type"], leaf["definition"]) for p, leaf in body["leaves"].items()},
            tuple(body.get("retired", ())),
            tuple(Addition(**a) for a in body.get("tight", ())),
            tuple(body.get("required", ())),
        )


def _written(addition: Addition) -> dict[str, Any]:
    return {"parent": addition.parent, "name": addition.name, "definition": addition.definition}
