"""Protobuf messages: leaves through nested messages, fields added under free numbers, numbers and names reserved when they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.shape.addition import Addition
from eventide.migration.plan.shape.leaf import Leaf
from eventide.registry.compatibility.protobuf import parse
from eventide.registry.compatibility.protobuf.element import MAX_NUMBER, SCALARS, Enum, Field, File, Message, map_types
from eventide.registry.compatibility.protobuf.names import Names
from eventide.registry.compatibility.protobuf.parser import read
from eventide.registry.compatibility.protobuf.text import canonical

_TYPES = {
    "float": "float", "double": "double", "bool": "boolean", "string": "string", "bytes": "bytes",
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64"), "long"),
}  # fmt: skip
_TIMESTAMP = "google.protobuf.Timestamp"
_KEPT_BACK = range(19_000, 20_000)  # by Protobuf itself
Scope = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """A .proto file that was read: its first message is what records hold."""

    file: File
    names: Names
    root: Message

    @classmethod
    def of(cls, text: str) -> _Source:
        parsed = parse(text, {}, strict=False)
        root = next((each for each in parsed.raw.types if isinstance(each, Message)), None)
        if root is None:
            raise PlanRefused("Only a .proto file with a message can be migrated field by field.")
        return cls(parsed.raw, parsed.names, root)

    def message(self, field: Field, scope: Scope) -> tuple[Message, Scope] | None:
        """The message that a field holds one of, and the scope inside it; none if it holds anything else."""
        if field.label == "repeated" or field.type in SCALARS or map_types(field.type) is not None:
            return None
        full = self.names.resolve(field.type, self.file.package or "", scope)
        found = self.names.defined(full).element if full is not None else None
        if full is None or full == _TIMESTAMP or not isinstance(found, Message):
            return None
        return found, tuple(full.removeprefix(f"{self.file.package}.").split("."))

    def at(self, path: str) -> tuple[Message, Scope] | None:
        """The message at a dotted path, and the scope inside it."""
        found: tuple[Message, Scope] | None = self.root, (self.root.name,)
        for part in path.split(".") if path else ():
            field = next((f for f in found[0].all_fields() if f.name == part), None) if found else None
            found = self.message(field, found[1]) if field is not None and found is not None else None
        return found


class ProtobufLanguage:
    """Protobuf schemas, by the first message of the file."""

    def leaves(self, text: str) -> dict[str, Leaf]:
        """Every leaf by its path, in the order of the schema."""
        source = _Source.of(text)
        return {leaf.path: leaf for leaf in _walk(source, source.root, (source.root.name,), "", (), False)}

    def missing(self, text: str, wanted: str) -> list[Addition]:
        """The fields that a schema lacks and another has."""
        mine, theirs = _Source.of(text), _Source.of(wanted)
        return list(_missing(mine, theirs, ""))

    def with_added(self, text: str, additions: Sequence[Addition]) -> str:
        """The schema with these fields, where it has not got them yet, each under its own number or the next that is free."""
        source = _Source.of(text)
        for addition in additions:
            found = source.at(addition.parent)
            if found is None:
                raise PlanRefused(f"There is no message {addition.parent!r} in the schema to add {addition.name!r} to.")
            message = found[0]
            if all(f.name != addition.name for f in message.all_fields()):
                field = _field(addition.definition)
                field.number = _free(message, field.number)
                message.reserved = [kept for each in message.reserved if (kept := [r for r in each if r != field.name])]
                message.fields.append(field)
                _add_types(source, addition.definition["types"])
        return canonical(source.file)

    def without(self, text: str, paths: Sequence[str]) -> str:
        """The schema without these fields; their numbers and names are reserved, because records still have them."""

        def drop(message: Message, field: Field) -> None:
            message.fields = [f for f in message.fields if f is not field]
            for oneof in message.oneofs:
                oneof.fields = [f for f in oneof.fields if f is not field]
            message.oneofs = [each for each in message.oneofs if each.fields or each.groups]
            message.reserved += [[field.number], [field.name]]

        return _changed(text, paths, drop)

    def loosened(self, text: str, paths: Sequence[str]) -> str:
        """The schema with these fields optional; only proto2 has others."""

        def loose(message: Message, field: Field) -> None:
            field.label = "optional" if field.label == "required" else field.label

        return _changed(text, paths, loose)

    def softened(self, addition: Addition) -> Addition | None:
        """None: a field may be missing from any message."""
        return None

    def retired(self, text: str, paths: Sequence[str]) -> str | None:
        """None: readers skip numbers that they do not know."""
        return None

    def requires(self, text: str, path: str) -> bool:
        """Never: a required field could not be added to messages that lack it, nor ever taken away."""
        return False

    def tightened(self, text: str, wanted: Sequence[Addition]) -> str:
        """The schema as it is: no field of a message is ever required, so there is nothing to tighten."""
        return text

    def renamed(self, addition: Addition, name: str) -> Addition:
        """The same addition under another name."""
        field = _field(addition.definition)
        field.name, field.json_name = name, None
        return Addition(addition.parent, name, {**addition.definition, "field": _line(field)})

    def field(self, text: str, path: str) -> Any:
        """The definition of one field as it stands, or none."""
        parent, _, name = path.rpartition(".")
        source = _Source.of(text)
        found = source.at(parent)
        field = next((f for f in found[0].all_fields() if f.name == name), None) if found else None
        return _definition(source, field, found[1]) if field is not None and found is not None else None

    def remark(self, text: str, addition: Addition) -> str | None:
        """Under which number a field goes, if it is not the one that was wanted."""
        wanted = _field(addition.definition).number
        found = _Source.of(text).at(addition.parent)
        given = next((f.number for f in found[0].all_fields() if f.name == addition.name), wanted) if found else wanted
        if given == wanted:
            return None
        return f"{addition.path} gets the number {given}: {wanted} is taken or reserved, and records that are kept have it"


def _walk(
    source: _Source, message: Message, scope: Scope, prefix: str, around: tuple[int, ...], optional: bool
) -> Iterator[Leaf]:
    around = (*around, id(message))
    in_oneof = {f.name for oneof in message.oneofs for f in oneof.fields}
    for field in message.all_fields():
        path = f"{prefix}{field.name}"
        nested = source.message(field, scope)
        if nested is not None and id(nested[0]) not in around:
            yield from _walk(source, nested[0], nested[1], f"{path}.", around, True)
            continue
        loose = optional or field.label == "optional" or field.name in in_oneof
        meaning = {option.name: str(option.value) for option in field.options if option.custom}
        repeated = {"label": "repeated"} if field.label == "repeated" else {}
        definition = {"type": field.type, "number": field.number, **repeated}
        yield Leaf(path, _plain(source, field, scope), definition, loose, "", (), meaning)


def _plain(source: _Source, field: Field, scope: Scope) -> str:
    if field.label == "repeated" or map_types(field.type) is not None:
        return "other"
    if field.type in _TYPES:
        return _TYPES[field.type]
    full = source.names.resolve(field.type, source.file.package or "", scope)
    if full == _TIMESTAMP:
        return "timestamp"
    return "string" if full is not None and isinstance(source.names.defined(full).element, Enum) else "other"


def _missing(mine: _Source, theirs: _Source, path: str) -> Iterator[Addition]:
    have, want = mine.at(path), theirs.at(path)
    if have is None or want is None:
        return
    known = {f.name for f in have[0].all_fields()}
    for field in want[0].all_fields():
        inner = f"{path}.{field.name}".lstrip(".")
        if field.name not in known:
            yield Addition(path, field.name, _definition(theirs, field, want[1]))
        elif mine.at(inner) is not None and theirs.message(field, want[1]) is not None:
            yield from _missing(mine, theirs, inner)


def _definition(source: _Source, field: Field, scope: Scope) -> dict[str, Any]:
    """A field and the types that it needs, each as text with the names of the messages around it.

    A field of its own knows whether it was written: a plain proto3 number could not tell 0 from nothing.
    """
    types: dict[str, str] = {}
    _needed(source, field, scope, types)
    plain = field.label is None and source.message(field, scope) is None and map_types(field.type) is None
    label = "optional" if plain or field.label == "required" else field.label
    own = Field(label, field.type, field.name, field.number, field.options, None, field.json_name)
    return {"field": _line(own), "types": types}


def _needed(source: _Source, field: Field, scope: Scope, found: dict[str, str]) -> None:
    for name in map_types(field.type) or (field.type,):
        full = None if name in SCALARS else source.names.resolve(name, source.file.package or "", scope)
        if full is None or source.names.defined(full).document:
            continue  # a scalar, or from an import
        inside = full.removeprefix(f"{source.file.package}.") if source.file.package else full
        if inside in found:
            continue
        element = source.names.defined(full).element
        found[inside] = canonical(File(types=[element])).strip()
        for inner in element.all_fields() if isinstance(element, Message) else ():
            _needed(source, inner, tuple(inside.split(".")), found)


def _add_types(source: _Source, types: dict[str, str]) -> None:
    """Define what a new field needs, where the file has it not; inner types come with the type around them."""
    for inside, text in sorted(types.items()):
        if _defined(source, inside) is not None:
            continue
        around, _, _ = inside.rpartition(".")
        made = read(f'syntax = "proto3";\n{text}').types[0]
        owner = _defined(source, around) if around else source.file
        if not isinstance(owner, File | Message):
            raise PlanRefused(
                f"The type {inside} has no message {around!r} around it in the current schema. Define it at the top."
            )
        owner.types.append(made)


def _defined(source: _Source, inside: str) -> Message | Enum | None:
    found: File | Message | Enum | None = source.file
    for part in inside.split("."):
        types = found.types if isinstance(found, File | Message) else []
        found = next((each for each in types if each.name == part), None)
    return found if isinstance(found, Message | Enum) else None


def _changed(text: str, paths: Sequence[str], change: Callable[[Message, Field], None]) -> str:
    source = _Source.of(text)
    for path in paths:
        parent, _, name = path.rpartition(".")
        found = source.at(parent)
        field = next((f for f in found[0].all_fields() if f.name == name), None) if found else None
        if found is not None and field is not None:
            change(found[0], field)
    return canonical(source.file)


def _free(message: Message, wanted: int) -> int:
    """The wanted number, or the first after all that are or were in use."""
    used = {f.number for f in message.all_fields()} | {g.number for g in message.groups}
    spans = [(r, r) if isinstance(r, int) else r for each in message.reserved for r in each if not isinstance(r, str)]
    spans += [(r, r) if isinstance(r, int) else r for e in message.extensions for r in e.ranges if not isinstance(r, str)]

    def taken(number: int) -> bool:
        return number in used or number in _KEPT_BACK or any(low <= number <= high for low, high in spans)

    if not taken(wanted):
        return wanted
    ends = [*used, *(high for _, high in spans if high < MAX_NUMBER)]
    number = max(ends) + 1
    while taken(number):
        number += 1
    return number


def _line(field: Field) -> str:
    return canonical(File(types=[Message("M", fields=[field])])).strip().removeprefix("message M {").removesuffix("}").strip()


def _field(definition: Any) -> Field:
    message = read(f'syntax = "proto3";\nmessage M {{\n{definition["field"]}\n}}').types[0]
    if not isinstance(message, Message):
        raise PlanRefused(f"{definition['field']!r} is no field of a message.")
    return message.fields[0]
