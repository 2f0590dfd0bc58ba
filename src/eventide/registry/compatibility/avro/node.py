"""The parsed form of an Avro schema: one node per type, small enough to compare a thousand of them in milliseconds."""

from __future__ import annotations

from typing import Any

PRIMITIVES = ("string", "bytes", "int", "long", "float", "double", "boolean", "null")
NAMED = ("record", "enum", "fixed")
KINDS = frozenset((*PRIMITIVES, *NAMED, "array", "map", "union"))


class Field:
    """A field of a record: its name, type, default and what else was said about it."""

    __slots__ = ("aliases", "default", "doc", "has_default", "name", "order", "props", "type")

    def __init__(self, name: str, type_: Node, props: dict[str, Any]) -> None:
        self.name = name
        self.type = type_
        self.props = props
        self.doc: str | None = None
        self.default: Any = None
        self.has_default = False
        self.order = "ascending"
        self.aliases: tuple[str, ...] = ()


class Node:
    """One Avro type. Which slots are filled depends on `kind`; an unresolved name has kind ``"?"`` for a while.

    Two types with the same `signature` read each other, so most pairs need no walk; None says that the walk decides.
    """

    __slots__ = (
        "aliases",
        "branches",
        "default",
        "doc",
        "fields",
        "fields_by_name",
        "full",
        "is_error",
        "item",
        "kind",
        "name",
        "props",
        "signature",
        "size",
        "space",
        "symbols",
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.props: dict[str, Any] = {}
        self.name = kind
        self.space: str | None = None
        self.full = kind
        self.doc: str | None = None
        self.aliases: tuple[str, ...] = ()
        self.fields: list[Field] = []
        self.fields_by_name: dict[str, Field] = {}
        self.is_error = False
        self.symbols: list[str] = []
        self.default: str | None = None
        self.size = 0
        self.item: Node = self
        self.branches: list[Node] = []
        self.signature: str | None = kind if kind in PRIMITIVES else None

    def named(self, name: str, space: str | None) -> Node:
        """This node under a name that belongs to a namespace."""
        self.name, self.space = name, space
        self.full = qualified(name, space)
        return self


def qualified(name: str, space: str | None) -> str:
    """The full name: with the namespace before it, if there is one."""
    return f"{space}.{name}" if space else name


def split(name: str, space: str | None) -> tuple[str, str | None]:
    """A name as written, taken apart: dots in it beat the namespace around it."""
    if "." in name:
        space, _, name = name.rpartition(".")
    return name, space or None


def shown(full: str, inside: str | None) -> str:
    """A full name as Java writes it inside a namespace: short where that is unambiguous."""
    space, _, name = full.rpartition(".")
    return name if space and space == inside and name not in KINDS else full


def sign(node: Node) -> Node:
    """The node with its signature, where it can be told from the node itself."""
    kind = node.kind
    if kind == "enum":
        node.signature = f"enum {node.full} {node.default} {' '.join(node.symbols)}"
    elif kind == "fixed":
        node.signature = f"fixed {node.full} {node.size}"
    elif kind == "union":
        below = [branch.signature for branch in node.branches]
        node.signature = None if None in below else f"[{','.join(map(str, below))}]"
    elif kind in ("array", "map") and node.item.signature is not None:
        node.signature = f"{kind}({node.item.signature})"
    return node
