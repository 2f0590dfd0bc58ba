"""What table formats on files share: how Arrow types compare, and what a failing file system means."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.sinks.base import Held
from eventide.sinks.chunks import narrowed
from eventide.sinks.shape import PaneShape

LASTING = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL}
"""Errors of a file system that come again however often one tries."""
DENIED = re.compile(
    r"access.?denied|\b40[13]\b|forbidden|unauthorized|invalid.?access.?key|signature.?does.?not.?match|no.?such.?bucket"
    r"|bucket.{0,40}not.?found|invalid.?token|(no|missing|locate|provide).{0,20}credentials|region must be set",
    re.IGNORECASE,
)
"""What an object store says of rights, keys and buckets; each library spells it differently."""
STORE = re.compile(
    r"generic \w+ error|object ?store error|error sending request|error decoding response|connection (reset|refused|closed)",
    re.I,
)
"""How libraries that wrap the error of a store in one of their own let it shine through."""
TROUBLE = {
    "OSError",
    "EOFError",
    "ConnectionError",
    "TimeoutError",
    "Timeout",
    "OperationalError",
    "InterfaceError",
    "HTTPError",
}
"""Names of errors, of whatever library, that tell of a file system, network or server."""


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


CUT_SHORT = re.compile(
    r"file size is \d+ bytes|magic bytes not found|no schema found in avro|end of (stream|file)|deserialize thrift|corrupt|truncated",
    re.IGNORECASE,
)
"""Files are written whole. One that reads as cut short was most likely an answer that broke off, which clients of object stores do not
always notice: it is read again, and if it stays so, the error says so in the end."""


def file_error(where: str, cause: Exception) -> SinkError:
    """A full disk, a lost network or a store that is down may pass; a missing right, or a value that does not fit, will not."""
    said = f"{where}: {' '.join(_COLOURS.sub('', str(cause)).split())[:500]}"
    kinds_of = {kind.__name__ for kind in type(cause).__mro__}
    trouble = not kinds_of.isdisjoint(TROUBLE) or STORE.search(said) is not None or CUT_SHORT.search(said) is not None
    if trouble and getattr(cause, "errno", None) not in LASTING and not DENIED.search(str(cause)):
        return SinkUnavailable(f"{said}; nothing of this delivery was applied")
    return SinkRefused(said)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m|↳")


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A file written before an aggregate was added, with nulls where it knows nothing."""
    columns = {
        f.name: table.column(f.name) if f.name in table.column_names else pa.nulls(table.num_rows, f.type) for f in schema
    }
    return narrowed(pa.table(columns), schema)


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
