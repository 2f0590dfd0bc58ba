"""Which type a name means: the names that a file and its imports define, and the scopes they are looked for in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eventide.registry.compatibility.protobuf.element import Enum, Extend, Field, File, Message
from eventide.registry.compatibility.protobuf.known import known_file

HERE = ""
"""The document of what the file itself defines."""


@dataclass(frozen=True, slots=True)
class Defined:
    """A message or enum, the package it is in, and the document that defines it."""

    package: str
    document: str
    element: Message | Enum

    @property
    def is_map(self) -> bool:
        """Whether it is the entry of a map, as descriptors write them."""
        return isinstance(self.element, Message) and str(self.element.option("map_entry")) == "true"

    def as_map(self) -> str:
        """The map that the entry stands for."""
        fields = {field.name: field.type for field in self.element.fields} if isinstance(self.element, Message) else {}
        return f"map<{fields.get('key', 'string')}, {fields.get('value', 'string')}>"


class Names:
    """Everything that a file and what it imports define, by full name."""

    def __init__(self, file: File, imports: Mapping[str, File]) -> None:
        self.package = file.package or ""
        self.types: dict[str, Defined] = {}
        self.extensions: dict[str, Field] = {}
        for name, imported in imports.items():
            self._collect(name, imported)
        for name in (*file.imports, *file.public_imports, *file.weak_imports):
            self._collect_known(name, set(imports))
        self._collect(HERE, file)

    def _collect_known(self, name: str, seen: set[str]) -> None:
        waiting = [name]
        while waiting:
            name = waiting.pop()
            known = None if name in seen else known_file(name)
            if known is not None:
                seen.add(name)
                self._collect(name, known)
                waiting += known.public_imports

    def _collect(self, document: str, file: File) -> None:
        package = file.package or ""
        self._extend(file.extends, package)
        waiting: list[tuple[str, Message | Enum]] = [(package, inner) for inner in file.types]
        while waiting:
            scope, element = waiting.pop()
            full = f"{scope}.{element.name}" if scope else element.name
            self.types[full] = Defined(package, document, element)
            if isinstance(element, Message):
                self._extend(element.extends, full)
                waiting += [(full, inner) for inner in element.types]

    def _extend(self, extends: list[Extend], scope: str) -> None:
        for extend in extends:
            for field in extend.fields:
                self.extensions[f"{scope}.{field.name}" if scope else field.name] = field

    def resolve(self, name: str, package: str, scope: tuple[str, ...]) -> str | None:
        """The full name of what the name means in that scope of that package."""
        return _resolve(self.types, name, package, scope)

    def resolve_extension(self, name: str, scope: tuple[str, ...]) -> str | None:
        """The full name of the extension that an option's name means."""
        return _resolve(self.extensions, name, self.package, scope)

    def find(self, name: str, package: str, scope: tuple[str, ...]) -> Defined | None:
        """What the name means in that scope of that package."""
        full = self.resolve(name, package, scope)
        return self.types[full] if full is not None else None


def _resolve(table: Mapping[str, object], name: str, package: str, scope: tuple[str, ...]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in table else None
    parts = [*(package.split(".") if package else ()), *scope]
    while parts:
        full = ".".join((*parts, name))
        if full in table:
            return full
        parts.pop()
    return name if name in table else None
