"""JSON text as Jackson reads and writes it: the same doubles, the same escapes, the same words for a mistake."""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any, Literal

from eventide.registry.compatibility.schema import InvalidSchema

MAX_DEPTH = 400
"""How deep arrays and objects may nest. Jackson stops at 1,000; we stop where no stack of ours can overflow."""

_SOURCE = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: {line}, column: {column}]"
_PACKAGE = "com.fasterxml.jackson.core."
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LOWER_ESCAPE = re.compile(r"\\u00[01][0-9a-f]")
_TOKEN = re.compile(r"\w+")


def read(text: str, *, comments: bool = False) -> Any:
    """The value that the text stands for.

    Raises:
        InvalidSchema: in Jackson's words, with line and column.
    """
    _refuse_depth(text)
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        value, end = decoder.raw_decode(text, _skip_space(text, 0))
    except (json.JSONDecodeError, _NotJson) as error:
        if comments and ("//" in text or "/*" in text):
            return read(_STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text))
        raise InvalidSchema(_complaint(text, error)) from None
    except (RecursionError, ValueError) as error:
        raise InvalidSchema(f"The JSON text cannot be read: {error}") from None
    dangling = text[end:].strip()
    if dangling:
        if comments and dangling.startswith(("//", "/*")):
            return read(_STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text))
        raise InvalidSchema(f"dangling content after end of schema: {dangling}")
    return value


def write(value: Any) -> str:
    """The value as compact JSON: keys in their order, text unescaped beyond what JSON demands."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def quote(text: str) -> str:
    """One string in quotes, with Jackson's escapes."""
    quoted: str = encode_basestring(text)
    if "\\u00" in quoted:
        quoted = _LOWER_ESCAPE.sub(lambda match: "\\u" + match[0][2:].upper(), quoted)
    return quoted


def sort(value: Any) -> Any:
    """The value with the keys of every object in order."""
    if isinstance(value, dict):
        return {key: sort(value[key]) for key in sorted(value)}
    return [sort(item) for item in value] if isinstance(value, list) else value


def double(number: float) -> str:
    """A double as Java prints it."""
    if math.isnan(number) or math.isinf(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        text = repr(number)
        return text if "e" not in text else f"{number:f}"
    mantissa, _, exponent = f"{number!r}".partition("e")
    if not exponent:
        sign = "-" if number < 0 else ""
        whole, _, fraction = mantissa.lstrip("-").partition(".")
        digits = (whole + fraction).lstrip("0")
        power = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0")) + 1)
        digits = digits.rstrip("0") or "0"
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(quote(value))
    elif value is None:
        parts.append("null")
    elif value is True or value is False:
        parts.append("true" if value else "false")
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        parts.append(double(value))
    elif isinstance(value, dict):
        mark = "{"
        for key, item in value.items():
            parts.append(mark + quote(key) + ":")
            _write(item, parts)
            mark = ","
        parts.append("}" if value else "{}")
    else:
        mark = "["
        for item in value:
            parts.append(mark)
            _write(item, parts)
            mark = ","
        parts.append("]" if value else "[]")


class _NotJson(Exception):
    """Python reads NaN and Infinity; JSON does not."""


def _refuse_constant(token: str) -> Literal[""]:
    raise _NotJson(token)


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    return start


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidSchema(
                    f"Document nesting depth ({depth}) exceeds the maximum allowed ({MAX_DEPTH}): "
                    "give the inner types names and refer to them."
                )
        elif match[0] in "]}":
            depth -= 1


def _at(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return _SOURCE.format(line=line, column=column)


def _complaint(text: str, error: json.JSONDecodeError | _NotJson) -> str:
    if isinstance(error, _NotJson):
        word = str(error)
        return (
            f"{_PACKAGE}JsonParseException: Non-standard token '{word}': enable "
            "`JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow\n at " + _at(text, text.find(word) + len(word))
        )
    if error.msg.startswith("Unterminated string"):
        return _eof(text, ": was expecting closing quote for a string value")
    offset = _skip_space(text, error.pos)
    if offset >= len(text):
        return _end_of_input(text)
    found = text[offset]
    token = _TOKEN.match(text, offset)
    if token and error.msg.startswith("Expecting value"):
        expected = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
        what = f"Unrecognized token '{token[0]}': was expecting {expected}"
        return f"{_PACKAGE}JsonParseException: {what}\n at {_at(text, token.end())}"
    what = f"Unexpected character ('{found}' (code {ord(found)})): {_expectation(error.msg)}"
    return f"{_PACKAGE}JsonParseException: {what}\n at {_at(text, offset + 1)}"


def _expectation(complaint: str) -> str:
    if "property name" in complaint:
        return "was expecting double-quote to start field name"
    if "':'" in complaint:
        return "was expecting a colon to separate field name and value"
    if "','" in complaint:
        return "was expecting comma to separate Array or Object entries"
    return "expected a valid value (JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


def _end_of_input(text: str) -> str:
    opened: list[int] = []
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            opened.append(match.start())
        elif match[0] in "]}" and opened:
            opened.pop()
    if not opened:
        return "Cannot parse <null> schema" if not text.strip() else _eof(text, "")
    inside = "Object" if text[opened[-1]] == "{" else "Array"
    last = text.rstrip()[-1]
    if inside == "Object" and (last in ":," or re.search(r'[{,]\s*"(?:[^"\\]|\\.)*"\s*$', text)):
        return _eof(text, " within/between Object entries")
    return _eof(text, f": expected close marker for {inside} (start marker at {_at(text, opened[-1])})")


def _eof(text: str, where: str) -> str:
    return f"{_PACKAGE}io.JsonEOFException: Unexpected end-of-input{where}\n at {_at(text, len(text))}"
