"""The tokens of a .proto file, with their places for the sake of the error message."""

from __future__ import annotations

import re
from typing import NoReturn

from eventide.registry.compatibility.schema import InvalidSchema

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>[A-Za-z0-9_.+-]+)
      | (?P<mark>[{}\[\]()<>=;,:/])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Tokens:
    """The tokens in order; the reader asks for what it expects and is told where it was not found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._places: list[int] = []
        self._next = 0
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                self.refuse(f"unexpected {text[place]!r}", place)
            if match.lastgroup != "skip":
                self._tokens.append(match[0])
                self._places.append(place)
            place = match.end()

    def peek(self) -> str:
        """The next token, left where it is; empty at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def take(self) -> str:
        """The next token."""
        token = self.peek()
        if not token:
            self.refuse("unexpected end of file")
        self._next += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether the next token is this one; if so it is taken."""
        if self.peek() != token:
            return False
        self._next += 1
        return True

    def expect(self, token: str) -> None:
        """Take this token, which must come next."""
        if not self.accept(token):
            self.refuse(f"expected '{token}' but was '{self.peek()}'" if self.peek() else f"expected '{token}'")

    def word(self) -> str:
        """Take a name or number."""
        token = self.peek()
        if not token or not (token[0].isalnum() or token[0] in "_.+-"):
            self.refuse(f"expected a word but was '{token}'")
        self._next += 1
        return token

    def name(self) -> str:
        """Take an identifier, with dots or without."""
        token = self.word()
        if not re.fullmatch(r"\.?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", token, re.ASCII):
            self._next -= 1
            self.refuse(f"'{token}' is no name")
        return token

    def number(self) -> int:
        """Take a whole number: decimal, hexadecimal or octal."""
        token = self.word()
        digits = token.lstrip("+-")
        sign = -1 if token.startswith("-") else 1
        try:
            if digits[:2] in ("0x", "0X"):
                return sign * int(digits, 16)
            return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
        except ValueError:
            self._next -= 1
            self.refuse(f"expected an integer but was {token}")

    def text(self) -> str:
        """Take a quoted text; several in a row are one."""
        parts: list[str] = []
        while self.peek()[:1] in ('"', "'") and self.peek():
            parts.append(_unescape(self.take()[1:-1]))
        if not parts:
            self.refuse(f"expected a string but was '{self.peek()}'")
        return "".join(parts)

    def is_text(self) -> bool:
        """Whether a quoted text comes next."""
        return self.peek()[:1] in ('"', "'") and bool(self.peek())

    def refuse(self, why: str, place: int | None = None) -> NoReturn:
        """Say what is wrong, and where."""
        if place is None:
            place = self._places[self._next] if self._next < len(self._places) else len(self._text)
        line = self._text.count("\n", 0, place) + 1
        column = place - self._text.rfind("\n", 0, place)
        raise InvalidSchema(f"Could not parse Protobuf - Syntax error in :{line}:{column}: {why}")


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] or match[3]:
            return chr(int(match[1] or match[3], 16))
        if match[2]:
            return chr(int(match[2], 8))
        return _SIMPLE.get(match[4], match[4])

    return _ESCAPE.sub(replace, text) if "\\" in text else text
