"""Compares two .proto files by Confluent's rules: what counts is what a reader makes of the bytes, number by number."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from eventide.registry.compatibility.java_order import in_java_order
from eventide.registry.compatibility.protobuf.element import SCALARS, Enum, Field, File, Message, OneOf, map_types
from eventide.registry.compatibility.protobuf.names import HERE, Defined, Names

COMPATIBLE = frozenset(
    (
        *("MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED", "ENUM_CONST_ADDED", "ENUM_CONST_CHANGED"),
        *("ENUM_CONST_REMOVED", "FIELD_ADDED", "FIELD_REMOVED", "FIELD_NAME_CHANGED", "ONEOF_ADDED", "ONEOF_REMOVED"),
        *("FIELD_STRING_OR_BYTES_LABEL_CHANGED", "ONEOF_FIELD_ADDED", "ONEOF_FIELD_MOVED_TO_TOP_LEVEL"),
    )
)
"""What may change without a reader noticing."""

MAX_CHANGES = 500
_GROUPS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "GENERAL_NUMBER"),
    **dict.fromkeys(("sint32", "sint64"), "SIGNED_NUMBER"),
    **dict.fromkeys(("string", "bytes"), "STRING_OR_BYTES"),
    **dict.fromkeys(("fixed32", "sfixed32"), "FIXED32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "FIXED64"),
    "float": "FLOAT",
    "double": "DOUBLE",
}

_NO_FIELD: tuple[Field | None, str | None] = (None, None)

Path = tuple[str, ...]
Change = tuple[str, Path]
_Walk = Generator[tuple[str, str], list[Change], list[Change]]


def differences(original: tuple[File, Names], update: tuple[File, Names]) -> list[Change]:
    """Every change from the original to the update, compatible or not."""
    return _Comparison(original[1], update[1]).run(original[0], update[0])


class _Comparison:
    """One comparison: the names of both sides, and what is known already of pairs of messages from other files."""

    def __init__(self, original: Names, update: Names) -> None:
        self._original, self._update = original, update
        self._packages = (original.package, update.package)

    def run(self, original: File, update: File) -> list[Change]:
        changes: list[Change] = []
        if original.package != update.package:
            changes.append(("PACKAGE_CHANGED", ()))
        return changes + self._drive(self._types(original.types, update.types, (), self._packages))

    def _drive(self, first: _Walk) -> list[Change]:
        """Walk through the messages with a stack of our own; each pair once, a pair inside itself not again."""
        known: dict[tuple[str, str], list[Change]] = {}
        stack: list[tuple[tuple[str, str], _Walk]] = [(("", ""), first)]
        answer: list[Change] | None = None
        while stack:
            key, walk = stack[-1]
            try:
                asked = next(walk) if answer is None else walk.send(answer)
            except StopIteration as done:
                stack.pop()
                answer = known[key] = done.value[:MAX_CHANGES]
                continue
            answer = known.get(asked)
            if answer is None:
                known[asked] = []
                stack.append((asked, self._imported(*asked)))
        return answer or []

    def _imported(self, before: str, after: str) -> _Walk:
        left, right = self._original.defined(before), self._update.defined(after)
        if not isinstance(left.element, Message) or not isinstance(right.element, Message):
            return []
        path = tuple(_local(before, left).split("."))
        return (yield from self._message(left.element, right.element, path, (left.package, right.package)))

    def _types(
        self, before: Iterable[Message | Enum], after: Iterable[Message | Enum], path: Path, packages: tuple[str, str]
    ) -> _Walk:
        changes: list[Change] = []
        old = {inner.name: inner for inner in before if isinstance(inner, Message)}
        new = {inner.name: inner for inner in after if isinstance(inner, Message)}
        positions = [{name: index for index, name in enumerate(names)} for names in (old, new)]
        for name in in_java_order([*old, *new]):
            here = (*path, name)
            if name not in new:
                if not self._is_map(old[name]):
                    changes.append(("MESSAGE_REMOVED", here))
            elif name not in old:
                if not self._is_map(new[name]):
                    changes.append(("MESSAGE_ADDED", here))
            else:
                changes += yield from self._message(old[name], new[name], here, packages)
                if positions[0][name] != positions[1][name]:
                    changes.append(("MESSAGE_MOVED", here))
        enums = [{inner.name: inner for inner in side if isinstance(inner, Enum)} for side in (before, after)]
        return changes + _enums(enums[0], enums[1], path)

    def _is_map(self, message: Message) -> bool:
        return Defined("", HERE, message).is_map

    def _message(self, before: Message, after: Message, path: Path, packages: tuple[str, str]) -> _Walk:
        changes = _oneofs(before, after, path)
        old, new = _by_number(before), _by_number(after)
        gone = _deleted_oneofs(before, after)
        for number in sorted({*old, *new}):
            left, left_oneof = old.get(number, _NO_FIELD)
            right, right_oneof = new.get(number, _NO_FIELD)
            if left_oneof == right_oneof and left is not None and right is not None and _is_same(left, right):
                continue
            here = (*path, str(number))
            if right is None and left is not None:
                if left_oneof is None:
                    changes.append(("REQUIRED_FIELD_REMOVED" if left.label == "required" else "FIELD_REMOVED", here))
                elif left_oneof not in gone:
                    changes.append(("ONEOF_FIELD_REMOVED", (*path, left_oneof, str(number))))
            elif left is None and right is not None:
                if right_oneof is None:
                    changes.append(("REQUIRED_FIELD_ADDED" if right.label == "required" else "FIELD_ADDED", here))
                else:
                    changes.append(("ONEOF_FIELD_ADDED", (*path, right_oneof, str(number))))
            elif left is not None and right is not None:
                if left_oneof is not None and right_oneof is None:
                    kept = left_oneof in {oneof.name for oneof in after.oneofs}
                    changes.append(("ONEOF_FIELD_REMOVED" if kept else "ONEOF_FIELD_MOVED_TO_TOP_LEVEL", here))
                if right_oneof is not None:
                    here = (*path, right_oneof, str(number))
                changes += yield from self._field(left, right, here, path, packages)
        if before.types or after.types:
            changes += yield from self._types(before.types, after.types, path, packages)
        return changes

    def _field(self, before: Field, after: Field, here: Path, scope: Path, packages: tuple[str, str]) -> _Walk:
        changes: list[Change] = []
        if before.name != after.name:
            changes.append(("FIELD_NAME_CHANGED", here))
        labels = (before.label, after.label)
        return changes + (yield from self._type(before.type, after.type, labels, here, scope, packages))

    def _type(
        self,
        before: str,
        after: str,
        labels: tuple[str | None, str | None],
        here: Path,
        scope: Path,
        packages: tuple[str, str],
    ) -> _Walk:
        if before == after and before in SCALARS and labels[0] == labels[1]:
            return []
        left = None if before in SCALARS else self._original.find(before, packages[0], scope)
        right = None if after in SCALARS else self._update.find(after, packages[1], scope)
        if left is not None and left.is_map:
            before, left = left.as_map(), None
        if right is not None and right.is_map:
            after, right = right.as_map(), None
        kinds = (_kind(before, left), _kind(after, right))
        if kinds[0] != kinds[1]:
            return [("FIELD_KIND_CHANGED", here)]
        if kinds[0] == "SCALAR":
            return _scalars(before, after, labels, here)
        if kinds[0] == "MESSAGE":
            return (yield from self._messages(before, after, here, scope, packages))
        changes: list[Change] = []
        for one, other in zip(map_types(before) or (), map_types(after) or (), strict=True):
            changes += yield from self._type(one, other, (None, None), here, scope, packages)
        return changes

    def _messages(self, before: str, after: str, here: Path, scope: Path, packages: tuple[str, str]) -> _Walk:
        full = (
            self._original.resolve(before, packages[0], scope),
            self._update.resolve(after, packages[1], scope),
        )
        if full[0] is None or full[1] is None:
            return [("FIELD_NAMED_TYPE_CHANGED", here)] if before != after else []
        left, right = self._original.defined(full[0]), self._update.defined(full[1])
        if _local(full[0], left) != _local(full[1], right):
            return [("FIELD_NAMED_TYPE_CHANGED", here)]
        if left.document == right.document == HERE or left.element is right.element:
            return []
        found = yield full[0], full[1]
        if all(kind in COMPATIBLE for kind, _ in found):
            return found
        return [*found, ("FIELD_NAMED_TYPE_CHANGED", here)]


def _is_same(left: Field, right: Field) -> bool:
    return left.type == right.type and left.name == right.name and left.label == right.label and left.type in SCALARS


def _local(full: str, defined: Defined) -> str:
    return full.removeprefix(f"{defined.package}.") if defined.package else full


def _kind(name: str, defined: Defined | None) -> str:
    if name in SCALARS or (defined is not None and isinstance(defined.element, Enum)):
        return "SCALAR"
    return "MAP" if name.startswith("map<") else "MESSAGE"


def _scalars(before: str, after: str, labels: tuple[str | None, str | None], here: Path) -> list[Change]:
    group = _GROUPS.get(before, "GENERAL_NUMBER")
    if group != _GROUPS.get(after, "GENERAL_NUMBER"):
        return [("FIELD_SCALAR_KIND_CHANGED", here)]
    if labels[0] is None or labels[1] is None or labels[0] == labels[1]:
        return []
    return [(f"FIELD_{'STRING_OR_BYTES' if group == 'STRING_OR_BYTES' else 'NUMERIC'}_LABEL_CHANGED", here)]


def _enums(before: dict[str, Enum], after: dict[str, Enum], path: Path) -> list[Change]:
    changes: list[Change] = []
    for name in in_java_order([*before, *after]):
        if name not in after:
            changes.append(("ENUM_REMOVED", (*path, name)))
        elif name not in before:
            changes.append(("ENUM_ADDED", (*path, name)))
        else:
            old = {value.number: value.name for value in before[name].values}
            new = {value.number: value.name for value in after[name].values}
            for number in sorted({*old, *new}):
                if old.get(number) != new.get(number):
                    what = "REMOVED" if number not in new else "ADDED" if number not in old else "CHANGED"
                    changes.append((f"ENUM_CONST_{what}", (*path, name, str(number))))
    return changes


def _by_number(message: Message) -> dict[int, tuple[Field, str | None]]:
    found: dict[int, tuple[Field, str | None]] = {field.number: (field, None) for field in message.fields}
    for oneof in message.oneofs:
        found.update({field.number: (field, oneof.name) for field in oneof.fields})
    return found


def _deleted_oneofs(before: Message, after: Message) -> set[str]:
    """Oneofs that are gone with all their fields: that loses nothing which another field could have kept."""
    if not before.oneofs:
        return set()
    left = {oneof.name for oneof in after.oneofs}
    numbers = {field.number for field in after.all_fields()}
    return {
        oneof.name
        for oneof in before.oneofs
        if oneof.name not in left and not any(field.number in numbers for field in oneof.fields)
    }


def _oneofs(before: Message, after: Message, path: Path) -> list[Change]:
    if not before.oneofs and not after.oneofs:
        return []
    changes = [change for oneof in after.oneofs if (change := _exclusive(oneof, before, path)) is not None]
    old, new = ({oneof.name for oneof in message.oneofs} for message in (before, after))
    for name in sorted(old ^ new):
        changes.append(("ONEOF_REMOVED" if name in old else "ONEOF_ADDED", (*path, name)))
    return changes


def _exclusive(oneof: OneOf, before: Message, path: Path) -> Change | None:
    """Fields that could be set together before and now exclude each other."""
    known = _by_number(before)
    origins: set[str] = set()
    moved = 0
    for field in oneof.fields:
        if field.number in known:
            origin = known[field.number][1]
            moved += origin is None
            origins.add(f"field {field.number}" if origin is None else f"oneof {origin}")
    if len(origins) < 2:
        return None
    return ("MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF", (*path, oneof.name))
