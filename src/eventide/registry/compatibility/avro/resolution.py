"""Schema resolution as Java's SchemaCompatibility judges it: every reason why a reader cannot read a writer's bytes.

The walk keeps its own stack, so that no chain or cycle of types can exhaust Python's. It remembers each pair of types,
as Java does: a pair met again while it is being judged counts as compatible.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from eventide.registry.compatibility.avro.node import NAMED, Field, Node

MAX_REASONS = 200
"""Reasons kept for one pair. A type used twice by a type used twice by ... would list the same reason 2ⁿ times."""

_PROMOTIONS = frozenset(
    [
        ("long", "int"),
        ("float", "int"),
        ("float", "long"),
        ("double", "int"),
        ("double", "long"),
        ("double", "float"),
        ("bytes", "string"),
        ("string", "bytes"),
    ]
)
_PLAIN = frozenset(("string", "bytes", "int", "long", "float", "double", "boolean", "null"))


class Clash(NamedTuple):
    """One reason, still without a sentence: what, where in the reader, Java's own remark, and the two types."""

    kind: str
    path: tuple[str, ...]
    info: str
    reader: Node
    writer: Node


class Ambiguous(Exception):
    """A reader's field stands for two of the writer's fields; Java gives up on such a pair."""


_Path = tuple[str, ...]
_Pair = tuple[Node, Node, _Path]
_Walk = Generator[_Pair, list[Clash], list[Clash]]
_FINE: list[Clash] = []


def clashes(reader: Node, writer: Node, *, recursive: bool = True) -> list[Clash]:
    """Every reason why `reader` cannot read what `writer` wrote.

    Unless both are `recursive`, a union passes over branches of another name without a look inside: only where types
    lead back to themselves does it matter, as in Java, which pairs were looked at before.
    """
    memo: dict[tuple[int, int], list[Clash]] = {}
    quick = _quick(reader, writer, ())
    if quick is not None:
        return quick
    memo[id(reader), id(writer)] = _FINE
    stack = [((id(reader), id(writer)), _compare(reader, writer, (), recursive))]
    answer: list[Clash] | None = None
    while stack:
        key, walk = stack[-1]
        try:
            left, right, path = walk.send(answer) if answer is not None else next(walk)
        except StopIteration as done:
            stack.pop()
            answer = memo[key] = done.value
            continue
        key = (id(left), id(right))
        answer = memo.get(key)
        if answer is None:
            answer = _quick(left, right, path)
            if answer is None:
                memo[key] = _FINE
                stack.append((key, _compare(left, right, path, recursive)))
    return answer or []


def _quick(reader: Node, writer: Node, path: _Path) -> list[Clash] | None:
    """The verdict on a pair that needs no walk; None if it needs one."""
    left, right = reader.kind, writer.kind
    if reader.signature is not None and reader.signature == writer.signature:
        return _FINE
    if left in _PLAIN:
        if left == right or (left, right) in _PROMOTIONS:
            return _FINE
        return None if right == "union" else [_mismatch(reader, writer, path)]
    if left == right or left == "union" or right == "union":
        return None
    return [_mismatch(reader, writer, path)]


def _compare(reader: Node, writer: Node, path: _Path, recursive: bool) -> _Walk:
    if reader.kind == "union" or writer.kind == "union":
        return _unions(reader, writer, path, recursive)
    if reader.kind == "record":
        return _records(reader, writer, path)
    if reader.kind == "enum" or reader.kind == "fixed":
        return _leaves(reader, writer, path)
    return _items(reader, writer, path)


def _items(reader: Node, writer: Node, path: _Path) -> _Walk:
    return (yield reader.item, writer.item, (*path, "items" if reader.kind == "array" else "values"))


def _leaves(reader: Node, writer: Node, path: _Path) -> _Walk:
    found = _names(reader, writer, path)
    if reader.kind == "fixed":
        if reader.size != writer.size:
            info = f"expected: {writer.size}, found: {reader.size}"
            found.append(Clash("FIXED_SIZE_MISMATCH", (*path, "size"), info, reader, writer))
    elif reader.default is None:
        missing = sorted(set(writer.symbols).difference(reader.symbols))
        if missing:
            info = f"[{', '.join(missing)}]"
            found.append(Clash("MISSING_ENUM_SYMBOLS", (*path, "symbols"), info, reader, writer))
    return found
    yield  # a generator like the others, though it asks nothing


def _records(reader: Node, writer: Node, path: _Path) -> _Walk:
    found = _names(reader, writer, path)
    written = writer.fields_by_name
    for position, field in enumerate(reader.fields):
        source = written.get(field.name) if not field.aliases else _source(field, writer)
        if source is not None:
            left, right = field.type, source.type
            signature = left.signature
            if signature is not None and signature == right.signature:
                continue
            below = yield left, right, (*path, "fields", str(position), "type")
            if below:
                found += below[: MAX_REASONS - len(found)]
        elif not field.has_default:
            place = (*path, "fields", str(position))
            if field.type.kind == "enum" and field.type.default is not None:
                found += yield field.type, writer, (*place, "type")
            else:
                found.append(Clash("READER_FIELD_MISSING_DEFAULT_VALUE", place, field.name, reader, writer))
    return found


def _unions(reader: Node, writer: Node, path: _Path, recursive: bool) -> _Walk:
    found: list[Clash] = []
    if writer.kind == "union":
        for index, branch in enumerate(writer.branches):
            place = (*path, str(index))
            if reader.kind != "union":
                below = yield reader, branch, place
                found += below[: MAX_REASONS - len(found)]
                continue
            if (yield reader, branch, ()):
                info = f"reader union lacking writer type: {branch.kind.upper()}"
                found.append(Clash("MISSING_UNION_BRANCH", place, info, reader, writer))
        return found
    for branch in reader.branches:
        if not recursive and branch.kind == writer.kind and branch.kind in NAMED and _names(branch, writer, ()):
            continue
        if not (yield branch, writer, ()):
            return found
    info = f"reader union lacking writer type: {writer.kind.upper()}"
    return [Clash("MISSING_UNION_BRANCH", path, info, reader, writer)]


def _names(reader: Node, writer: Node, path: _Path) -> list[Clash]:
    """Unqualified names count; an alias counts only with its namespace, which is the reader's if it names none."""
    if reader.name == writer.name or writer.full in reader.aliases:
        return []
    return [Clash("NAME_MISMATCH", (*path, "name"), f"expected: {writer.full}", reader, writer)]


def _source(field: Field, writer: Node) -> Field | None:
    """The writer's field that the reader's one stands for, by name or alias."""
    written = writer.fields_by_name
    sources = [written[name] for name in (field.name, *field.aliases) if name in written]
    if len(sources) > 1:
        raise Ambiguous(f"Reader record field {field.name} matches multiple fields in writer record schema {writer.full}")
    return sources[0] if sources else None


def _mismatch(reader: Node, writer: Node, path: _Path) -> Clash:
    info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return Clash("TYPE_MISMATCH", path, info, reader, writer)
