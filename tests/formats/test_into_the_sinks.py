"""Hostile values from files of every format into SQLite, PostgreSQL, DuckDB, Parquet and Delta."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.engine.feeds.columnar import arrow_kind
from eventide.kernel.arrow_types import small
from eventide.kernel.columns import DEAD
from eventide.sinks.shape import PaneShape
from tests.formats.hostile import SIMPLE, Type, json_text, tried
from tests.formats.test_values_come_back import csv_cell, read_file
from tests.sinks.panes import batch, delivery, pane
from tests.sinks.places import PLACES, World
from tests.sinks.test_values import same

TYPES: dict[str, Type] = {name.partition("(")[0] + "_" + str(n): kind for n, (name, kind) in enumerate(SIMPLE.items())}
BASE = datetime(2026, 1, 1, tzinfo=UTC)
SINKS = [kind for kind in PLACES if kind.name in ("sqlite", "postgres", "duckdb", "parquet", "delta")]


def kept_by_all(value: Any) -> Any:
    """Without what is known to be refused by one of the sinks: PostgreSQL has no NUL in a text."""
    return value.replace("\x00", "") if isinstance(value, str) else value


rows_of_values = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), kind.values).map(kept_by_all) for name, kind in TYPES.items()}),
    min_size=25, max_size=25,
)  # fmt: skip


def drawn_rows() -> list[dict[str, Any]]:
    found: list[list[dict[str, Any]]] = []

    @settings(tried(3), derandomize=True)
    @given(rows_of_values)
    def take(rows: list[dict[str, Any]]) -> None:
        found.append(rows)

    take()
    drawn = [{name: row[name] for name in TYPES} for rows in found for row in rows]
    return [{"at": BASE, "id": str(n), **row} for n, row in enumerate(drawn)]


def write(rows: list[dict[str, Any]], form: str, path: Path) -> None:
    rng = random.Random(7)
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "json":
        path.write_text("".join(json_text(row, rng) + "\n" for row in rows), newline="")
    elif form == "csv":
        lines = [",".join(rows[0]), *[",".join(csv_cell(v, rng) for v in row.values()) for row in rows]]
        path.write_text("\n".join(lines), newline="")
    elif form == "avro":
        fields = [{"name": "at", "type": SIMPLE["timestamp"].avro}, {"name": "id", "type": "string"}]
        fields += [{"name": name, "type": ["null", kind.avro]} for name, kind in TYPES.items()]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "Row", "fields": fields}, rows)
    else:
        kinds = {"at": SIMPLE["timestamp"].kind, "id": SIMPLE["string"].kind, **{n: t.kind for n, t in TYPES.items()}}
        pq.write_table(pa.table({n: pa.array([r[n] for r in rows], arrow_kind(k)) for n, k in kinds.items()}), path)


def alike(found: Any, wanted: Any) -> bool:
    if wanted is None or found is None:
        return found is None and wanted is None
    if isinstance(wanted, bool):
        return bool(found) == wanted
    if isinstance(wanted, float):
        return (math.isnan(wanted) and math.isnan(float(found))) or (
            float(found) == wanted or np.float32(found) == wanted
        )  # PostgreSQL writes the shortest text that a single is read back from
    return found == wanted if isinstance(wanted, str) else same(found, wanted)


@pytest.mark.parametrize("form", ["json", "csv", "avro", "parquet"])
def test_values_of_files_reach_every_sink_as_they_were_written(
    form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = drawn_rows()
    write(rows, form, tmp_path / f"1.{form}")
    kinds = {"at": SIMPLE["timestamp"].kind, "id": SIMPLE["string"].kind, **{name: kind.kind for name, kind in TYPES.items()}}
    frame = read_file(tmp_path / f"1.{form}", form, kinds)
    assert (len(frame), frame[DEAD].count()) == (len(rows), 0)
    shape = PaneShape((("id", pa.string()),), tuple((name, small(arrow_kind(kind.kind))) for name, kind in TYPES.items()))
    world = World(tmp_path, postgres_server=request.getfixturevalue("postgres_server"))
    for place in [kind(world) for kind in SINKS]:
        writer = place.sink().open(place.output, shape)
        panes = [{**pane(row["id"], 0), **row} for row in frame.select("id", *TYPES).to_dicts()]
        writer.deliver(batch([{n: p[n] for n in shape.schema.names} for p in panes], shape), delivery(place.output, 0))
        writer.close()
        found = {row["id"]: row for row in place.rows(shape)}
        wrong = [(n, r[n], found[r["id"]][n]) for r in rows for n in TYPES if not alike(found[r["id"]][n], r[n])]
        assert (len(found), wrong) == (len(rows), []), place.name
