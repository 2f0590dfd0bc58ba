"""History in Parquet or Delta: the new shape filled in, or a dropped old field brought back."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from eventide.errors import EventideError
from eventide.migration.upcast import Upcast

MARKS = "_eventide"


class HistoryRefused(EventideError):
    """History that cannot be rewritten as asked."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What a rewriting did: files written now, files found done, and rows in those written now."""

    files: int
    skipped: int
    rows: int


def fill(
    source: str,
    how: Upcast,
    name: str,
    *,
    target: str | None = None,
    spark: Any = None,
    history: str | None = None,
    key: Sequence[str] = (),
) -> Filled:
    """Rewrite the Parquet files below a directory so that each row has both shapes; in place unless a target is given.

    A file is written beside its target and renamed, then marked: stopped anywhere it can be run again, and goes on where
    it was. With Spark the files are shared out among its tasks; without, they are done one after the other here.

    With `history` and `key`, values that were recorded while both shapes were written are taken from there, row by row,
    before any is computed.
    """
    root, out = Path(source), Path(target or source)
    files = sorted(p for p in root.rglob("*.parquet") if not _hidden(p.relative_to(root)))
    if not files:
        raise HistoryRefused(f"There are no Parquet files below {source}.")
    marks = out / MARKS / name
    marks.mkdir(parents=True, exist_ok=True)
    jobs = [(str(f), str(out / f.relative_to(root)), str(marks / (_flat(f.relative_to(root)) + ".done"))) for f in files]
    waiting = [job for job in jobs if not _done(job)]
    work = partial(_rewrite, how, history, tuple(key))
    if spark is None:
        rows = [work(job) for job in waiting]
    else:
        parallel = spark.sparkContext.parallelize(waiting, max(len(waiting), 1))
        rows = parallel.map(work).collect() if waiting else []
    return Filled(len(waiting), len(jobs) - len(waiting), sum(rows))


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _flat(path: Path) -> str:
    return "+".join(path.parts)


def _done(job: tuple[str, str, str]) -> bool:
    """Is there a mark, and is the file still the one that was marked?"""
    _, target, mark = job
    try:
        said = json.loads(Path(mark).read_text())
        return Path(target).stat().st_size == said["size"]
    except (OSError, ValueError, KeyError):
        return False


def _rewrite(how: Upcast, history: str | None, key: tuple[str, ...], job: tuple[str, str, str]) -> int:
    source, target, mark = job
    frame = pl.read_parquet(source, hive_partitioning=False)
    if history is not None:
        frame = _recorded(frame, how, history, key)
    changed = how(frame)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    beside = f"{target}.{os.getpid()}.tmp"
    changed.write_parquet(beside)
    size = os.stat(beside).st_size
    os.replace(beside, target)
    Path(f"{mark}.tmp").write_text(json.dumps({"rows": len(changed), "size": size}))
    os.replace(f"{mark}.tmp", mark)
    return len(changed)


def _recorded(frame: pl.DataFrame, how: Upcast, history: str, key: tuple[str, ...]) -> pl.DataFrame:
    """The frame with the wanted columns as the dual-write history has them, null where it has none."""
    if not key:
        raise HistoryRefused("Which columns say that two rows are the same event? Give at least one with --key.")
    tops = sorted({p.partition(".")[0] for m in how.mappings for p in how.sides(m)[0]})
    kept = pl.scan_parquet(f"{history}/**/*.parquet", hive_partitioning=False, missing_columns="insert", extra_columns="ignore")
    there = [t for t in tops if t in kept.collect_schema()]
    once = kept.select(*key, *there).unique(subset=list(key), keep="first", maintain_order=True)
    joined = frame.lazy().drop(there, strict=False).join(once, on=list(key), how="left", maintain_order="left")
    return joined.collect()


def fill_delta(path: str, how: Upcast) -> dict[str, Any]:
    """Fill a Delta table in one commit: rows that have the wanted shape are left alone, so it can be repeated."""
    from deltalake import DeltaTable, write_deltalake

    table = DeltaTable(path)
    frame = pl.from_arrow(table.to_pyarrow_table())
    assert isinstance(frame, pl.DataFrame)
    changed = how(frame)
    if changed.equals(frame):
        return {"version": table.version(), "rows": 0}
    write_deltalake(path, changed.to_arrow(compat_level=pl.CompatLevel.oldest()), mode="overwrite", schema_mode="overwrite")
    return {"version": DeltaTable(path).version(), "rows": len(changed)}
