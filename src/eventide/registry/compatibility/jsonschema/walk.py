"""A comparison of two shapes, as a generator that its caller answers."""

from __future__ import annotations

from collections.abc import Generator

from eventide.registry.compatibility.jsonschema.changes import Change
from eventide.registry.compatibility.jsonschema.shape import Shape

Walk = Generator[tuple[Shape, Shape] | int, list[Change], list[Change]]
"""A comparison that asks for the changes of inner pairs; by a number it asks for that much of the budget."""
