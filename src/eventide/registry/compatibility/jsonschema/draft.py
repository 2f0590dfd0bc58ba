"""The draft that a JSON Schema is written in decides how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.registry.compatibility.jsonschema.classic import ClassicLoader
from eventide.registry.compatibility.jsonschema.loader import DRAFT_4, DRAFT_2019, draft_of
from eventide.registry.compatibility.jsonschema.locate import Library
from eventide.registry.compatibility.jsonschema.modern import ModernLoader
from eventide.registry.compatibility.jsonschema.shape import Shape
from eventide.registry.compatibility.schema import InvalidSchema


def load(root: Any, references: Mapping[str, str], *, strict: bool = True) -> Shape:
    """The shape of a whole document; what only a new schema must get right passes if it is not read strictly.

    Raises:
        InvalidSchema: a keyword has a value of the wrong kind, or a reference leads nowhere.
    """
    if not isinstance(root, (dict, bool)):
        raise InvalidSchema("a JSON Schema is an object or a boolean")
    draft = draft_of(root)
    library = Library(root, references, "id" if draft == DRAFT_4 else "$id")
    loader = (ModernLoader if draft >= DRAFT_2019 else ClassicLoader)(draft, library, strict)
    return loader.load_all(library.root)
