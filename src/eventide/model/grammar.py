"""SQL text read into a tree: one function for each rank of precedence, loosest first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from eventide.model.operator import ARGUMENTS

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+"|`[^`]+`)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<mark><=|>=|<>|!=|==|[=<>+\-*/%(),]))"""
)
_SAME = {"!=": "<>", "==": "="}
_WORDS = frozenset(["AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "TRUE", "FALSE"])


class Unreadable(Exception):
    """The text is not an expression; says where it stops making sense."""


def parse(text: str, literal: Callable[[Any], Any], column: Callable[[str], Any], call: Callable[[str, Any], Any]) -> Any:
    """The tree of a text, made of what the three constructors make."""
    return _Reader(text, literal, column, call).whole()


class _Reader:
    def __init__(self, text: str, literal: Any, column: Any, call: Any) -> None:
        self.tokens = _tokens(text)
        self.literal, self.column, self.call = literal, column, call

    def whole(self) -> Any:
        node = self.either()
        if self.tokens[0][0] != "end":
            raise Unreadable(f"{self.tokens[0][1]!r} is not expected here.")
        return node

    def next_is(self, *said: str) -> bool:
        kind, value = self.tokens[0]
        return kind in ("mark", "keyword") and value in said

    def took(self, *said: str) -> str | None:
        return self.tokens.pop(0)[1] if self.next_is(*said) else None

    def must(self, said: str) -> None:
        if not self.took(said):
            raise Unreadable(f"{said} is expected before {self.tokens[0][1] or 'the end'!r}.")

    def either(self) -> Any:
        node = self.both()
        while self.took("OR"):
            node = self.call("OR", (node, self.both()))
        return node

    def both(self) -> Any:
        node = self.negated()
        while self.took("AND"):
            node = self.call("AND", (node, self.negated()))
        return node

    def negated(self) -> Any:
        return self.call("NOT", (self.negated(),)) if self.took("NOT") else self.compared()

    def compared(self) -> Any:
        node = self.added()
        while True:
            if mark := self.took("=", "<>", "<", "<=", ">", ">="):
                node = self.call(mark, (node, self.added()))
            elif self.took("IS"):
                turned = self.took("NOT")
                self.must("NULL")
                node = self._turned(turned, self.call("IS NULL", (node,)))
            elif self.next_is("IN", "BETWEEN") or (self.next_is("NOT") and self.tokens[1][1] in ("IN", "BETWEEN")):
                turned = self.took("NOT")
                node = self._turned(turned, self.call("IN", (node, *self.listed())) if self.took("IN") else self.between(node))
            else:
                return node

    def _turned(self, turned: str | None, node: Any) -> Any:
        return self.call("NOT", (node,)) if turned else node

    def between(self, node: Any) -> Any:
        self.must("BETWEEN")
        low = self.added()
        self.must("AND")
        return self.call("AND", (self.call(">=", (node, low)), self.call("<=", (node, self.added()))))

    def listed(self) -> tuple[Any, ...]:
        self.must("(")
        found = [self.either()]
        while self.took(","):
            found.append(self.either())
        self.must(")")
        return tuple(found)

    def added(self) -> Any:
        node = self.multiplied()
        while mark := self.took("+", "-"):
            node = self.call(mark, (node, self.multiplied()))
        return node

    def multiplied(self) -> Any:
        node = self.signed()
        while mark := self.took("*", "/", "%"):
            node = self.call(mark, (node, self.signed()))
        return node

    def signed(self) -> Any:
        if self.took("-"):
            return self.call("-", (self.literal(0), self.signed()))
        return self.signed() if self.took("+") else self.single()

    def single(self) -> Any:
        if self.took("("):
            node = self.either()
            self.must(")")
            return node
        if self.took("CASE"):
            return self.case()
        if word := self.took("TRUE", "FALSE", "NULL"):
            return self.literal({"TRUE": True, "FALSE": False}.get(word))
        kind, value = self.tokens.pop(0)
        if kind == "number":
            return self.literal(int(value) if value.isdigit() else float(value))
        if kind == "text":
            return self.literal(value[1:-1].replace("''", "'"))
        if kind == "quoted":
            return self.column(value[1:-1].replace(value[0] * 2, value[0]))
        if kind == "word":
            return self.function(value.upper()) if self.next_is("(") else self.column(value)
        raise Unreadable(f"a value is expected before {value or 'the end'!r}.")

    def case(self) -> Any:
        parts: list[Any] = []
        while self.took("WHEN"):
            parts.append(self.either())
            self.must("THEN")
            parts.append(self.either())
        if not parts:
            raise Unreadable("CASE has no WHEN.")
        parts.append(self.either() if self.took("ELSE") else self.literal(None))
        self.must("END")
        return self.call("CASE", tuple(parts))

    def function(self, name: str) -> Any:
        if name not in ARGUMENTS:
            raise Unreadable(f"there is no function {name}. There are {', '.join(sorted(ARGUMENTS))}.")
        arguments = self.listed()
        fewest, most = ARGUMENTS[name]
        if not fewest <= len(arguments) <= most:
            raise Unreadable(f"{name} takes {fewest if fewest == most else f'{fewest} or more'} values, not {len(arguments)}.")
        return self.call(name, arguments)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable(f"{text[position:].strip()[:20]!r} is not part of an expression.")
        kind, value = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "word" and value.upper() in _WORDS:
            kind, value = "keyword", value.upper()
        found.append((kind, _SAME.get(value, value) if kind == "mark" else value))
        position = match.end()
    return [*found, ("end", "")]
