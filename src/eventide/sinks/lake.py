"""What table formats on files share: how Arrow types compare, and what a failing file system means."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.sinks.base import Held
from eventide.sinks.shape import PaneShape

PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EAGAIN,
    errno.EBUSY,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
}


def same_kind(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two Arrow types hold the same values; formats differ in string widths and in names of list items."""
    return str(_canonical(one)) == str(_canonical(other))


def _canonical(kind: Any) -> pa.DataType:
    if kinds.is_map(kind):
        return pa.map_(_canonical(kind.key_type), _canonical(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(part.name, _canonical(part.type)) for part in kind])
    if kinds.is_nested(kind):
        kind = cast(Any, kind)
        return pa.list_(pa.field("item", _canonical(kind.value_type)))
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    return pa.binary() if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) else kind


def file_error(where: str, cause: Exception) -> SinkError:
    """A full disk or a lost network may pass; a missing right will not."""
    said = f"{where}: {str(cause).strip()[:500]}"
    number = getattr(cause, "errno", None)
    full = "No space left on device" in said or number == errno.ENOSPC
    if number in PASSING or full:
        return SinkUnavailable(f"{said}; nothing of this delivery was applied")
    return SinkRefused(said)


SIGNATURE, GENERATION = "eventide.signature", "eventide.generation"
"""The properties of a table that say whose results stand in it."""


def labelled(shape: PaneShape, generation: int) -> dict[str, str]:
    """The properties of a table that a generation writes."""
    return {SIGNATURE: shape.signature, GENERATION: str(generation)}


def held_by(properties: Mapping[str, str], columns: list[str], shape: PaneShape, read: Callable[[str], Any]) -> Held | None:
    """What stands, by the properties of a table; of one that nobody noted, the highest generation that is read from it."""
    if GENERATION in properties:
        return Held(int(properties[GENERATION]), properties.get(SIGNATURE, ""))
    column = next((c for c in (shape.meta("generation"), "generation", "_generation") if c in columns), None)
    highest = pa.compute.max(read(column)).as_py() if column else None
    return None if highest is None else Held(int(highest), "")


def claim_by(held: Held | None, shape: PaneShape, generation: int, label: Callable[[dict[str, str]], None]) -> None:
    """Label a table where it does not say yet that this generation, or a newer one, writes it."""
    if held is None or held.generation < generation or not held.signature:
        label(labelled(shape, max(generation, held.generation if held else generation)))
