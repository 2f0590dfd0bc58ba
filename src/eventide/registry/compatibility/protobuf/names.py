"""Which type a name means: the names that a file and its imports define, and the scopes they are looked for in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from eventide.registry.compatibility.protobuf.element import Enum, Extend, Field, File, Message
from eventide.registry.compatibility.protobuf.known import KNOWN, known_file

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
            self.collect(name, imported)
        self.collect(HERE, file)

    def collect(self, document: str, file: File) -> None:
        """Add what a document defines."""
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
        full = _resolve(self.types, name, package, scope)
        return full if full is not None or not _may_be_known(name) else _resolve(_known().types, name, package, scope)

    def resolve_extension(self, name: str, scope: tuple[str, ...]) -> str | None:
        """The full name of the extension that an option's name means."""
        full = _resolve(self.extensions, name, self.package, scope)
        return full if full is not None else _resolve(_known().extensions, name, self.package, scope)

    def extension(self, full: str) -> Field | None:
        """The field that an extension of that full name adds."""
        return self.extensions.get(full) or _known().extensions.get(full)

    def defined(self, full: str) -> Defined:
        """What is defined under a full name that was resolved."""
        return self.types.get(full) or _known().types[full]

    def find(self, name: str, package: str, scope: tuple[str, ...]) -> Defined | None:
        """What the name means in that scope of that package."""
        full = self.resolve(name, package, scope)
        return self.defined(full) if full is not None else None


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


def _may_be_known(name: str) -> bool:
    return any(part in name for part in ("google", "protobuf", "confluent", "type"))


@lru_cache(maxsize=1)
def _known() -> Names:
    """What the files define that every schema may import; every schema knows them, imported or not."""
    names = Names(File(), {})
    for name in KNOWN:
        file = known_file(name)
        if file is not None:
            names.collect(name, file)
    return names
