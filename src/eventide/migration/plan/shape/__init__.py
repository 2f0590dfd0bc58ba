"""The shape of a schema: its leaves by dotted path, and the same schema with fields added or taken away."""

from eventide.migration.plan.shape.language import Language, language
from eventide.migration.plan.shape.leaf import Leaf

__all__ = ["Language", "Leaf", "language"]
