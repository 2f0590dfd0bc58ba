"""Options as text, and in the order and with the names that the normalised text has them."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility.protobuf.element import Field, Message, Option, Word
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
        option = Option(option.name, _qualified(option.value, names, scope), option.custom)
        found.setdefault(option.name, []).append(option)
    result: list[Option] = []
    for name in sorted(found):
        field = names.extension(name)
        if field is not None and field.label != "repeated":
            merged = found[name][0]
            for option in found[name][1:]:
                value = _merged(merged.value, option.value, _fields_of(field, names), names)
                merged = Option(name, value, custom=True)
            result.append(merged)
        else:
            result += found[name]
    return result


def _flat(value: Any) -> Any:
    return {value.name: _flat(value.value)} if isinstance(value, Option) else value


def _qualified(value: Any, names: Names, scope: tuple[str, ...]) -> Any:
    """The value with the full names of the extensions that it sets."""
    if isinstance(value, list):
        return [_qualified(item, names, scope) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        full = names.resolve_extension(key[1:-1], scope) if key.startswith("[") else None
        found.setdefault(key if full is None else f"[{full}]", _qualified(item, names, scope))
    return found


def _fields_of(field: Field | None, names: Names) -> dict[str, Field]:
    """The fields of the message that a field holds; none if that is not known."""
    found = names.find(field.type, names.package, ()) if field is not None else None
    if found is None or not isinstance(found.element, Message):
        return {}
    return {inner.name: inner for inner in found.element.all_fields()}


def _merged(before: Any, after: Any, fields: dict[str, Field], names: Names) -> Any:
    """Two values of one option: a singular field takes the last value, a repeated one collects them all."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    merged = dict(before)
    for key, value in after.items():
        field = fields.get(key)
        if key not in merged:
            merged[key] = value
        elif field is not None and field.label != "repeated":
            merged[key] = _merged(merged[key], value, _fields_of(field, names), names)
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
        number = float(word.rstrip("fF") if word[:2] not in ("0x", "0X") else word)
    except ValueError:
        return str(word)
    if number != number or number in (float("inf"), float("-inf")):
        return str(word)
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return text or "0"
