"""A field that a schema is to get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Addition:
    """A field to be added: its definition in the schema's own language, and the record it goes into (`""`: the root)."""

    parent: str
    name: str
    definition: Any
    required: bool = False
    """Must every record have it? Only once the field is tightened."""

    @property
    def path(self) -> str:
        """Where it will be."""
        return f"{self.parent}.{self.name}" if self.parent else self.name
