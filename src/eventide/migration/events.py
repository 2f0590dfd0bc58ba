"""Events to check: from files, or from a Kafka topic by way of a registry, as Polars frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from eventide.errors import EventideError

_ROWS = 50_000


class Unreadable(EventideError):
    """A file whose format is not known."""


def from_files(paths: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """The events of Parquet, NDJSON, JSON, CSV and Avro files, one frame per file; a directory stands for its files."""
    for path in paths:
        inside = (
            sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))) if path.is_dir() else [path]
        )
        for file in inside:
            yield _read(file)


def _read(path: Path) -> pl.DataFrame:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return pl.read_parquet(path)
    if kind in (".ndjson", ".jsonl"):
        return pl.read_ndjson(path, infer_schema_length=None)
    if kind == ".json":
        text = path.read_text()
        if text.lstrip().startswith("["):
            return pl.DataFrame(json.loads(text), infer_schema_length=None, strict=False)
        return pl.read_ndjson(path, infer_schema_length=None)
    if kind == ".csv":
        return pl.read_csv(path, infer_schema_length=None)
    if kind == ".avro":
        return pl.read_avro(path)
    raise Unreadable(
        f"{path} ends in {kind or 'nothing'}; events are read from .parquet, .ndjson, .jsonl, .json, .csv and .avro."
    )


def from_records(records: Iterator[bytes], client: Any) -> Iterator[pl.DataFrame]:
    """The events of records with a schema id in front, or of bare JSON, in frames of some ten thousand."""
    from eventide.registry.serialisers import AvroDeserialiser, JsonDeserialiser
    from eventide.registry.wire import WireError, decode_header

    readers: dict[int, Any] = {}
    rows: list[dict[str, Any]] = []
    for record in records:
        try:
            schema_id, _ = decode_header(record)
        except WireError:
            rows.append(json.loads(record))
        else:
            if schema_id not in readers:
                kind = client.schema(schema_id).kind
                readers[schema_id] = AvroDeserialiser(client) if kind == "AVRO" else JsonDeserialiser(client)
            rows.append(readers[schema_id](record))
        if len(rows) == _ROWS:
            yield _frame(rows)
            rows = []
    if rows:
        yield _frame(rows)


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)
