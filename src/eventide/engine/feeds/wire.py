"""Records with a schema id in front, decoded on the worker: by the writer's schema, into the columns that the reader wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl

from eventide.engine.feeds.columnar import Kinds, fitter, frame_of
from eventide.engine.feeds.protobuf import ProtobufReader
from eventide.engine.feeds.text_times import ISO, Times
from eventide.engine.feeds.values import Misfit, parsed, shown
from eventide.errors import EventideError
from eventide.kernel.columns import NO_VALUE
from eventide.registry.wire import HEADER_SIZE


class Undecodable(EventideError):
    """A record could not be read and the source is declared to stop then."""


@dataclass(frozen=True)
class Registry:
    """Which registry to ask, and what to do when a record cannot be read."""

    url: str
    name: str = "eventide"
    reader: str | None = None
    references: tuple[tuple[str, str], ...] = ()
    """The texts of the schemas that the reader's schema names."""
    on_unreadable: str = "dead_letter"
    on_registry_down: str = "stop"
    auth: tuple[str, str] | None = field(default=None, repr=False)


def decode_wire(values: pl.Series, kind: str, kinds: Kinds, registry: Registry, times: Times = ISO) -> pl.DataFrame:
    """The columns of each record, and why a record is a dead letter; never a row of nulls without a reason."""
    from eventide.registry.client import RegistryUnavailable
    from eventide.registry.wire import WireError

    read, fitted = _reader(kind, registry), fitter(kinds, times)
    rows: list[list[Any] | None] = []
    reasons: list[str | None] = []
    for value in values.to_list():
        row, reason = None, None
        try:
            if value is None:
                reason = NO_VALUE
            else:
                record = read(value)
                if not isinstance(record, dict):
                    raise Misfit(f"not a record but {shown(record)}")
                row = fitted(record)
        except WireError as error:
            reason = f"{error.kind}: {error}"
        except Misfit as error:
            reason = str(error)
        except RegistryUnavailable as error:
            if registry.on_registry_down == "stop":
                raise
            reason = f"registry_down: {error}"
        if reason is not None and registry.on_unreadable == "stop":
            raise Undecodable(
                f'{reason}. The source is declared with on_unreadable="stop"; nothing of this batch was committed.'
            )
        rows.append(row)
        reasons.append(reason)
    return frame_of(rows, kinds, reasons)


@lru_cache(maxsize=64)
def _reader(kind: str, registry: Registry) -> Callable[[bytes], Any]:
    """One reader for each registry and worker: schemas are fetched once, an id first seen in mid-stream then."""
    from eventide.registry.serialisers import AvroDeserialiser, JsonDeserialiser

    client = _client(registry)
    if kind == "avro":
        return AvroDeserialiser(client, registry.reader, dict(registry.references))
    if kind == "json":
        return _checked_json(JsonDeserialiser(client))
    return ProtobufReader(client)


def _checked_json(check: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """A record that its schema takes, with numbers as they are written."""

    def read(record: bytes) -> Any:
        check(record)
        return parsed(record[HEADER_SIZE:])

    return read


@lru_cache(maxsize=64)
def _client(registry: Registry) -> Any:
    from eventide.registry.client import RegistryClient

    return RegistryClient(registry.url, auth=registry.auth, name=registry.name)


def report_usage(registry: Registry) -> None:
    """Tell the registry which schema ids this worker has decoded."""
    _client(registry).report_usage()
