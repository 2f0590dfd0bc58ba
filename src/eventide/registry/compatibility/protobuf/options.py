"""Options as text, and in the order and with the names that the normalised text has them."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility.protobuf.element import Option, Word
from eventide.registry.compatibility.protobuf.names import Names

_ESCAPES = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    | {"\\": "\\\\", "'": "\\'", '"': '\\"'}
)


def statement(option: Option, tidy_up: bool) -> str:
    """The option as a line of its own."""
    return f"option {_option(option, tidy_up)};\n"


def bracketed(options: list[Option], tidy_up: bool) -> str:
    """The options as they stand behind a field; nothing if there are none."""
    return f" {_listed([_option(option, tidy_up) for option in options])}" if options else ""


def tidy(options: list[Option], names: Names, scope: tuple[str, ...]) -> list[Option]:
    """The options by name, the custom ones under their full names and as one value each where only one may be."""
    found: dict[str, list[Option]] = {}
    for option in options:
        full = names.resolve_extension(option.name, scope) if option.custom else None
        if full is not None:
            option = Option(full, _flat(option.value), custom=True)
        found.setdefault(option.name, []).append(option)
    result: list[Option] = []
    for name in sorted(found):
        field = names.extensions.get(name)
        if field is not None and field.label != "repeated":
            merged = found[name][0]
            for option in found[name][1:]:
                merged = Option(name, _merged(merged.value, option.value), custom=True)
            result.append(merged)
        else:
            result += found[name]
    return result


def _flat(value: Any) -> Any:
    return {value.name: _flat(value.value)} if isinstance(value, Option) else value


def _merged(before: Any, after: Any) -> Any:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    merged = dict(before)
    for key, value in after.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(merged[key], dict) and isinstance(value, dict):
            merged[key] = _merged(merged[key], value)
        else:
            first = merged[key] if isinstance(merged[key], list) else [merged[key]]
            rest = value if isinstance(value, list) else [value]
            merged[key] = first + [item for item in rest if item not in first]
    return merged


def _option(option: Option, tidy_up: bool) -> str:
    name = f"({option.name})" if option.custom else option.name
    if isinstance(option.value, Option):
        return f"{name}.{_option(option.value, tidy_up)}"
    if isinstance(option.value, list):
        return f"{name} = {_listed([_value(item, tidy_up) for item in option.value])}"
    return f"{name} = {_value(option.value, tidy_up)}"


def _value(value: Any, tidy_up: bool) -> str:
    if isinstance(value, Word):
        return _number(value) if tidy_up else str(value)
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        items = value.items()
        if tidy_up:
            items = {key: value[key] for key in sorted(value) if value[key] != []}.items()
        lines = [f"{key}: {_value(item, tidy_up)}" for key, item in items]
        return "{\n" + _indented(lines) + "}"
    if tidy_up and len(value) == 1:
        return _value(value[0], tidy_up)
    return "[\n" + _indented([_value(item, tidy_up) for item in value]) + "]"


def _listed(parts: list[str]) -> str:
    return f"[{parts[0]}]" if len(parts) == 1 else "[\n" + _indented(parts) + "]"


def _indented(parts: list[str]) -> str:
    text = ",\n".join(parts)
    return "".join(f"  {line}\n" for line in text.split("\n")) if parts else ""


def _number(word: Word) -> str:
    try:
        return str(int(word, 0))
    except ValueError:
        pass
    try:
        number = float(word)
    except ValueError:
        return str(word)
    if number != number or number in (float("inf"), float("-inf")):
        return str(word)
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return text or "0"
