"""History in a Delta table: filled partition by partition, each in one commit, in batches that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from typing import Any

import polars as pl

from eventide.migration.data.history import NO_KEY, Filled, HistoryRefused, recorded
from eventide.migration.data.upcast import Upcast

_TRIES = 5
_ROWS = 100_000
_ARROW = pl.CompatLevel.oldest()


def fill_delta(path: str, how: Upcast, *, history: str | None = None, key: Sequence[str] = ()) -> dict[str, Any]:
    """Fill a Delta table so that each row has both shapes.

    Each partition is a commit of its own (a table without partitions is one), so that a fill that was stopped goes on
    with the partition it was in. Rows that have the wanted shape keep it, a partition without any other is not
    written, and rows that somebody adds meanwhile are kept: that partition is read again.
    """
    from deltalake import DeltaTable

    if history is not None and not key:
        raise HistoryRefused(NO_KEY)
    adapt = partial(_adapted, how, history, tuple(key))
    parts = [_Part(p) for p in _partitions(DeltaTable(path))]
    rows = [_fill(path, part, adapt) for part in parts]
    written = [n for n in rows if n]
    return {**asdict(Filled(len(written), len(parts) - len(written), sum(written))), "version": DeltaTable(path).version()}


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one partition, as Delta is asked for them."""

    values: dict[str, str | None]

    @property
    def filters(self) -> list[tuple[str, str, str]] | None:
        return [(name, "=", value or "") for name, value in self.values.items()] or None

    @property
    def predicate(self) -> str | None:
        return " AND ".join(_equals(name, value) for name, value in self.values.items()) or None


def _equals(name: str, value: str | None) -> str:
    column = '"' + name.replace('"', '""') + '"'
    return f"{column} IS NULL" if value is None else f"{column} = '" + value.replace("'", "''") + "'"


def _partitions(table: Any) -> list[dict[str, str | None]]:
    if not table.metadata().partition_columns:
        return [{}]
    return sorted(table.partitions(), key=repr)


def _adapted(how: Upcast, history: str | None, key: tuple[str, ...], frame: pl.DataFrame) -> pl.DataFrame:
    return how(frame if history is None else recorded(frame, how, history, key))


def _fill(path: str, part: _Part, adapt: Any) -> int:
    """Fill one partition; gives the rows written, none if there was nothing to do."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    for _ in range(_TRIES):
        table = DeltaTable(path)
        data = _data(table, part)
        if all(adapt(frame).equals(frame) for frame in _frames(data)):
            return 0
        try:
            return _write(table, data, part.predicate, adapt)
        except CommitFailedError:
            continue
    raise HistoryRefused(
        f"Others wrote to {path} ({part.predicate or 'the whole table'}) during each of {_TRIES} attempts, so that it was not filled; "
        "nothing is lost. Run it again when less is written there; what is filled stays filled."
    )


def _data(table: Any, part: _Part) -> Any:
    newer = "file_pruning_predicate"  # what deltalake calls `partitions` since 1.6
    known = signature(table.to_pyarrow_dataset).parameters
    return table.to_pyarrow_dataset(**{newer if newer in known else "partitions": part.filters})


def _frames(data: Any) -> Iterator[pl.DataFrame]:
    import pyarrow as pa

    for batch in data.to_batches(batch_size=_ROWS):
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _write(table: Any, data: Any, predicate: str | None, adapt: Any) -> int:
    """Overwrite what was read, in one commit on top of the version that was read."""
    import pyarrow as pa
    from deltalake import write_deltalake

    empty = pl.from_arrow(data.schema.empty_table())
    schema = adapt(empty).to_arrow(compat_level=_ARROW).schema
    rows = 0

    def batches() -> Iterator[Any]:
        nonlocal rows
        for frame in _frames(data):
            rows += len(frame)
            yield from adapt(frame).to_arrow(compat_level=_ARROW).cast(schema).to_batches()

    stream = pa.RecordBatchReader.from_batches(schema, batches())
    write_deltalake(table, stream, mode="overwrite", schema_mode="merge", predicate=predicate)
    return rows
