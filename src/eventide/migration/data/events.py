"""Events to check: from files, or from a Kafka topic by way of a registry, as Polars frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from eventide.errors import EventideError

_ROWS = 50_000
_TEXT = (".ndjson", ".jsonl", ".json", ".csv")


class Unreadable(EventideError):
    """A file or a record whose format is not known."""


def from_files(paths: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """The events of Parquet, NDJSON, JSON, CSV and Avro files, one frame per file; a directory stands for its files."""
    for path in paths:
        inside = (
            sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))) if path.is_dir() else [path]
        )
        for file in inside:
            try:
                yield _read(file)
            except (pl.exceptions.PolarsError, ValueError, OSError) as error:
                raise Unreadable(f"{file} cannot be read: {error}") from error


def _read(path: Path) -> pl.DataFrame:
    kind = path.suffix.lower()
    if kind in _TEXT and not _has_text(path):
        return pl.DataFrame()  # no events, which is an answer; Polars would call it an error
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


def _has_text(path: Path) -> bool:
    with path.open("rb") as file:
        return any(chunk.strip() for chunk in iter(lambda: file.read(1 << 16), b""))


def from_records(records: Iterator[tuple[int, bytes]], client: Any, since: int | None) -> Iterator[tuple[bool, pl.DataFrame]]:
    """The events of records with a schema id in front, or of bare JSON, in frames of some ten thousand.

    Each frame comes with whether its records were written before `since` (in milliseconds).
    """
    decode = _Decoder(client)
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for written, record in records:
        early = since is not None and written < since
        rows[early].append(decode(record))
        if len(rows[early]) == _ROWS:
            yield early, _frame(rows[early])
            rows[early] = []
    for early, rest in rows.items():
        if rest:
            yield early, _frame(rest)


class _Decoder:
    """Records as dictionaries; one reader for each schema."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._readers: dict[int, Any] = {}

    def __call__(self, record: bytes) -> dict[str, Any]:
        from eventide.engine.feeds.protobuf import ProtobufReader
        from eventide.registry.serialisers import AvroDeserialiser, JsonDeserialiser
        from eventide.registry.wire import WireError, decode_header

        try:
            schema_id, _ = decode_header(record)
        except WireError:
            return _bare(record)
        if schema_id not in self._readers:
            kinds = {"AVRO": AvroDeserialiser, "JSON": JsonDeserialiser, "PROTOBUF": ProtobufReader}
            self._readers[schema_id] = kinds[self._client.schema(schema_id).kind](self._client)
        found: dict[str, Any] = self._readers[schema_id](record)
        return found


def _bare(record: bytes) -> dict[str, Any]:
    try:
        found = json.loads(record)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreadable(f"A record begins with {record[:20]!r}: it has no schema id in front, and it is no JSON object.")
    return found


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)
