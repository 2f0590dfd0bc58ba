"""Whether a default is a value of its field's type, as Java judges it when a schema is registered."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility.avro.node import Field, Node

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)


def is_valid(node: Node, value: Any) -> bool:
    """Whether the JSON value fits the type; of a union, whether it fits any branch."""
    return _Judge().fits(node, value)


class _Judge:
    """Judges one default; what was refused once is not tried again, or nested unions would take exponential time."""

    def __init__(self) -> None:
        self._refused: set[tuple[int, int]] = set()

    def fits(self, node: Node, value: Any) -> bool:
        if node.kind not in ("array", "map", "union", "record", "?"):
            return _is_scalar(node.kind, value)
        pair = (id(node), id(value))
        if pair in self._refused:
            return False
        fits = self._fits_compound(node, value)
        if not fits:
            self._refused.add(pair)
        return fits

    def _fits_compound(self, node: Node, value: Any) -> bool:
        if node.kind == "union":
            return any(self.fits(branch, value) for branch in node.branches)
        if node.kind == "array":
            return isinstance(value, list) and all(self.fits(node.item, item) for item in value)
        if not isinstance(value, dict):
            return False
        if node.kind == "map":
            return all(self.fits(node.item, item) for item in value.values())
        return all(self._field_fits(field, value) for field in node.fields)

    def _field_fits(self, field: Field, record: dict[str, Any]) -> bool:
        if field.name in record:
            return self.fits(field.type, record[field.name])
        return field.has_default  # it was judged when its own record was read


def _is_scalar(kind: str, value: Any) -> bool:
    if kind in ("string", "bytes", "enum", "fixed"):
        return isinstance(value, str)
    if kind == "int" or kind == "long":
        return isinstance(value, int) and not isinstance(value, bool) and value in (_INT if kind == "int" else _LONG)
    if kind == "float" or kind == "double":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    return value is None
